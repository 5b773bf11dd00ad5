"""Render blocks as text for a terminal, or for a file or pipe: one line a row there, no name ever broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from medunlearn.reports.blocks import (
    Bars,
    Block,
    Bullets,
    Cell,
    Choice,
    Details,
    Facts,
    Headline,
    Notice,
    Prose,
    Quotes,
    Section,
    Statement,
    Table,
    Text,
    children,
)
from medunlearn.terminal import printable, wrapped

GAP = 2
LEAST_WORDS = 26
"""Narrowest column of wrapped words; with less room every row becomes a list of its cells."""


def block_lines(block: Block | str, width: int | None = None, bold: Callable[[str], str] = str) -> Iterator[str]:
    """Lines of a block; figures, whose numbers are in tables, have none.

    Args:
        width: columns of the terminal; None: not a terminal, lines are not broken.
        bold: emphasizes a title.
    """
    match block:
        case str(text) | Text(text):
            yield from _paragraphs([text], width)
        case Bullets(lines) | Prose(lines):
            yield from _paragraphs(lines, width)
        case Facts(items) | Quotes(items):
            # Whole lines: a path can be copied.
            yield from _paragraphs([f"{name}: {text}" for name, text in items], None)
        case Headline(label, answer, sentences):
            yield from _paragraphs([f"{label}: {answer}.", *sentences], width)
        case Notice(title, lines):
            yield from _paragraphs([title, *lines], width)
        case Table():
            head, *rows = table_lines(block, width)
            yield from (*([bold(printable(block.title))] if block.title else []), bold(head), *rows, "")
        case Bars(title, bars):
            cells = tuple((Cell(bar.label), Cell(bar.value), Cell(bar.note)) for bar in bars)
            yield from block_lines(Table((Cell(title), Cell(""), Cell("")), cells), width, bold)
        case Choice(_, options):
            for name, inside in options:
                yield from _under(name, inside, width, bold)
        case Details():
            title = f"{block.tag} {block.summary}".strip()
            yield from _under(_noted(title, block.note), block.blocks, width, bold)
        case Statement():
            summary = (block.summary,) if block.summary else ()
            title = _noted(f"{block.badge}: {block.title}", block.note)
            yield from _under(title, (*summary, *block.blocks), width, bold)
        case Section():
            yield from _under(_noted(block.title, block.note), block.blocks, width, bold)
        case _:
            for child in children(block):
                yield from block_lines(child, width, bold)


def _noted(title: str, note: str) -> str:
    return f"{title} ({note})" if note else title


def _under(
    title: str, blocks: Iterable[Block | str], width: int | None, bold: Callable[[str], str]
) -> Iterator[str]:
    """A title and its content; nothing if none of it has lines."""
    inside = [line for block in blocks for line in block_lines(block, width, bold)]
    yield from (bold(printable(title)), *inside) if inside else ()


def _paragraphs(texts: Iterable[str], width: int | None) -> Iterator[str]:
    for text in texts:
        for part in printable(text).split("\n"):
            yield from wrapped(part, width) if width else (part,)


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
