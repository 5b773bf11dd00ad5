"""Provenance of a page's numbers, and the mark of numbers that were drawn at random, for every output format.

:func:`watermarked` marks blocks; each renderer calls it, so that no format shows a drawn number without its mark.
A table or figure is recognized by the mark in its titles (:func:`medunlearn.data.origins.marked`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medunlearn.data.origins import (
    DRAWN,
    NOT_RECORDED,
    NOTE,
    Provenance,
    any_drawn,
    is_marked,
    marked,
    why_undecided,
)
from medunlearn.reports.blocks import (
    Bars,
    Block,
    Cell,
    Choice,
    Columns,
    Details,
    Figure,
    Figures,
    Report,
    Section,
    Spec,
    Statement,
    Table,
    Text,
    section,
)
from medunlearn.reports.claims import NOT_MEASURABLE, Finding
from medunlearn.reports.view import ResultView, titled

NAME = "provenance"
"""Anchor of the section."""
_ABOUT = (
    "A rating is as good as the model that gave it, and a number as good as the questions behind it. Control cases "
    "are invented cases with known answers that each judge was asked as well."
)
_HEADS = ("What", "By", "Drawn or real", "Server", "Prompt", "Its SHA-256", "Last answer", "Control cases")
_BEST = ("lowest", "highest")
"""Marks of best values."""
_UNMARKED = frozenset({"published", NAME, "runs", "training"})
"""Names of sections whose tables hold no number of the run."""


def undecided(content: Any) -> str:
    """Reason why no number of a page decides anything, since what it rests on was drawn; empty if it may decide.

    Args:
        content: something with a ``provenance`` of its benchmark, such as the facts of a benchmark or a report's
            content.
    """
    entries = content.get("provenance", ()) if isinstance(content, Mapping) else content.provenance
    return why_undecided(
        entry if isinstance(entry, Provenance) else Provenance.of(entry) for entry in entries or ()
    )


def provenance_section(entries: Sequence[Provenance], extractor: str = "") -> Section | None:
    """Who wrote labels and questions, who judged, and which extractor found keywords; None if nobody did.

    Args:
        extractor: of the leakage score's keywords; empty if it was not measured.
    """
    rows = [_row(entry) for entry in entries]
    if extractor:
        rows.append(_row(Provenance("keywords of the leakage score", extractor, "none", drawn=False)))
    if not rows:
        return None
    table = Table(tuple(map(Cell, _HEADS)), tuple(rows), cards=True)
    return section("Who wrote and who judged", Text(_ABOUT), table, name=NAME)


def _row(entry: Provenance) -> tuple[Cell, ...]:
    drawn = {True: DRAWN, False: "real", None: NOT_RECORDED}[entry.drawn]
    controls = "" if entry.controls is None else "{} of {} as expected".format(*entry.controls)
    texts = (entry.model, drawn, entry.server, entry.prompt.replace("_", " "), entry.prompt_sha256[:12], entry.date)
    recorded = (Cell(text or ("" if entry.server == "none" else NOT_RECORDED)) for text in texts)
    return (Cell(entry.what), *recorded, Cell(controls))


def provenance_data(entries: Iterable[Provenance]) -> list[dict[str, Any]]:
    """The entries for ``report.json``, with what was not recorded as such."""
    return [{**_whole(entry), "drawn": NOT_RECORDED if entry.drawn is None else entry.drawn} for entry in entries]


def _whole(entry: Provenance) -> dict[str, Any]:
    names = ("what", "model", "server", "prompt", "prompt_sha256", "date")
    values = {name: getattr(entry, name) or NOT_RECORDED for name in names}
    return values | ({"controls": list(entry.controls)} if entry.controls else {})


def provenance_lines(entries: Sequence[Provenance]) -> tuple[str, ...]:
    """Warnings for the top of a page and for the terminal: what was drawn at random."""
    if not any_drawn(entries):
        return ()
    reason = why_undecided(entries)
    return (f"{reason[0].upper()}{reason[1:]}: such numbers mean nothing, and no verdict is read from them.",)


def with_provenance(view: ResultView, entries: Sequence[Provenance], extractor: str = "") -> ResultView:
    """A view with who wrote and judged as its last table, and what was drawn as its first warning."""
    part = provenance_section(entries, extractor)
    if part is None:
        return view
    tables = [titled(part.title, block) for block in part.blocks if isinstance(block, Table)]
    return replace(
        view,
        data={**view.data, **({NAME: provenance_data(entries)} if entries else {})},
        blocks=[*view.blocks, *tables],
        warnings=[*provenance_lines(entries), *view.warnings],
    )


def without_drawn(findings: Iterable[Finding], reason: str) -> tuple[Finding, ...]:
    """The findings with every case undecided, if there is a reason why the page's numbers decide nothing."""
    if not reason:
        return tuple(findings)
    return tuple(
        replace(
            finding,
            cases=tuple(
                replace(case, verdict=NOT_MEASURABLE, says=f"not read: {reason}") for case in finding.cases
            ),
        )
        for finding in findings
    )


def watermarked(report: Report) -> Report:
    """The report with a mark on every table and figure of drawn numbers.

    If the page as a whole is drawn (:attr:`Report.drawn`), every table and figure of its numbers is.
    """
    blocks = tuple(part for block in report.blocks for part in _mark(block, whole=bool(report.drawn)))
    return replace(report, blocks=blocks)


def mark_blocks(parts: Iterable[Block], *, whole: bool = False) -> tuple[Block, ...]:
    """Blocks with their marks; ``whole``: all their numbers were drawn."""
    return tuple(marked_part for block in parts for marked_part in _mark(block, whole=whole))


def _mark(block: Block, *, whole: bool) -> tuple[Block, ...]:
    """A block with its marks, behind the line that explains them if it is a table."""

    def inside(parts: Sequence[Block], whole: bool = whole) -> tuple[Block, ...]:
        return mark_blocks(parts, whole=whole)

    match block:
        case Table():
            if not (whole or _has_mark(block)):
                return (block,)
            return (Text(NOTE, "aside"), mark_table(block) if whole else block)
        case Figure():
            return (mark_figure(block) if whole or _has_mark(block) else block,)
        case Bars(title):
            return (replace(block, title=marked(title)) if whole else block,)
        case Figures(grid):
            figures = [mark_figure(figure) if whole or _has_mark(figure) else figure for figure in grid]
            return (replace(block, figures=tuple(figures)),)
        case Columns(left, right):
            return (replace(block, left=inside(left), right=inside(right)),)
        case Choice(_, options):
            return (replace(block, options=tuple((name, inside(parts)) for name, parts in options)),)
        case Section():
            is_own = not block.raised and block.name not in _UNMARKED
            part = inside(block.blocks, whole and is_own) if is_own else block.blocks
            if is_marked(block.title):
                part = inside(block.blocks, True)
            return (replace(block, blocks=part),)
        case Details() | Statement():
            return (replace(block, blocks=inside(block.blocks)),)
        case _:
            return (block,)


def _has_mark(block: Table | Figure) -> bool:
    return any(map(is_marked, _titles(block)))


def _titles(block: Table | Figure) -> Iterable[str]:
    """Every text of a table or figure that may name a measure."""
    if isinstance(block, Table):
        yield block.title
        for row in (block.columns, *block.rows):
            yield from (f"{cell.text} {cell.note}" for cell in row)
        return
    yield from (block.title, block.label)
    yield from _strings(block.spec)


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _strings(part)


def mark_table(table: Table) -> Table:
    """The table with the mark under every column's head but the first, and no best value."""
    first, *others = table.columns
    heads = [replace(head, note=_joined(head.note)) for head in others]
    rows = tuple(tuple(map(_without_best, row)) for row in table.rows)
    return replace(table, columns=(first, *heads), rows=rows)


def _without_best(cell: Cell) -> Cell:
    spans = tuple(replace(span, mark="") if span.mark in _BEST else span for span in cell.spans)
    return replace(cell, spans=spans)


def _joined(note: str) -> str:
    return note if DRAWN in note else ", ".join(filter(None, (note, DRAWN)))


def mark_figure(figure: Figure) -> Figure:
    """The figure with the mark across it, in its title and in its description."""
    layout = figure.spec.get("layout", {})
    if any(note.get("name") == NAME for note in layout.get("annotations", ())):
        return figure
    mark: Spec = {
        "name": NAME, "text": DRAWN, "showarrow": False, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5,
        "textangle": -18, "opacity": 0.6, "font": {"size": 15, "color": "--warn"},
    }  # fmt: skip
    spec = {**figure.spec, "layout": {**layout, "annotations": [*layout.get("annotations", ()), mark]}}
    title = marked(figure.title) if figure.title else ""
    return replace(figure, spec=spec, title=title, label=marked(figure.label))
