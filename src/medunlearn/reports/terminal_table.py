"""Render a table as text for a terminal, or for a file or pipe: one line a row there, no name ever broken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medunlearn.reports.blocks import Cell, Table
from medunlearn.terminal import printable, wrapped

GAP = 2
LEAST_WORDS = 26
"""Narrowest column of wrapped words; with less room every row becomes a list of its cells."""


def table_lines(table: Table, width: int | None = None) -> list[str]:
    """Lines of a table: its heads, then its rows.

    Args:
        width: columns of the terminal; None: not a terminal, every row is one line. A table too wide for a terminal
            loses its notes (intervals), then its last column is wrapped between words, then rows become lists.
    """
    full = _texts(table, notes=True)
    if width is None or _width(full) <= width:
        return list(_aligned(full))
    short = _texts(table, notes=False)
    if _width(short) <= width:
        return list(_aligned(short))
    if (room := width - _width([row[:-1] for row in full]) - GAP) >= LEAST_WORDS:
        return list(_aligned(full, room))
    return list(_lists(full, width))


def _texts(table: Table, *, notes: bool) -> list[list[str]]:
    def text(cell: Cell) -> str:
        return printable(str(cell) if notes else cell.text).replace("\n", " ").strip()

    return [list(map(text, row)) for row in (table.columns, *table.rows)]


def _width(rows: Sequence[Sequence[str]]) -> int:
    columns = list(zip(*rows, strict=True))
    return sum(max(map(len, column)) for column in columns) + GAP * (len(columns) - 1)


def _aligned(rows: Sequence[Sequence[str]], last: int | None = None) -> Iterator[str]:
    """Rows in columns; the last column wrapped to a width, if one is given."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        words = wrapped(row[-1], last) if last else [row[-1]]
        first = [*row[:-1], words[0]]
        cells = [cell.ljust(size) for cell, size in zip(first, widths, strict=True)]
        yield (" " * GAP).join(cells).rstrip()
        indent = sum(widths[:-1]) + GAP * (len(widths) - 1)
        yield from (" " * indent + line for line in words[1:])


def _lists(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Each row's name, and below it its other cells, with their heads."""
    heads, *lines = rows
    for row in lines:
        yield row[0]
        for head, cell in zip(heads[1:], row[1:], strict=True):
            if cell:
                label = f"  {head}: " if head else "  "
                first, *more = wrapped(cell, max(LEAST_WORDS, width - len(label)))
                yield label + first
                yield from (" " * len(label) + line for line in more)
