"""The tables of AMNESIA's report, and the paper's published Table 2 in the same format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Literal

import pandas as pd

from medunlearn.metrics.leakage.leakage_score import extractor_words
from medunlearn.papers.amnesia.sweep import (
    DEGENERATE,
    DEGRADATION,
    FACTUAL,
    LEAKAGE,
    REASONING,
    TRAIN,
    SizeResults,
    Step,
)
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.papers.sweeps.contrasts import EVERYONE
from medunlearn.papers.sweeps.figures import name_of
from medunlearn.papers.sweeps.models import Who, unlearned
from medunlearn.papers.sweeps.results import SweepNumber
from medunlearn.papers.sweeps.tables import cell_table, contrast_table
from medunlearn.reports.blocks import Cell, Span, Table
from medunlearn.reports.formatting import ABSENT, ALL, decimal, interval, kind_text, percent_interval, signed
from medunlearn.reports.table_blocks import reading_cell

NOT_MEASURED = "not measured"
# Percent points at the precision that Table 2 is printed with: what looks equal is marked alike.
_DIGITS = 1

Percent = tuple[float | None, str]
"""A share, and its note: interval and subjects."""


def published_table_2() -> pd.DataFrame:
    """One row per cell of Table 2, in percent: leakage and degradation score on the forget set, by kind.

    Sizes that the paper did not run are missing.
    """
    table = paper_yaml("amnesia", "published")["table_2"]
    return pd.DataFrame(table["rows"], columns=table["columns"])


def published_statements(figure: int) -> list[str]:
    """Numbers stated in Section 6 about Figure 2, 3 or 4."""
    return [
        f"{', '.join(row['methods']) + ': ' if row['methods'] else ''}{row['about']}: {row['says']}"
        for row in paper_yaml("amnesia", "published")["figures"]
        if row["figure"] == figure
    ]


def published_results() -> SizeResults:
    """Table 2 as results of a sweep, without intervals."""
    table = published_table_2()
    long = table.melt(["scope", "method", "percent"])
    names = long["variable"].str.split("_", expand=True)
    place = {"context": "", "role": "unlearned", "side": "forget", "fold": TRAIN, "group": EVERYONE}
    numbers = long.assign(
        **place,
        split=long["scope"] + "_" + long["percent"].astype(str),
        measure=names[0].map({"ls": LEAKAGE, "ds": DEGRADATION}),
        kind=names[1],
        value=long["value"] / 100,
        low=None,
        high=None,
    )
    sizes = table[["scope", "percent"]].drop_duplicates().sort_values("percent", kind="stable").to_numpy().tolist()
    return SizeResults(
        splits=tuple(Step(f"{scope}_{n}", scope, n, None, "patient", 0, 0) for scope, n in sizes),
        numbers=numbers,
        contrasts=pd.DataFrame(),
        methods=tuple(table["method"].unique()),
        contexts=("",),
        extractors=("scispaCy",),
    )


def table_2(results: SizeResults, context: str) -> list[Table]:
    """Table 2 of this sweep, train fold, one table per scope: LS for each kind of question, followed by DS."""
    tables = []
    for scope, steps in results.scopes.items():
        methods = [
            method
            for method in results.methods
            if any(results.has(context, step.split, unlearned(method)) for step in steps)
        ]
        if methods:
            columns = [_size_column(results, context, step.split, methods) for step in steps]
            heads = (Cell(scope, extractor_words(results.extractors)), *(Cell(step.size) for step in steps))
            tables.append(Table(heads, tuple(zip(map(Cell, methods), *columns, strict=True))))
    return tables


def _percent(results: SizeResults, context: str, split: str, method: str, measure: str, kind: str) -> Percent:
    at = (context, split, unlearned(method), ("forget", TRAIN, kind))
    number = results.valued(*at, measure)
    if number is None:
        return None, ""
    alone = one_token(number, results.valued(*at, DEGENERATE)) if measure == DEGRADATION else None
    notes = (
        percent_interval(number.low, number.high),
        f"{number.n_subjects} subjects, {number.n_scored} questions" if number.n_subjects else "",
        f"{len(number.by_seed)} seeds" if len(number.by_seed) > 1 else "",
        "" if alone is None else f"{100 * alone:.{_DIGITS}f} of it responses of one token",
    )
    return number.value, ", ".join(filter(None, notes))


def one_token(degradation: SweepNumber | None, degenerate: SweepNumber | None) -> float | None:
    """Share of one-token responses: from DS, from lengths, and non-degenerate ones. None if one is missing."""
    if degradation is None or degenerate is None or None in (degradation.value, degenerate.value):
        return None
    return float(degradation.value or 0.0) - float(degenerate.value or 0.0)


def _size_column(results: SizeResults, context: str, split: str, methods: Sequence[str]) -> Iterator[Cell]:
    """Factual and reasoning questions; best and worst are marked across methods, for each measure and kind."""
    eligible = [results.may_be_best(context, split, method) for method in methods]
    columns = [
        marked([_percent(results, context, split, method, measure, kind) for method in methods], eligible)
        for kind in (FACTUAL, REASONING)
        for measure in (LEAKAGE, DEGRADATION)
    ]
    for spans in zip(*columns, strict=True):
        ls, ds, ls_reasoning, ds_reasoning = spans
        pairs = (ls, Span(" ("), ds, Span(") / "), ls_reasoning, Span(" ("), ds_reasoning, Span(")"))
        yield Cell(ABSENT) if all(span.text == NOT_MEASURED for span in spans) else Cell.of(*pairs)


def marked(numbers: Sequence[Percent], eligible: Sequence[bool]) -> list[Span]:
    """Spans of one column with the lowest and the highest value marked, including ties; empty if all are equal.

    Args:
        eligible: whether each number may be marked; those of broken and damaged models may not, nor do they count.
    """
    rounded = [None if value is None else round(100 * value, _DIGITS) for value, _ in numbers]
    values = {
        value for value, of_working in zip(rounded, eligible, strict=True) if of_working and value is not None
    }
    marks: dict[float, Literal["lowest", "highest"]] = {}
    if len(values) > 1:
        marks = {min(values): "lowest", max(values): "highest"}
    return [
        Span(NOT_MEASURED)
        if value is None
        else Span(f"{value:.{_DIGITS}f}", marks.get(value, "") if of_working else "", note)
        for value, (_, note), of_working in zip(rounded, numbers, eligible, strict=True)
    ]


def leakage_table(results: SizeResults, context: str) -> Table | None:
    """Leakage and degradation with intervals: every split, method, fold and kind, including references."""
    rows = []
    for split, who, fold in _places(results, context):
        for kind in (*results.kinds, ALL):
            at = (context, split, who, ("forget", fold, kind))
            leaked, degraded, degenerate = (results.number(*at, m) for m in (LEAKAGE, DEGRADATION, DEGENERATE))
            if leaked is not None:
                alone = one_token(degraded, degenerate)
                cells = map(reading_cell, (leaked, degraded, degenerate))
                text = ABSENT if alone is None else decimal(alone)
                rows.append((split, name_of(who), Cell(fold, kind_text(kind)), *cells, text))
    leakage = Cell("Leakage score (LS)", extractor_words(results.extractors))
    degradation = ("Degradation score (DS)", "Degenerate", Cell("One token", "DS less degenerate"))
    return cell_table(("Split", "Model", "Questions", leakage, *degradation), rows)


def numbers_table(results: SizeResults, context: str) -> Table | None:
    """Utility, forgetting and degradation of every model on every split, fold and kind."""
    utility, forgetting = results.composites["retain"], results.composites["forget"]
    columns = (("retain", utility), ("forget", forgetting), ("forget", DEGRADATION))
    rows = (
        (
            *(split, name_of(who), Cell(fold, kind)),
            *(reading_cell(results.number(context, split, who, (side, fold, kind), m)) for side, m in columns),
        )
        for split, who, fold in _places(results, context)
        for kind in results.kinds
    )
    heads = (
        Cell("Utility", f"{utility or 'none'} on retain"),
        Cell("Forgetting", f"{forgetting or 'none'} on forget"),
        Cell("Degraded", f"{DEGRADATION} on forget"),
    )
    return cell_table(("Split", "Model", "Questions", *heads), rows)


def _places(results: SizeResults, context: str) -> Iterator[tuple[str, Who, str]]:
    """Split, model and fold of every evaluated model, the references first."""
    for step in results.splits:
        for who in results.models_on(context, step.split):
            for fold in results.folds:
                yield step.split, who, fold


def difference_tables(results: SizeResults, context: str) -> Iterator[tuple[str, str, Table]]:
    """Title, meaning and table of the differences in ``report.yaml`` that have a number."""
    for title, about in paper_yaml("amnesia", "report")["differences"].items():
        columns = about["columns"]
        rows = (
            (
                (step.split, method),
                [results.contrast(name, context, step.split, method, *place) for name, *place in columns.values()],
            )
            for step, method in product(results.splits, results.methods)
        )
        if table := contrast_table(("Split", "Method", *columns), rows, difference_cell):
            yield title, about["meaning"], table


def difference_cell(contrast: SweepNumber) -> Cell:
    """A difference with its interval, or the reason for its absence."""
    if contrast.value is None:
        return Cell(ABSENT, contrast.reason)
    return Cell(signed(contrast.value), interval(contrast.low, contrast.high) or contrast.reason)


def splits_table(results: SizeResults) -> Table | None:
    """One row per split: numbers forgotten and retained, and retained subjects with the same disease."""
    rows = (
        (
            *(step.split, step.level, f"{step.forget:,}", f"{step.retain:,}"),
            *((step.disease, f"{step.same:,}") if step.disease else (ABSENT, ABSENT)),
        )
        for step in results.splits
    )
    return cell_table(("Split", "Level", "Forget", "Retain", "Disease", "Retained with it"), rows)
