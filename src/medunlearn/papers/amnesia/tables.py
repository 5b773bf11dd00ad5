"""The tables of AMNESIA's report, and the paper's published Table 2 in the same form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from medunlearn.papers.amnesia.contrasts import DEGRADATION, FACTUAL, LEAKAGE, REASONING, TRAIN
from medunlearn.papers.amnesia.sweep import MEAN_OF_KINDS, SweepResults
from medunlearn.papers.sweeps.figures import name_of
from medunlearn.papers.sweeps.models import REFERENCES, Who, unlearned
from medunlearn.reports.blocks import Cell, Span, Table
from medunlearn.reports.tables import reading_cell, records
from medunlearn.reports.words import ABSENT, ALL, interval, kind_text, signed
from medunlearn.results.contrasts import Contrast

NOT_MEASURED = "not measured"
# Percent points at the precision that Table 2 is printed with: what looks equal is marked alike.
_DIGITS = 1

Percent = tuple[float | None, str]
"""A share, and its note: interval and subjects."""
Lookup = Callable[[str, str, str, str], Percent]
"""Split, method, measure and kind -> number."""


@dataclass(frozen=True, slots=True)
class PublishedScores:
    """One cell of AMNESIA's Table 2, in percent: leakage and degradation score on the forget set, by kind."""

    ls_factual: float
    ds_factual: float
    ls_reasoning: float
    ds_reasoning: float


@cache
def published() -> dict[str, Any]:
    """The published numbers: ``setting``, ``table_2`` and the text's numbers on ``figures``."""
    text = files("medunlearn.papers.amnesia").joinpath("published.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    return content


def published_table_2() -> dict[tuple[str, str, int], PublishedScores]:
    """Scope, method, percent -> the cell of Table 2; sizes that the paper did not run are left out."""
    rows = published()["table_2"]["rows"]
    return {(scope, method, percent): PublishedScores(*numbers) for scope, method, percent, *numbers in rows}


def statements(figure: int) -> list[str]:
    """Numbers that Section 6 gives of Figure 2, 3 or 4."""
    return [
        f"{', '.join(row['methods']) + ': ' if row['methods'] else ''}{row['about']}: {row['says']}"
        for row in published()["figures"]
        if row["figure"] == figure
    ]


def table_2(results: SweepResults, context: str) -> list[Table]:
    """Table 2 of this sweep, train fold; a scope a table."""

    def number(split: str, method: str, measure: str, kind: str) -> Percent:
        place = ("forget", TRAIN, kind)
        found = results.valued(context, split, unlearned(method), place, measure)
        if found is None:
            return None, ""
        span = (
            "" if found.low is None or found.high is None else f"[{100 * found.low:.1f}, {100 * found.high:.1f}], "
        )
        return found.value, f"{span}{found.n_subjects} subjects, {found.n_scored} questions"

    tables = []
    for scope in results.scopes:
        sizes = {step.split: step.size for step in results.steps_of(scope)}
        methods = [m for m in results.methods if any(results.has(context, split, unlearned(m)) for split in sizes)]
        if methods:
            tables.append(_scope_table(scope, sizes, methods, number))
    return tables


def published_tables() -> list[Table]:
    """AMNESIA's Table 2 in the same form."""
    cells = published_table_2()
    tables = []
    for scope in dict.fromkeys(scope for scope, _, _ in cells):

        def number(percent: str, method: str, measure: str, kind: str, scope: str = scope) -> Percent:
            scores = cells.get((scope, method, int(percent)))
            return (None if scores is None else getattr(scores, f"{measure.lower()}_{kind}") / 100, "")

        sizes = {str(size): f"{size}%" for size in sorted({percent for of, _, percent in cells if of == scope})}
        methods = list(dict.fromkeys(method for of, method, _ in cells if of == scope))
        tables.append(_scope_table(scope, sizes, methods, number))
    return tables


def _scope_table(scope: str, sizes: Mapping[str, str], methods: Sequence[str], number: Lookup) -> Table:
    columns = [_size_column(split, methods, number) for split in sizes]
    rows = tuple((Cell(method), *(column[place] for column in columns)) for place, method in enumerate(methods))
    return Table((Cell(scope), *map(Cell, sizes.values())), rows)


def _size_column(split: str, methods: Sequence[str], number: Lookup) -> list[Cell]:
    """LS of factual and reasoning questions with DS behind each; marked across the methods, each by itself."""
    spans = {
        (kind, measure): marked([number(split, method, measure, kind) for method in methods])
        for kind in (FACTUAL, REASONING)
        for measure in (LEAKAGE, DEGRADATION)
    }
    cells = []
    for place in range(len(methods)):
        ls, ds, ls_reasoning, ds_reasoning = (of[place] for of in spans.values())
        pairs = (ls, Span(" ("), ds, Span(") / "), ls_reasoning, Span(" ("), ds_reasoning, Span(")"))
        nothing = all(of[place].text == NOT_MEASURED for of in spans.values())
        cells.append(Cell(ABSENT) if nothing else Cell.of(*pairs))
    return cells


def marked(numbers: Sequence[Percent]) -> list[Span]:
    """Spans of one column with the lowest and the highest marked, ties alike; nothing where all are equal."""
    shown = [None if value is None else round(100 * value, _DIGITS) for value, _ in numbers]
    known = [value for value in shown if value is not None]
    low, high = (min(known), max(known)) if known else (None, None)
    spans = []
    for value, (_, note) in zip(shown, numbers, strict=True):
        if value is None:
            spans.append(Span(NOT_MEASURED))
        elif low != high and value in (low, high):
            spans.append(Span(f"{value:.{_DIGITS}f}", "lowest" if value == low else "highest", note))
        else:
            spans.append(Span(f"{value:.{_DIGITS}f}", note=note))
    return spans


def leakage_table(results: SweepResults, context: str) -> Table | None:
    """Leakage beside degradation with intervals: every split, method, fold and kind, references among them."""

    def rows() -> Iterator[tuple[Cell, ...]]:
        for split, who, fold in _places(results, context):
            for kind in (*results.kinds, ALL):
                at = (context, split, who, ("forget", fold, kind))
                leaked, collapsed = (results.number(*at, measure) for measure in (LEAKAGE, DEGRADATION))
                if leaked is not None:
                    head = (Cell(split), Cell(name_of(who)), Cell(fold, kind_text(kind)))
                    yield (*head, reading_cell(leaked), reading_cell(collapsed))

    names = ("Split", "Model", "Questions", "Leakage score (LS)", "Degradation score (DS)")
    return records(map(Cell, names), rows())


def numbers_table(results: SweepResults, context: str) -> Table | None:
    """Utility, forgetting, degradation of every model on every split, fold and kind."""
    retain, forget = results.composites["retain"], results.composites["forget"]
    columns = (("Utility", "retain", retain), ("Forgetting", "forget", forget), ("Degraded", "forget", DEGRADATION))

    def rows() -> Iterator[tuple[Cell, ...]]:
        for split, who, fold in _places(results, context):
            for kind in results.kinds:
                at = [results.number(context, split, who, (side, fold, kind), name) for _, side, name in columns]
                yield (Cell(split), Cell(name_of(who)), Cell(fold, kind), *map(reading_cell, at))

    heads = [Cell(title, f"{measure or 'none'} on {side}") for title, side, measure in columns]
    return records((Cell("Split"), Cell("Model"), Cell("Questions"), *heads), rows())


def _places(results: SweepResults, context: str) -> Iterator[tuple[str, Who, str]]:
    """Split, model and fold of every evaluated model, the references first."""
    for step in results.steps:
        for who in (*REFERENCES, *map(unlearned, results.methods)):
            if results.has(context, step.split, who):
                for fold in results.folds:
                    yield step.split, who, fold


DIFFERENCES: Mapping[str, tuple[str, Mapping[str, tuple[str, str, str]]]] = {
    "Factual and reasoning": (
        "Reasoning minus factual, on the train fold. Below 0 in utility: reasoning suffers more. Above 0 in "
        "forgetting: reasoning is forgotten more.",
        {
            "Utility": ("reasoning - factual (utility)", "train", ""),
            "Forgetting": ("reasoning - factual (forgetting)", "train", ""),
        },
    ),
    "Train and holdout": (
        "Holdout minus train, all kinds. What a model was never asked in training it answers worse, so "
        "forgetting looks larger there: the last two columns read it against the target.",
        {
            "Utility": ("holdout - train (utility)", "", ALL),
            "Forgetting": ("holdout - train (forgetting)", "", ALL),
            "Gain over target, train": ("forgetting gained", "train", ALL),
            "Gain over target, holdout": ("forgetting gained", "holdout", ALL),
        },
    ),
    "Same disease and others": (
        "Utility of retained patients, mean of the kinds, train fold: those with the forgotten disease minus "
        "the others, and both against the target.",
        {
            "Same − other": ("same - other disease (utility)", "train", MEAN_OF_KINDS),
            "Same − target": ("lost by same disease", "train", MEAN_OF_KINDS),
            "Same − target, minus others": ("lost by same more than by other", "train", MEAN_OF_KINDS),
        },
    ),
    "Against the retrained model": (
        "Model minus retrained model, train fold, all kinds; 0 = like a model that never saw the forget set.",
        {
            "Utility": ("utility - retrained", "train", ALL),
            "Forgetting": ("forgetting - retrained", "train", ALL),
        },
    ),
}
"""Title -> meaning, and column -> contrast, fold and kind."""


def difference_tables(results: SweepResults, context: str) -> Iterator[tuple[str, str, Table]]:
    """Title, meaning and table of :data:`DIFFERENCES`; those with a number."""
    for title, (meaning, columns) in DIFFERENCES.items():
        rows = []
        for step in results.steps:
            for method in results.methods:
                cells = [
                    results.contrast(name, context, step.split, method, fold, kind)
                    for name, fold, kind in columns.values()
                ]
                if any(contrast.value is not None for contrast in cells):
                    rows.append((Cell(step.split), Cell(method), *map(contrast_cell, cells)))
        table = records(map(Cell, ("Split", "Method", *columns)), rows)
        if table is not None:
            yield title, meaning, table


def contrast_cell(contrast: Contrast) -> Cell:
    """A difference with its interval, or why there is none."""
    if contrast.value is None:
        return Cell(ABSENT, contrast.reason)
    return Cell(signed(contrast.value), interval(contrast.low, contrast.high) or contrast.reason)


def splits_table(results: SweepResults) -> Table | None:
    """One row a split: how many are forgotten and retained, and who shares the disease."""
    names = ("Split", "Level", "Forget", "Retain", "Disease", "Retained with it")
    rows = []
    for step in results.steps:
        disease = (step.disease, f"{step.same:,}") if step.disease else (ABSENT, ABSENT)
        rows.append((step.split, step.level, f"{step.forget:,}", f"{step.retain:,}", *disease))
    return records(map(Cell, names), (tuple(map(Cell, row)) for row in rows))
