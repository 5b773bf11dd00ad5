"""Blocks of a report. A report is a list of them; every output format walks the list once.

A block says what is shown and never how: :mod:`~medunlearn.reports.html`, :mod:`~medunlearn.reports.markdown` and
:mod:`~medunlearn.reports.json` each render all of them. Text is plain text; the renderers escape it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Spec = dict[str, Any]
"""A plotly figure as plain data: ``data``, ``layout``, ``labels`` (see :mod:`~medunlearn.reports.figures`)."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a cell with its own emphasis; ``note`` is a tooltip.

    ``run``, ``identifier`` and ``given`` mark words of a response: repeated text, an identifier that was given
    away, and one that was in the prompt.
    """

    text: str
    mark: Literal["", "lowest", "highest", "muted", "run", "identifier", "given"] = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """Text with a note below it in smaller type; ``spans`` are the text in parts, where some are emphasized."""

    text: str
    note: str = ""
    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, *spans: Span, note: str = "") -> Cell:
        """A cell of several spans."""
        return cls("".join(span.text for span in spans), note, spans)

    def __str__(self) -> str:
        return f"{self.text} {self.note}".strip()


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows; the first cell names its row.

    Attributes:
        filters: name of a menu of the page -> its value in every row, or its values; ``selected`` -> value when the
            page opens.
        search: label of a field that shows the rows with its words alone; empty for none.
        cards: a row is a card on a narrow page, and its last cell stands below the others where it is a
            :class:`Span` list (a quotation).
    """

    columns: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    filters: Mapping[str, Sequence[str | tuple[str, ...]]] = field(default_factory=dict)
    selected: Mapping[str, str] = field(default_factory=dict)
    search: str = ""
    cards: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """One paragraph. ``aside`` is smaller, ``empty`` says that something is missing."""

    text: str
    style: Literal["", "aside", "empty"] = ""


@dataclass(frozen=True, slots=True)
class Prose:
    """Several paragraphs, in two columns where the page is wide."""

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
    """A box at the top: caveats, or what is missing."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A plotly figure, by name of its theme colours (``--ink``, ``--m1``); left out of Markdown.

    Attributes:
        label: what the figure shows, for a screen reader.
        size: ``small`` and ``level`` stand in a grid, ``wide`` and ``large`` take the whole width.
    """

    spec: Spec
    label: str
    title: str = ""
    size: Literal["small", "level", "wide", "large"] = "small"


@dataclass(frozen=True, slots=True)
class Figures:
    """Small figures side by side, at most ``columns`` in a row."""

    figures: tuple[Figure, ...]
    columns: int = 3


@dataclass(frozen=True, slots=True)
class Legend:
    """Label, symbol and colour of each model. A ``spare`` one shows only where a figure's labels do not fit."""

    entries: tuple[tuple[str, str, str], ...]
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Headline:
    """The answer of the first screen: a label above it, the answer, and sentences below."""

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
    """A ranking as horizontal bars; left out of Markdown, whose tables have the numbers."""

    title: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Quotes:
    """Verbatim quotations by speaker; the first is set apart where it is the reference answer."""

    items: tuple[tuple[str, str], ...]
    reference: bool = False


@dataclass(frozen=True, slots=True)
class Image:
    """An image as a ``data:`` address; left out of Markdown."""

    source: str
    alt: str


@dataclass(frozen=True, slots=True)
class Columns:
    """Two parts beside each other: the first screen's ``lead``, an ``answer`` and its bars, or a ``thumbnail``."""

    left: tuple[Block, ...]
    right: tuple[Block, ...]
    style: Literal["lead", "answer", "thumbnail"] = "lead"


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks behind a summary that opens them. ``tag`` is a coloured word before the summary."""

    summary: str
    blocks: tuple[Block, ...]
    note: str = ""
    opened: bool = False
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """A badge and a claim, with what stands behind it folded (:mod:`~medunlearn.reports.claims` makes them)."""

    badge: str
    tone: Literal["good", "bad", "open"]
    title: str
    summary: str = ""
    blocks: tuple[Block, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """Blocks of which the page shows one option at a time; Markdown and print show all."""

    label: str
    options: tuple[tuple[str, tuple[Block, ...]], ...]
    selected: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with its blocks. Sections of the report itself are in the table of contents.

    Attributes:
        note: smaller, behind the title.
        name: its anchor; made from the title where it is empty.
        raised: on another ground, for published numbers that are not one's own.
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
        data: every number behind the blocks, as ``report.json`` has it; without it the file has the blocks.
        brief: a narrow page without a table of contents, of few sides in print.
        footer: last line of the page.
    """

    title: str
    blocks: tuple[Block, ...]
    kind: str = "Report"
    facts: tuple[tuple[str, str], ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    brief: bool = False
    footer: str = (
        "Written by medunlearn. This file loads nothing from a network. The same numbers are in report.md and "
        "report.json beside it."
    )


def blocks(*parts: Parts) -> tuple[Block, ...]:
    """Blocks of single ones, lists of them and None, which is left out."""
    groups = (part if isinstance(part, Iterable) else (part,) for part in parts)
    return tuple(block for group in groups for block in group if block is not None)


def section(title: str, *parts: Parts, note: str = "", name: str = "", raised: bool = False) -> Section | None:
    """A section, or None if nothing is in it."""
    inside = blocks(*parts)
    return Section(title, inside, note, name, raised) if inside else None


def details(summary: str, *parts: Parts, note: str = "", opened: bool = False, tag: str = "") -> Details | None:
    """A folded part, or None if nothing is in it."""
    inside = blocks(*parts)
    return Details(summary, inside, note, opened, tag) if inside else None


def figures(pairs: Iterable[tuple[str, Spec]], label: str, columns: int = 3, **options: Any) -> Figures | None:
    """A grid of titled figures, or None without any; ``label`` says what each shows."""
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


def has_figures(parts: Iterable[Block]) -> bool:
    """True if a figure is among blocks or inside them."""
    return any(isinstance(block, Figure) or has_figures(children(block)) for block in parts)
