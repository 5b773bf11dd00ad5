"""The tables of MedForget's report, in percent as the paper has them, and its published Tables 3 and 5."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from medunlearn.papers.medforget.partitions import LEVELS
from medunlearn.papers.medforget.sweep import (
    CLASSIFICATION,
    CLOZE,
    FACTUALITY,
    FLAT,
    GEN_SCORE,
    GROUPS,
    IDENTIFIERS,
    IDENTITIES,
    ROUGE,
    LevelMeasure,
    LevelResults,
    flat,
)
from medunlearn.papers.sweeps.figures import name_of
from medunlearn.papers.sweeps.models import REFERENCES, TARGET_MODEL, SweepNumber, Who, unlearned
from medunlearn.reports.blocks import Cell, Table
from medunlearn.reports.tables import records
from medunlearn.reports.words import ABSENT, UNSCORED
from medunlearn.results.contrasts import Contrast

TABLE_3 = (GEN_SCORE, CLASSIFICATION, CLOZE)
TABLE_5 = (ROUGE, FACTUALITY, GEN_SCORE)
PUBLISHED_TABLES = {3: TABLE_3, 5: TABLE_5}
VANILLA = "Vanilla"
GIVEN = {
    "none": "no identifier",
    "study": "study",
    "patient": "patient, study",
    "institution": "institution, patient, study",
}

Key = tuple[str, Who, str, str]
"""Level (of the target: every one), model, set, measure."""


@cache
def published() -> dict[str, Any]:
    """The published numbers: ``setting``, ``table_3``, ``table_5``, ``figures`` and ``contradictions``."""
    text = files("medunlearn.papers.medforget").joinpath("published.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    return content


def published_methods() -> list[str]:
    """The paper's methods, by the names that ours have."""
    rows = published()["table_3"]["rows"]
    return [name for name in dict.fromkeys(str(row[0]) for row in rows) if name != VANILLA]


@cache
def published_numbers(number: int) -> dict[Key, float]:
    """Table 3 or 5, as shares of 1."""
    places = [(group.name, measure.name) for group in GROUPS for measure in PUBLISHED_TABLES[number]]
    return {
        (level, TARGET_MODEL if method == VANILLA else unlearned(method), *place): percent / 100
        for method, level, *percents in published()[f"table_{number}"]["rows"]
        for place, percent in zip(places, percents, strict=True)
    }


def published_number(number: int, level: str, who: Who, group: str, measure: str) -> SweepNumber | None:
    """A number of Table 3 or 5 in the form of one of ours; it has no interval."""
    key = ("" if who == TARGET_MODEL else level, who, group, measure)
    value = published_numbers(number).get(key)
    return None if value is None else SweepNumber(value, None, None, 0, 0, 0)


def published_table(number: int) -> Table:
    """The paper's Table 3 or 5 in the form of ours."""
    measures = PUBLISHED_TABLES[number]
    lines: list[tuple[Who, str]] = [(TARGET_MODEL, "")]
    lines += [(unlearned(method), level) for method in published_methods() for level in reversed(LEVELS)]
    rows = (
        (
            Cell(who[1] or "target (vanilla)"),
            Cell(level or ABSENT),
            *(
                percent_cell(published_number(number, level, who, group.name, measure.name))
                for group in GROUPS
                for measure in measures
            ),
        )
        for who, level in lines
    )
    return Table(_heads(measures), tuple(rows))


def _heads(measures: Sequence[LevelMeasure]) -> tuple[Cell, ...]:
    sets = [Cell(group.head, measure.title) for group in GROUPS for measure in measures]
    return (Cell("Model"), Cell("Split"), *sets)


def table_3(results: LevelResults) -> Table | None:
    """Generation, classification and cloze on the four sets; with intervals, target and retrained model."""
    return _levels_table(results, results.tasks)


def table_5(results: LevelResults) -> Table | None:
    """ROUGE-L, factuality and Gen Score apart; those that were measured."""
    return _levels_table(results, results.measured(*TABLE_5))


def _levels_table(results: LevelResults, measures: Sequence[LevelMeasure]) -> Table | None:
    places = [(group.name, measure.name) for group in GROUPS for measure in measures]

    def cells(split: str, who: Who) -> Iterator[Cell]:
        return (percent_cell(results.number(split, who, *place)) for place in places)

    return records(_heads(measures), _model_rows(results, cells, results.has))


def _model_rows(
    results: LevelResults, cells: Callable[[str, Who], Iterator[Cell]], has: Callable[[str, Who], bool]
) -> Iterator[tuple[Cell, ...]]:
    """One row a model and split, the references first."""
    for who in (*REFERENCES, *map(unlearned, results.methods)):
        for scope in results.scopes:
            if has(scope.split, who):
                yield (Cell(name_of(who)), Cell(scope.split), *cells(scope.split, who))


def attack_table(results: LevelResults) -> Table | None:
    """Figure 6's numbers: one row a model and split, the identifiers given in columns."""
    names = set(results.attacked["measure"])
    steps = [(measure, step) for measure in results.tasks if measure.name in names for step in IDENTIFIERS]

    def numbers(split: str, who: Who) -> list[SweepNumber | None]:
        return [results.attack(split, who, step, measure.name) for measure, step in steps]

    def cells(split: str, who: Who) -> Iterator[Cell]:
        return map(percent_cell, numbers(split, who))

    heads = [Cell(measure.title, f"given {GIVEN[step]}") for measure, step in steps]
    return records(
        (Cell("Model"), Cell("Split"), *heads),
        _model_rows(results, cells, lambda split, who: any(numbers(split, who))),
    )


def retrained_table(results: LevelResults) -> Table | None:
    """Unlearned minus retrained model, on the four sets."""
    rows = []
    for method in results.methods:
        for scope in results.scopes:
            cells = [
                results.contrast("over retrained", scope.split, method, group.name, measure.name)
                for group in GROUPS
                for measure in results.tasks
            ]
            if any(contrast.value is not None for contrast in cells):
                rows.append((Cell(method), Cell(scope.split), *map(difference_cell, cells)))
    return records(_heads(results.tasks), rows)


def identity_table(results: LevelResults) -> Table | None:
    """Remaining knowledge of a level's names and sections, after hierarchical and after flat unlearning."""
    measures = results.measured(*IDENTITIES, *results.tasks)
    pairs = [(unlearned(method), flat(method)) for method in results.methods]
    rows = []
    for scope in results.levels:
        for who in (*REFERENCES, *(who for pair in pairs for who in pair)):
            if results.has(scope.split, who):
                name = f"{who[1]}, unlearned on {scope.partner}" if who[0] == FLAT else name_of(who)
                cells = (results.number(scope.split, who, "forget", measure.name) for measure in measures)
                rows.append((Cell(scope.split), Cell(name), *map(percent_cell, cells)))
    heads = [Cell(measure.title, "forget set") for measure in measures]
    return records((Cell("Split"), Cell("Model"), *heads), rows)


def scopes_table(results: LevelResults) -> Table | None:
    """Forget sets of the splits."""
    names = ("Split", "Forgets", "Nodes", "Sections", "Questions", "Flat split of the same amount")
    rows = [
        (
            *(scope.split, scope.level, f"{scope.forget:,} of {scope.total:,}"),
            *(f"{scope.sections:,}", f"{scope.questions:,}", scope.partner or ABSENT),
        )
        for scope in results.scopes
    ]
    return records(map(Cell, names), (tuple(map(Cell, row)) for row in rows))


def percent_cell(number: SweepNumber | None) -> Cell:
    """A number in percent with its interval; a dash where nothing was asked, ``unscored`` where no score came."""
    if number is None:
        return Cell(ABSENT)
    if number.value is None:
        return Cell(UNSCORED)
    one = number.percent
    span = "" if one.low is None or one.high is None else f"[{one.low:.1f}, {one.high:.1f}]"
    unscored = f"{one.n_unscored:,} unscored" if one.n_unscored else ""
    return Cell(f"{one.value:.1f}", ", ".join(part for part in (span, unscored) if part))


def difference_cell(contrast: Contrast) -> Cell:
    """A difference in percent points with its interval, or why there is none."""
    if contrast.value is None:
        return Cell(ABSENT, contrast.reason)
    low, high = contrast.low, contrast.high
    span = "" if low is None or high is None else f"[{100 * low:+.1f}, {100 * high:+.1f}]"
    return Cell(f"{100 * contrast.value:+.1f}", span or contrast.reason)
