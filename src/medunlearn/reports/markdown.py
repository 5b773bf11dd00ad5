"""Render a report as Markdown that is readable in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from medunlearn.data.escaping import markdown_cell, markdown_line
from medunlearn.reports.blocks import Block as AnyBlock
from medunlearn.reports.blocks import (
    Bullets,
    Cell,
    Choice,
    Columns,
    Details,
    Facts,
    Headline,
    Notice,
    Prose,
    Quotes,
    Report,
    Section,
    Statement,
    Table,
    Text,
)
from medunlearn.reports.provenance import watermarked
from medunlearn.terminal import printable

_LONGEST_NOTE = 60
_MARKS: Mapping[str, str] = {"lowest": "**", "highest": "_", "run": "**", "identifier": "**", "given": "_"}


def to_markdown(report: Report) -> str:
    """Every block except figures, whose numbers are in tables."""
    report = watermarked(report)
    parts = [f"# {markdown_line(report.title)}", bullets(f"{name}: {text}" for name, text in report.facts)]
    parts += _render(report.blocks, 2)
    return "\n\n".join(part for part in parts if part) + "\n"


def _render(blocks: Iterable[AnyBlock], depth: int) -> Iterator[str]:
    return (part for block in blocks for part in _block(block, depth))


def _block(block: AnyBlock, depth: int) -> Iterator[str]:
    match block:
        case Text(text):
            yield markdown_line(text)
        case Prose(paragraphs):
            yield from map(markdown_line, paragraphs)
        case Bullets(items):
            yield bullets(items)
        case Facts(items):
            yield bullets(f"{name}: {text}" for name, text in items)
        case Notice(title, lines):
            yield _heading(depth, title)
            yield bullets(lines)
        case Table():
            if block.title:
                yield _heading(depth, block.title)
            yield pipe_table(block)
            yield bullets(_long_notes(block))
        case Headline(label, answer, sentences):
            yield markdown_line(f"**{label}: {answer}.** {' '.join(sentences)}")
        case Quotes(items):
            for name, text in items:
                yield f"{markdown_line(name)}:\n\n{literal(text)}"
        case Columns(left, right):
            yield from _render((*left, *right), depth)
        case Statement():
            yield _heading(depth, f"{block.badge}: {block.title}", block.note)
            yield markdown_line(block.summary)
            yield from _render(block.blocks, depth + 1)
        case Choice(_, options):
            for name, inside in options:
                yield from _section_lines(_heading(depth, name), _render(inside, depth + 1))
        case Details():
            title = f"{block.tag}: {block.summary}" if block.tag else block.summary
            yield from _section_lines(_heading(depth, title, block.note), _render(block.blocks, depth + 1))
        case Section():
            yield from _section_lines(_heading(depth, block.title, block.note), _render(block.blocks, depth + 1))


def _section_lines(heading: str, parts: Iterable[str]) -> list[str]:
    """A heading and its content; empty if all of it is omitted in Markdown."""
    inside = [part for part in parts if part]
    return [heading, *inside] if inside else []


def _heading(depth: int, text: str, note: str = "") -> str:
    return f"{'#' * min(depth, 6)} {markdown_line(text)}" + (f" ({markdown_line(note)})" if note else "")


def bullets(lines: Iterable[str]) -> str:
    """A bullet list, one line per item."""
    return "\n".join(f"- {markdown_line(line)}" for line in lines)


def literal(text: str) -> str:
    """Text as an indented block, so that a viewer never renders a model's output."""
    return "\n".join(f"    {printable(line)}" for line in (text.splitlines() or [""]))


def pipe_table(table: Table) -> str:
    """An aligned pipe table; long notes are moved to the list below it."""
    lines = [list(map(_cell, row)) for row in (table.columns, *table.rows)]
    widths = [max(3, *(len(line[place]) for line in lines)) for place in range(len(table.columns))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def _cell(cell: Cell) -> str:
    text = cell.text
    if cell.spans:
        text = "".join(f"{_MARKS.get(span.mark, '')}{span.text}{_MARKS.get(span.mark, '')}" for span in cell.spans)
    note = cell.note if len(cell.note) <= _LONGEST_NOTE else ""
    return markdown_cell(f"{text} {note}")


def _long_notes(table: Table) -> list[str]:
    """Distinct notes that would make a table too wide, each once after the cells that have it."""
    texts: dict[str, dict[str, None]] = {}
    for row in (table.columns, *table.rows):
        for cell in row:
            if len(cell.note) > _LONGEST_NOTE:
                texts.setdefault(cell.note, {})[cell.text] = None
    return [f"{', '.join(cells)}: {note}" for note, cells in texts.items()]
