"""The tables of a sweep's report as plain cells, for HTML and Markdown alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd

from medunlearn.papers.amnesia.report.content import (
    MEAN_OF_KINDS,
    UNLEARNED,
    Contrast,
    Measured,
    Step,
    SweepContent,
)
from medunlearn.papers.amnesia.report.marks import REFERENCES
from medunlearn.papers.amnesia.report.published import table_2
from medunlearn.reports.readings import ALL, number, rows_of
from medunlearn.reports.tables import Cell, Table
from medunlearn.reports.words import ABSENT, decimal, interval, kind_text, reading_note, signed, value_text

LEAKAGE, DEGRADATION = "ls", "DS"
KINDS = ("factual", "reasoning")
NOT_MEASURED = "not measured"

_SEARCH = ("method", "lr", "utility", "forgetting", "score", "chosen", "utility_name", "forgetting_name", "reason")
# Percent points at the precision that Table 2 is printed with: what looks equal is marked alike.
_DIGITS = 1


@dataclass(frozen=True, slots=True)
class Part:
    """One number of a cell of Table 2.

    Attributes:
        text: as it is printed, in percent.
        mark: ``lowest`` or ``highest`` across the methods of its size and kind, or ``""``.
        note: interval and subjects, for who asks.
    """

    text: str
    mark: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class LeakCell:
    """LS of factual and reasoning questions with DS behind each; no part where nothing was run."""

    parts: tuple[tuple[Part, Part], ...]

    def __str__(self) -> str:
        return " / ".join(f"{_marked(ls)} ({_marked(ds)})" for ls, ds in self.parts) or ABSENT


def _marked(part: Part) -> str:
    return {"lowest": f"**{part.text}**", "highest": f"_{part.text}_"}.get(part.mark, part.text)


@dataclass(frozen=True, slots=True)
class LeakTable:
    """Table 2 of one scope: methods by sizes."""

    scope: str
    sizes: tuple[str, ...]
    rows: tuple[tuple[str, tuple[LeakCell, ...]], ...]


Percent = tuple[float | None, str]
Numbers = Callable[[str, str, str, str], Percent]


def leak_tables(content: SweepContent, context: str) -> list[LeakTable]:
    """Table 2 of this sweep, train fold; a scope a table."""

    def ours(split: str, method: str, metric: str, kind: str) -> Percent:
        found = content.number(context, split, (UNLEARNED, method), ("forget", "train", kind), metric)
        return _percent(found)

    tables = []
    for scope in content.scopes:
        sizes = [(step.split, _size(step)) for step in content.steps_of(scope)]
        run = [
            method
            for method in content.methods
            if any(content.has(context, split, (UNLEARNED, method)) for split, _ in sizes)
        ]
        if run:
            tables.append(_leak_table(scope, sizes, run, ours))
    return tables


def published_tables() -> list[LeakTable]:
    """AMNESIA's Table 2 in the same form."""
    found = table_2()

    def theirs(percent: str, method: str, metric: str, kind: str) -> Percent:
        row = found.get((scope, method, int(percent)))
        return (None if row is None else getattr(row, f"{metric.lower()}_{kind}") / 100, "")

    tables = []
    for scope in dict.fromkeys(scope for scope, _, _ in found):
        sizes = [(str(one), f"{one}%") for one in sorted({percent for of, _, percent in found if of == scope})]
        methods = list(dict.fromkeys(method for of, method, _ in found if of == scope))
        tables.append(_leak_table(scope, sizes, methods, theirs))
    return tables


def _leak_table(scope: str, sizes: Sequence[tuple[str, str]], methods: Sequence[str], of: Numbers) -> LeakTable:
    columns = [_leak_column(split, methods, of) for split, _ in sizes]
    rows = [(method, tuple(column[place] for column in columns)) for place, method in enumerate(methods)]
    return LeakTable(scope, tuple(title for _, title in sizes), tuple(rows))


def _leak_column(split: str, methods: Sequence[str], of: Numbers) -> list[LeakCell]:
    """One size: lowest and highest are marked across its methods, for each kind and measure by itself."""
    parts: dict[tuple[str, str], list[Part]] = {}
    for kind in KINDS:
        for metric in (LEAKAGE, DEGRADATION):
            parts[kind, metric] = marked([of(split, method, metric, kind) for method in methods])
    cells = []
    for place in range(len(methods)):
        pairs = tuple((parts[kind, LEAKAGE][place], parts[kind, DEGRADATION][place]) for kind in KINDS)
        nothing = all(part.text == NOT_MEASURED for pair in pairs for part in pair)
        cells.append(LeakCell(() if nothing else pairs))
    return cells


def marked(found: Sequence[Percent]) -> list[Part]:
    """Parts of one column with the lowest and the highest marked, ties alike; nothing where all are equal."""
    shown = [None if value is None else round(100 * value, _DIGITS) for value, _ in found]
    known = [value for value in shown if value is not None]
    low, high = (min(known), max(known)) if known else (None, None)
    parts = []
    for value, (_, note) in zip(shown, found, strict=True):
        mark = "" if low == high else "lowest" if value == low else "highest" if value == high else ""
        text = NOT_MEASURED if value is None else f"{value:.{_DIGITS}f}"
        parts.append(Part(text, mark if value is not None else "", note))
    return parts


def _percent(found: Measured | None) -> Percent:
    if found is None or found.value is None:
        return None, ""
    low, high = found.reading.low, found.reading.high
    span = "" if low is None or high is None else f"[{100 * low:.1f}, {100 * high:.1f}], "
    return found.value, f"{span}{found.reading.n_subjects} subjects, {found.reading.n_scored} questions"


def leak_details(content: SweepContent, context: str) -> Table | None:
    """Leakage beside degradation with intervals: every split, method, fold and kind, references among them."""
    rows = []
    for step in content.steps:
        for who in everyone(content):
            for fold in content.folds():
                for kind in (*content.kinds(), ALL):
                    leaked, collapsed = (
                        content.number(context, step.split, who, ("forget", fold, kind), metric)
                        for metric in (LEAKAGE, DEGRADATION)
                    )
                    if leaked is not None:
                        head = (Cell(step.split), Cell(who[1] or who[0]), Cell(fold, kind_text(kind)))
                        rows.append((*head, _cell(leaked), _cell(collapsed)))
    names = ("Split", "Model", "Questions", "Leakage score (LS)", "Degradation score (DS)")
    return Table(tuple(Cell(name) for name in names), tuple(rows)) if rows else None


def analyses(content: SweepContent, context: str) -> list[tuple[str, str, Table]]:
    """Title, what it says, and table: factual and reasoning, train and holdout, same disease and others."""
    named = {
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
    found = []
    for title, (says, columns) in named.items():
        rows = tuple(_contrast_rows(content, context, columns))
        if rows:
            heads = (Cell("Split"), Cell("Method"), *(Cell(name) for name in columns))
            found.append((title, says, Table(heads, rows)))
    return found


def _contrast_rows(
    content: SweepContent, context: str, columns: Mapping[str, tuple[str, str, str]]
) -> Iterator[tuple[Cell, ...]]:
    for step in content.steps:
        for method in content.methods:
            found = [
                content.contrast(name, context, step.split, method, fold, kind)
                for name, fold, kind in columns.values()
            ]
            if any(one.value is not None for one in found):
                yield (Cell(step.split), Cell(method), *(contrast_cell(one) for one in found))


def contrast_cell(found: Contrast) -> Cell:
    """A difference with its interval, or why there is none."""
    if found.value is None:
        return Cell(ABSENT, found.reason)
    return Cell(signed(found.value), interval(found.low, found.high) or found.reason)


def numbers_table(content: SweepContent, context: str) -> Table:
    """Utility, forgetting, degradation of every model on every split, fold and kind."""
    utility, forgetting = content.composite("retain"), content.composite("forget")
    columns = (("Utility", "retain", utility), ("Forgetting", "forget", forgetting), ("Degraded", "forget", "DS"))
    rows = []
    for step in content.steps:
        for who in everyone(content):
            if content.has(context, step.split, who):
                for fold in content.folds():
                    for kind in content.kinds():
                        found = [
                            content.number(context, step.split, who, (side, fold, kind), metric)
                            for _, side, metric in columns
                        ]
                        head = (Cell(step.split), Cell(who[1] or who[0]), Cell(fold, kind))
                        rows.append((*head, *(_cell(one) for one in found)))
    heads = [Cell(title, f"{metric or 'none'} on {side}") for title, side, metric in columns]
    return Table((Cell("Split"), Cell("Model"), Cell("Questions"), *heads), tuple(rows))


def everyone(content: SweepContent) -> list[tuple[str, str]]:
    """Role and method of every kind of model, the references first."""
    return [*REFERENCES, *((UNLEARNED, method) for method in content.methods)]


class Searched(Protocol):
    """A report's content with the learning rates that were tried."""

    @property
    def search(self) -> pd.DataFrame | None: ...


def search_table(content: Searched) -> Table | None:
    """The tried learning rates and the numbers that one was chosen by."""
    if content.search is None or not len(content.search):
        return None
    columns = [name for name in _SEARCH if name in content.search.columns]
    rows = tuple(tuple(Cell(_plain(row[name])) for name in columns) for row in rows_of(content.search))
    return Table(tuple(Cell(name) for name in columns), rows)


def _plain(value: Any) -> str:
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return "chosen" if value else ""
    if isinstance(value, str):
        return value
    found = number(value)
    if found is None:
        return ABSENT
    return decimal(found) if abs(found) >= 0.001 or found == 0 else f"{found:.0e}"


def _cell(found: Measured | None) -> Cell:
    reading = None if found is None else found.reading
    return Cell(value_text(reading), reading_note(reading))


def _size(step: Step) -> str:
    return step.split if step.percent is None else f"{step.percent}%"
