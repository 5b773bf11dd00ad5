"""Content that a command shows on the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medunlearn.reports.blocks import Cell, Table
from medunlearn.terminal import cell_text


@dataclass(frozen=True)
class ResultView:
    """Tables and sentences of a result, and the same as data.

    Attributes:
        data: for ``--json``.
        tables: title and table, in their order.
        lines: sentences below the tables.
        warnings: sentences to read before everything else.
        audits: audits whose first screen comes before the tables.
        failure: what is missing of the result; shown last, with exit code 1.
    """

    data: Mapping[str, Any] = field(default_factory=dict)
    tables: Sequence[tuple[str, Table]] = ()
    lines: Sequence[str] = ()
    warnings: Sequence[str] = ()
    audits: Sequence[Any] = ()
    failure: str = ""


def plain_table(columns: Iterable[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table of texts; a number has four digits, a missing one an empty cell."""
    return Table(tuple(map(Cell, columns)), tuple(tuple(Cell(cell_text(cell)) for cell in row) for row in rows))


def records_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """A table with a column for each key of the first record."""
    names = tuple(records[0]) if records else ()
    return plain_table(names, ([row[name] for name in names] for row in records))
