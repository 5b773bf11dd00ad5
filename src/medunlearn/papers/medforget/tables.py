"""The tables of MedForget's report in percent, as in the paper, and its published Tables 3 and 5."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

import pandas as pd

from medunlearn.papers.medforget.measures import (
    CLASSIFICATION,
    CLOZE,
    CODE_CLASSIFICATION,
    CODE_CLOZE,
    CODE_FACTUALITY,
    CODE_GEN_SCORE,
    CODE_ROUGE,
    DRAWN_FACTUALITY,
    DRAWN_GEN_SCORE,
    FACTUALITY,
    GEN_SCORE,
    IDENTITIES,
    ROUGE,
    VARIANTS,
    LevelMeasure,
)
from medunlearn.papers.medforget.models import FLAT_MODEL, flat
from medunlearn.papers.medforget.partitions import LEVELS
from medunlearn.papers.medforget.question_sets import GAP, GROUPS, IDENTIFIERS, ON_COMMON, REPHRASED, SETS, given
from medunlearn.papers.medforget.scopes import Scope
from medunlearn.papers.medforget.sequence import CAME_BACK, TABLE_HEADS
from medunlearn.papers.medforget.sweep import LevelResults
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.papers.sweeps.figures import name_of
from medunlearn.papers.sweeps.models import REFERENCES, RETRAINED_MODEL, TARGET_MODEL, Who, unlearned
from medunlearn.papers.sweeps.results import SweepNumber
from medunlearn.papers.sweeps.tables import cell_table, contrast_table
from medunlearn.reports.blocks import Cell, Table
from medunlearn.reports.formatting import ABSENT, UNSCORED, percent_interval

OWN = {
    3: (GEN_SCORE, CLASSIFICATION, CLOZE),
    5: (ROUGE, FACTUALITY, GEN_SCORE, DRAWN_FACTUALITY, DRAWN_GEN_SCORE),
}
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
    """Table 3 or 5 as shares of 1: level (none for the target), role, method, group, measure, value."""
    places = [(group.name, measure.name) for group in GROUPS for measure in PUBLISHED[number]]
    rows = [
        (level, *(TARGET_MODEL if method == VANILLA else unlearned(method)), *place, percent / 100)
        for method, level, *percents in paper_yaml("medforget", "published")[f"table_{number}"]["rows"]
        for place, percent in zip(places, percents, strict=True)
    ]
    return pd.DataFrame(rows, columns=["level", "role", "method", "group", "measure", "value"])


def published_results(number: int) -> LevelResults:
    """Table 3 or 5 as results of a sweep whose splits are named like the levels, without intervals."""
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
    """The paper's Table 3 or 5 in our format."""
    results = published_results(number)
    models = [(unlearned(method), level) for method in results.methods for level in reversed(LEVELS)]
    return _levels_table(results, PUBLISHED[number], [(TARGET_MODEL, ""), *models])


def table_3(results: LevelResults) -> Table | None:
    """Generation, classification and cloze on the evaluated ones of the four sets, and the gap; with intervals,
    target and retrained model.
    """
    groups = [name for name in (*FOUR, GAP) if name in set(results.numbers["group"])]
    return _levels_table(results, results.shown_tasks, _models(results), groups)


def common_table(results: LevelResults) -> Table | None:
    """The forget set and its rephrased counterpart on the sections that every level forgets; None if these are
    all.
    """
    if not results.common or {scope.sections for scope in results.levels} == {results.common}:
        return None
    levels = {scope.split for scope in results.levels}
    models = [(who, split) for who, split in _models(results) if split in levels]
    return _levels_table(results, results.shown_tasks, models, ON_COMMON.values())


def varied_table(results: LevelResults) -> Table | None:
    """The rephrased set and its parts, and training paraphrases; None if it has no parts."""
    groups = [name for name in (*REPHRASED, "paraphrase") if name in set(results.numbers["group"])]
    if groups in ([], [REPHRASED[0]]):
        return None
    return _levels_table(results, results.shown_tasks, _models(results), groups)


def modality_table(results: LevelResults) -> Table | None:
    """The same facts asked with the image and with the study's name only; None if they were not asked."""
    if "text" not in set(results.numbers["group"]):
        return None
    return _levels_table(
        results, results.shown_tasks, _models(results), ("forget", "text", "retain", "retain text")
    )


def brought_back_table(results: LevelResults) -> Table | None:
    """Recovery by names: an unlearned model's change, the target's, and the difference, in percent points."""
    steps, heads = _attack_columns(results, results.tasks, IDENTIFIERS[1:])
    names = ("change", "target's change", "brought back")
    rows = (
        ((method, scope.split, name), [results.contrast(name, scope.split, method, *step) for step in steps])
        for method, scope, name in product(results.methods, results.splits, names)
    )
    return contrast_table(("Model", "Split", "", *heads), rows, difference_cell)


def table_5(results: LevelResults) -> Table | None:
    """ROUGE-L, factuality and Gen Score separately, if measured."""
    return _levels_table(results, results.measured(*OWN[5]), _models(results))


def variants_table(results: LevelResults) -> Table | None:
    """Our models by the published code's measures, each number next to the published one of its method and
    level.
    """
    ours = paper_yaml("medforget", "published")["methods"]
    numbers = published_numbers(3).replace({"method": ours})
    published = numbers.set_index(["level", "method", "group", "measure"])["value"].to_dict()
    levels = {scope.split: scope.level for scope in results.splits}
    measures = results.measured(*VARIANTS)

    def cell(who: Who, split: str, group: str, measure: str) -> Cell:
        own = percent_cell(results.number(split, who, group, measure))
        paper = published.get(("" if who == TARGET_MODEL else levels[split], who[1], group, measure))
        if paper is None or who == RETRAINED_MODEL or own.text == ABSENT:
            return own
        return replace(own, note=", ".join(filter(None, (own.note, f"paper {100 * paper:.2f}"))))

    columns = [(group.name, measure.name) for group in GROUPS for measure in measures]
    models = _models(results) if measures else []
    rows = ((name_of(who), split, *(cell(who, split, *column) for column in columns)) for who, split in models)
    return cell_table(_heads(measures), rows)


def _levels_table(
    results: LevelResults,
    measures: Sequence[LevelMeasure],
    models: Iterable[tuple[Who, str]],
    groups: Iterable[str] = FOUR,
) -> Table | None:
    groups = tuple(groups)
    columns = [(group, measure.name) for group in groups for measure in measures]
    rows = (
        (
            *((name_of(who), split) if split else ("target (vanilla)", ABSENT)),
            *(percent_cell(results.number(split, who, *column)) for column in columns),
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


def _attack_columns(
    results: LevelResults, measures: Sequence[LevelMeasure], identifiers: Sequence[str]
) -> tuple[list[tuple[str, str]], list[Cell]]:
    """(Set, measure) and heading of every attacked measure and attack step."""
    attacked = set(results.attacked["measure"])
    steps = [(m, name) for m in measures if m.name in attacked for name in identifiers]
    heads = [Cell(measure.title, f"given {GIVEN[name]}") for measure, name in steps]
    return [(given(name), measure.name) for measure, name in steps], heads


def attack_table(results: LevelResults) -> Table | None:
    """Figure 6's numbers: one row per model and split, with given identifiers in columns."""
    steps, heads = _attack_columns(results, results.shown_tasks, IDENTIFIERS)
    rows = (
        (name_of(who), split, *map(percent_cell, numbers))
        for who, split in _models(results)
        if any(numbers := [results.number(split, who, *step) for step in steps])
    )
    return cell_table(("Model", "Split", *heads), rows)


def sequence_table(results: LevelResults) -> Table | None:
    """Sequential requests: one row per method and step."""
    if results.sequence.empty:
        return None
    valued = set(results.sequence.loc[results.sequence["value"].notna(), "measure"])
    columns = [(measure, name) for measure in results.tasks if measure.name in valued for name in TABLE_HEADS]
    steps = results.sequence[["method", "step", "split"]].drop_duplicates().astype(str)

    def cell(measure: LevelMeasure, name: str, *step: str) -> Cell:
        number = results.in_sequence[*step, measure.name, name]
        if number.value is None:
            return Cell(ABSENT)
        return difference_cell(number) if name == CAME_BACK else percent_cell(number)

    rows = (
        (method, f"{step}: {split}", *(cell(*column, method, step) for column in columns))
        for method, step, split in steps.itertuples(index=False)
    )
    return cell_table(
        ("Model", "Request", *(Cell(measure.title, TABLE_HEADS[name]) for measure, name in columns)), rows
    )


def retrained_table(results: LevelResults) -> Table | None:
    """Unlearned minus retrained model, on the four sets."""
    columns = [(group.name, measure.name) for group in GROUPS for measure in results.tasks]
    rows = (
        (
            (method, scope.split),
            [results.contrast("over retrained", scope.split, method, *column) for column in columns],
        )
        for method, scope in product(results.methods, results.splits)
    )
    return contrast_table(_heads(results.tasks), rows, difference_cell)


def identity_table(results: LevelResults) -> Table | None:
    """Remaining knowledge of a level's names and sections, after hierarchical and after flat unlearning."""
    measures = results.measured(*IDENTITIES, *results.tasks)
    models = (*REFERENCES, *(who for method in results.methods for who in (unlearned(method), flat(method))))
    rows = (
        (
            scope.split,
            f"{who[1]}, unlearned on {scope.partner}" if who[0] == FLAT_MODEL else name_of(who),
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
    """A number in percent with its interval; a dash if not asked, ``unscored`` without a score."""
    if number is None or number.value is None:
        return Cell(ABSENT if number is None else UNSCORED)
    unscored = f"{number.n_unscored:,} unscored" if number.n_unscored else ""
    edges = percent_interval(number.low, number.high)
    return Cell(f"{100 * number.value:.1f}", ", ".join(filter(None, (edges, unscored))))


def difference_cell(contrast: SweepNumber) -> Cell:
    """A difference in percent points with its interval, or the reason for its absence."""
    if contrast.value is None:
        return Cell(ABSENT, contrast.reason)
    edges = percent_interval(contrast.low, contrast.high, "+.1f")
    return Cell(f"{100 * contrast.value:+.1f}", edges or contrast.reason)
