"""Blocks of a report. A report is a list of blocks; every output format renders the list.

A block describes content, not presentation: :mod:`~medunlearn.reports.html`, :mod:`~medunlearn.reports.markdown`
and :mod:`~medunlearn.reports.json` each render all of them. Text is plain text; the renderers escape it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Spec = dict[str, Any]
"""A figure as plain data: ``data``, ``layout``, ``labels`` (see :mod:`~medunlearn.reports.figures`)."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a cell with its own emphasis; ``note`` is a tooltip.

    ``run``, ``identifier`` and ``given`` mark words of a response: repeated text, a leaked identifier, and an
    identifier from the prompt.
    """

    text: str
    mark: Literal["", "lowest", "highest", "muted", "run", "identifier", "given"] = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """Text with a note below it in smaller type; ``spans`` are the parts of the text, if some are emphasized."""

    text: str
    note: str = ""
    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, *spans: Span, note: str = "") -> Cell:
        """A cell from several spans."""
        return cls("".join(span.text for span in spans), note, spans)

    def __str__(self) -> str:
        return f"{self.text} {self.note}".strip()


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows; the first cell names its row.

    Attributes:
        name: of its file among exported tables; derived from the title if empty.
        filters: name of a filter menu -> its value, or values, in every row; ``selected`` -> initial value.
        search: label of a search field that filters rows; empty for none.
        cards: rows become cards on a narrow page, with the last cell below the others if it is a :class:`Span` list
            (a quotation).
    """

    columns: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    filters: Mapping[str, Sequence[str | tuple[str, ...]]] = field(default_factory=dict)
    selected: Mapping[str, str] = field(default_factory=dict)
    search: str = ""
    cards: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """One paragraph. ``aside`` is smaller, ``empty`` marks missing content."""

    text: str
    style: Literal["", "aside", "empty"] = ""


@dataclass(frozen=True, slots=True)
class Prose:
    """Several paragraphs, in two columns on a wide page."""

    paragraphs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with their values."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Notice:
    """A box at the top: caveats, or missing parts."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with theme colours by name (``--ink``, ``--m1``); omitted in Markdown.

    Attributes:
        label: description of the figure for screen readers.
        name: of its file and download; derived from the title if empty.
        size: ``small`` and ``level`` are laid out in a grid, ``wide`` takes the full width; ``large`` and
            ``ranking`` stand side by side on the first screen.
    """

    spec: Spec
    label: str
    title: str = ""
    size: Literal["small", "level", "wide", "large", "ranking"] = "small"
    name: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures side by side, at most ``columns`` in a row; ``lead`` ones on the first screen."""

    figures: tuple[Figure, ...]
    columns: int = 3
    lead: bool = False


@dataclass(frozen=True, slots=True)
class Legend:
    """Label, symbol and colour of each model."""

    entries: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Headline:
    """The answer on the first screen, with a label above it and sentences below."""

    label: str
    answer: str
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a ranking; ``share`` of the longest bar, and the ends of its ``interval``, from 0 to 1."""

    label: str
    value: str
    share: float
    note: str = ""
    muted: bool = False
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Bars:
    """A ranking as horizontal bars; omitted in Markdown, whose tables have the numbers."""

    title: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Quotes:
    """Verbatim quotations by speaker; the first one is set off if it is the reference answer."""

    items: tuple[tuple[str, str], ...]
    reference: bool = False


@dataclass(frozen=True, slots=True)
class Image:
    """An image as a ``data:`` URL; omitted in Markdown."""

    source: str
    alt: str


@dataclass(frozen=True, slots=True)
class Columns:
    """Two parts side by side: the first screen's ``lead``, an ``answer`` and its bars, or a ``thumbnail``."""

    left: tuple[Block, ...]
    right: tuple[Block, ...]
    style: Literal["lead", "answer", "thumbnail"] = "lead"


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks behind a summary that expands them. ``tag`` is a coloured word before the summary."""

    summary: str
    blocks: tuple[Block, ...]
    note: str = ""
    opened: bool = False
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """A badge and a claim, with folded details (created in :mod:`~medunlearn.reports.claims`)."""

    badge: str
    tone: Literal["good", "bad", "open"]
    title: str
    summary: str = ""
    blocks: tuple[Block, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """Blocks of which the page shows one at a time; Markdown and print show all."""

    label: str
    options: tuple[tuple[str, tuple[Block, ...]], ...]
    selected: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with its blocks. The report's top-level sections are in the table of contents.

    Attributes:
        note: smaller text after the title.
        name: anchor; derived from the title if empty.
        raised: with another background, for published numbers.
    """

    title: str
    blocks: tuple[Block, ...]
    note: str = ""
    name: str = ""
    raised: bool = False


# fmt: off
Block = (
    Text | Prose | Bullets | Facts | Notice | Table | Figure | Figures | Legend | Headline | Bars | Quotes | Image
    | Columns | Details | Statement | Choice | Section
)
# fmt: on
Parts = Block | None | Iterable["Block | None"]


@dataclass(frozen=True, slots=True)
class Report:
    """A report, with its kind above the title and the facts of the first screen.

    Attributes:
        data: all numbers, as in ``report.json``; without it the file has the blocks.
        brief: a narrow page without a table of contents, for few printed pages.
        drawn: reason why every number of the page was drawn at random; empty if not all were.
        footer: last line of the page.
    """

    title: str
    blocks: tuple[Block, ...]
    kind: str = "Report"
    facts: tuple[tuple[str, str], ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    brief: bool = False
    drawn: str = ""
    footer: str = (
        "Written by medunlearn. This file loads nothing from a network. The same numbers are in report.md and "
        "report.json beside it."
    )


def blocks(*parts: Parts) -> tuple[Block, ...]:
    """Flatten single blocks, lists of blocks and None into a list of blocks."""
    groups = (part if isinstance(part, Iterable) else (part,) for part in parts)
    return tuple(block for group in groups for block in group if block is not None)


def section(title: str, *parts: Parts, note: str = "", name: str = "", raised: bool = False) -> Section | None:
    """A section; None without content."""
    inside = blocks(*parts)
    return Section(title, inside, note, name, raised) if inside else None


def details(summary: str, *parts: Parts, note: str = "", opened: bool = False, tag: str = "") -> Details | None:
    """A folded part; None without content."""
    inside = blocks(*parts)
    return Details(summary, inside, note, opened, tag) if inside else None


def figures(pairs: Iterable[tuple[str, Spec]], label: str, columns: int = 3, **options: Any) -> Figures | None:
    """A grid of titled figures; None without figures; ``label`` describes each figure."""
    grid = tuple(Figure(spec, f"{label}: {title}.", title, **options) for title, spec in pairs)
    return Figures(grid, columns) if grid else None


def children(block: Block) -> tuple[Block, ...]:
    """Blocks directly inside a block."""
    match block:
        case Columns(left, right):
            return (*left, *right)
        case Choice(_, options):
            return blocks(*(inside for _, inside in options))
        case Figures(grid):
            return grid
        case Section() | Details() | Statement():
            return block.blocks
        case _:
            return ()


def figures_of(parts: Iterable[Block]) -> list[Figure]:
    """All figures of blocks, at any depth."""
    return [
        figure
        for block in parts
        for figure in ([block] if isinstance(block, Figure) else figures_of(children(block)))
    ]


def tables_of(parts: Iterable[Block]) -> list[Table]:
    """All tables of blocks, at any depth."""
    return [
        table for block in parts for table in ([block] if isinstance(block, Table) else tables_of(children(block)))
    ]
