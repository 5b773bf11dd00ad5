"""The tables of MedForget's report, in percent as the paper has them, and its published Tables 3 and 5."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from medunlearn.papers.medforget.measures import (
    CLASSIFICATION,
    CLOZE,
    CODE_CLASSIFICATION,
    CODE_CLOZE,
    CODE_FACTUALITY,
    CODE_GEN_SCORE,
    CODE_ROUGE,
    COMMON,
    FACTUALITY,
    GAP,
    GEN_SCORE,
    GROUPS,
    IDENTIFIERS,
    IDENTITIES,
    REPHRASED,
    ROUGE,
    SETS,
    VARIANTS,
    LevelMeasure,
)
from medunlearn.papers.medforget.partitions import LEVELS, PARAPHRASE
from medunlearn.papers.medforget.sequence import CAME_BACK, SHOWN
from medunlearn.papers.medforget.sweep import FLAT, LevelResults, Scope, flat
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.papers.sweeps.figures import name_of
from medunlearn.papers.sweeps.models import REFERENCES, RETRAINED_MODEL, TARGET_MODEL, Who, unlearned
from medunlearn.papers.sweeps.results import SweepNumber
from medunlearn.papers.sweeps.tables import cell_table
from medunlearn.reports.blocks import Cell, Table
from medunlearn.reports.formatting import ABSENT, UNSCORED
from medunlearn.reports.readings import number, rows_of

OWN = {3: (GEN_SCORE, CLASSIFICATION, CLOZE), 5: (ROUGE, FACTUALITY, GEN_SCORE)}
PUBLISHED = {
    3: (CODE_GEN_SCORE, CODE_CLASSIFICATION, CODE_CLOZE),
    5: (CODE_ROUGE, CODE_FACTUALITY, CODE_GEN_SCORE),
}
"""Measures of the paper's Tables 3 and 5: ours, and those that the published numbers are in."""
VANILLA = "Vanilla"
FOUR = tuple(group.name for group in GROUPS)
GAP_HEAD = "Retain minus forget ↑"
GIVEN = {
    "none": "no identifier",
    "study": "study",
    "patient": "patient, study",
    "institution": "institution, patient, study",
}


def published_numbers(number: int) -> pd.DataFrame:
    """Table 3 or 5 as shares of 1: level (of the target none), role, method, group, measure, value."""
    places = [(group.name, measure.name) for group in GROUPS for measure in PUBLISHED[number]]
    rows = [
        (level, *(TARGET_MODEL if method == VANILLA else unlearned(method)), *place, percent / 100)
        for method, level, *percents in paper_yaml("medforget", "published")[f"table_{number}"]["rows"]
        for place, percent in zip(places, percents, strict=True)
    ]
    return pd.DataFrame(rows, columns=["level", "role", "method", "group", "measure", "value"])


def published_results(number: int) -> LevelResults:
    """Table 3 or 5 as results of a sweep whose splits are called as the levels; no number has an interval."""
    rows = published_numbers(number)
    target = rows[rows["role"] == "target"]
    numbers = pd.concat([rows, *(target.assign(level=level) for level in LEVELS)])
    numbers = numbers.rename(columns={"level": "split"}).assign(low=None, high=None)
    return LevelResults(
        splits=tuple(Scope(level, level, 0, 0, 0, 0) for level in LEVELS),
        numbers=numbers,
        contrasts=pd.DataFrame(),
        methods=tuple(dict.fromkeys(rows.loc[rows["method"] != "", "method"])),
        contexts=(),
    )


def published_table(number: int) -> Table | None:
    """The paper's Table 3 or 5 in the form of ours."""
    results = published_results(number)
    models = [(unlearned(method), level) for method in results.methods for level in reversed(LEVELS)]
    return _levels_table(results, PUBLISHED[number], [(TARGET_MODEL, ""), *models])


def table_3(results: LevelResults) -> Table | None:
    """Generation, classification and cloze on those of the four sets that were asked, and the gap; with intervals,
    target and retrained model."""
    asked = set(results.numbers["group"])
    return _levels_table(results, results.tasks, _models(results), [name for name in (*FOUR, GAP) if name in asked])


def common_table(results: LevelResults) -> Table | None:
    """The forget set and its rephrased twin on the sections that every level forgets; none where these are all."""
    if not results.common or {scope.sections for scope in results.levels} == {results.common}:
        return None
    levels = {scope.split for scope in results.levels}
    models = [(who, split) for who, split in _models(results) if split in levels]
    return _levels_table(results, results.tasks, models, COMMON.values())


def varied_table(results: LevelResults) -> Table | None:
    """The rephrased set and its parts, and paraphrases that were trained on; none where there is nothing but it."""
    groups = [name for name in (*REPHRASED, PARAPHRASE) if name in set(results.numbers["group"])]
    if groups in ([], [REPHRASED[0]]):
        return None
    return _levels_table(results, results.tasks, _models(results), groups)


def modality_table(results: LevelResults) -> Table | None:
    """The same facts asked on the image and on the study's name alone; none where they were not."""
    groups = ("forget", "text", "retain", "retain text")
    if "text" not in set(results.numbers["group"]):
        return None
    return _levels_table(results, results.tasks, _models(results), groups)


def brought_back_table(results: LevelResults) -> Table | None:
    """Gain from names: an unlearned model's change, the target's, and the difference, in percent points."""
    names = set(results.attacked["measure"])
    measures = [measure for measure in results.tasks if measure.name in names]
    steps = [(measure, step) for measure in measures for step in IDENTIFIERS[1:]]
    rows = []
    for method in results.methods:
        for scope in results.splits:
            for title, name in (
                ("change", "change"),
                ("target's change", "target's change"),
                ("brought back", "brought back"),
            ):
                numbers = [
                    results.contrast(name, scope.split, method, f"given {step}", measure.name)
                    for measure, step in steps
                ]
                if any(number.value is not None for number in numbers):
                    rows.append((method, scope.split, title, *map(difference_cell, numbers)))
    heads = (Cell(measure.title, f"given {GIVEN[step]}") for measure, step in steps)
    return cell_table(("Model", "Split", "", *heads), rows)


def table_5(results: LevelResults) -> Table | None:
    """ROUGE-L, factuality and Gen Score apart; those that were measured."""
    return _levels_table(results, results.measured(*OWN[5]), _models(results))


def variants_table(results: LevelResults) -> Table | None:
    """Our models by the published code's measures; beside each number the published one of its method and level."""
    ours = paper_yaml("medforget", "published")["methods"]
    numbers = published_numbers(3).replace({"method": ours})
    published = numbers.set_index(["level", "method", "group", "measure"])["value"].to_dict()
    levels = {scope.split: scope.level for scope in results.splits}
    measures = results.measured(*VARIANTS)
    rows = []
    for who, split in _models(results) if measures else ():
        level = "" if who == TARGET_MODEL else levels[split]
        cells = [
            _beside(
                percent_cell(results.number(split, who, group.name, measure.name)),
                published.get((level, who[1], group.name, measure.name)) if who != RETRAINED_MODEL else None,
            )
            for group in GROUPS
            for measure in measures
        ]
        rows.append((name_of(who), split, *cells))
    return cell_table(_heads(measures), rows)


def _beside(cell: Cell, published: float | None) -> Cell:
    """A number with the published one in its note."""
    if published is None or cell.text == ABSENT:
        return cell
    return replace(cell, note=", ".join(filter(None, (cell.note, f"paper {100 * published:.2f}"))))


def _levels_table(
    results: LevelResults,
    measures: Sequence[LevelMeasure],
    models: Iterable[tuple[Who, str]],
    groups: Iterable[str] = FOUR,
) -> Table | None:
    groups = tuple(groups)
    rows = (
        (
            name_of(who) if split else "target (vanilla)",
            split or ABSENT,
            *(
                percent_cell(results.number(split, who, group, measure.name))
                for group in groups
                for measure in measures
            ),
        )
        for who, split in models
    )
    return cell_table(_heads(measures, groups), rows)


def _heads(measures: Sequence[LevelMeasure], groups: Iterable[str] = FOUR) -> list[Cell | str]:
    heads = {name: group.head for name, group in SETS.items()} | {GAP: GAP_HEAD}
    return ["Model", "Split", *(Cell(heads[name], measure.title) for name in groups for measure in measures)]


def _models(results: LevelResults) -> list[tuple[Who, str]]:
    """Every evaluated model and split, the references first."""
    everyone = (*REFERENCES, *map(unlearned, results.methods))
    return [(who, scope.split) for who in everyone for scope in results.splits if results.has(scope.split, who)]


def attack_table(results: LevelResults) -> Table | None:
    """Figure 6's numbers: one row a model and split, the identifiers given in columns."""
    names = set(results.attacked["measure"])
    steps = [(measure, step) for measure in results.tasks if measure.name in names for step in IDENTIFIERS]
    rows = (
        (name_of(who), split, *map(percent_cell, numbers))
        for who, split in _models(results)
        if any(numbers := [results.number(split, who, f"given {step}", measure.name) for measure, step in steps])
    )
    return cell_table(
        ("Model", "Split", *(Cell(measure.title, f"given {GIVEN[step]}") for measure, step in steps)), rows
    )


def sequence_table(results: LevelResults) -> Table | None:
    """Requests one after the other: a row a method and step."""
    numbers = results.sequence
    if numbers.empty:
        return None
    measures = [m for m in results.tasks if m.name in set(numbers.loc[numbers["value"].notna(), "measure"])]
    by_place = {(row["method"], row["step"], row["measure"], row["set"]): row for row in rows_of(numbers)}
    steps = {(row["method"], row["step"]): row["split"] for row in by_place.values()}
    rows = [
        (
            method,
            f"{step}: {split}",
            *(
                _sequence_cell(by_place[method, step, measure.name, name], signed=name == CAME_BACK)
                for measure in measures
                for name in SHOWN
            ),
        )
        for (method, step), split in steps.items()
    ]
    heads = (Cell(measure.title, head) for measure in measures for head in SHOWN.values())
    return cell_table(("Model", "Request", *heads), rows)


def _sequence_cell(row: Mapping[str, Any], *, signed: bool) -> Cell:
    value, low, high = (number(row[name]) for name in ("value", "low", "high"))
    if value is None:
        return Cell(ABSENT)
    shown = SweepNumber(value, low, high, 0, 0, int(row["n_subjects"]))
    return difference_cell(shown) if signed else percent_cell(shown)


def retrained_table(results: LevelResults) -> Table | None:
    """Unlearned minus retrained model, on the four sets."""
    rows = []
    for method in results.methods:
        for scope in results.splits:
            numbers = [
                results.contrast("over retrained", scope.split, method, group.name, measure.name)
                for group in GROUPS
                for measure in results.tasks
            ]
            if any(number.value is not None for number in numbers):
                rows.append((method, scope.split, *map(difference_cell, numbers)))
    return cell_table(_heads(results.tasks), rows)


def identity_table(results: LevelResults) -> Table | None:
    """Remaining knowledge of a level's names and sections, after hierarchical and after flat unlearning."""
    measures = results.measured(*IDENTITIES, *results.tasks)
    models = (*REFERENCES, *(who for method in results.methods for who in (unlearned(method), flat(method))))
    rows = (
        (
            scope.split,
            f"{who[1]}, unlearned on {scope.partner}" if who[0] == FLAT else name_of(who),
            *(percent_cell(results.number(scope.split, who, "forget", measure.name)) for measure in measures),
        )
        for scope in results.levels
        for who in models
        if results.has(scope.split, who)
    )
    return cell_table(("Split", "Model", *(Cell(measure.title, "forget set") for measure in measures)), rows)


def scopes_table(results: LevelResults) -> Table | None:
    """Forget sets of the splits."""
    rows = (
        (
            *(scope.split, scope.level, f"{scope.forget:,} of {scope.total:,}"),
            *(f"{scope.sections:,}", f"{scope.questions:,}", scope.partner or ABSENT),
        )
        for scope in results.splits
    )
    return cell_table(("Split", "Forgets", "Nodes", "Sections", "Questions", "Flat split of the same amount"), rows)


def percent_cell(number: SweepNumber | None) -> Cell:
    """A number in percent with its interval; a dash where nothing was asked, ``unscored`` where no score came."""
    if number is None:
        return Cell(ABSENT)
    if number.value is None:
        return Cell(UNSCORED)
    share = number.percent
    span = "" if share.low is None or share.high is None else f"[{share.low:.1f}, {share.high:.1f}]"
    unscored = f"{share.n_unscored:,} unscored" if share.n_unscored else ""
    return Cell(f"{share.value:.1f}", ", ".join(part for part in (span, unscored) if part))


def difference_cell(contrast: SweepNumber) -> Cell:
    """A difference in percent points with its interval, or why there is none."""
    if contrast.value is None:
        return Cell(ABSENT, contrast.reason)
    share = contrast.percent
    span = "" if share.low is None or share.high is None else f"[{share.low:+.1f}, {share.high:+.1f}]"
    return Cell(f"{share.value:+.1f}", span or contrast.reason)
