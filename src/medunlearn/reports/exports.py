"""Tables and figures of a report as files for a paper: CSV, LaTeX, SVG, PDF."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec

from medunlearn.errors import ConfigError, InputError
from medunlearn.reports.blocks import Block, Cell, Choice, Details, Figure, Report, Section, Table, children
from medunlearn.reports.figures import FIGURE_SIZES
from medunlearn.reports.provenance import watermarked
from medunlearn.reports.svg import figure_svg
from medunlearn.reports.svg_marks import Paint, for_files

TABLE_FORMATS = ("csv", "tex")
FIGURE_FORMATS = ("svg", "pdf")
NEEDS_PDF = "PDF figures need svglib: pip install 'medunlearn[figures]'. SVG figures need nothing (--figures svg)."
LONG_TABLE = 45
"""A LaTeX table with more rows goes over several pages."""


def check_formats(tables: Sequence[str], figures: Sequence[str]) -> None:
    """Refuse unknown formats, and PDF where its library is missing, before any work.

    Raises:
        ConfigError: an unknown format.
        InputError: PDF without svglib.
    """
    named = (("--tables", tables, TABLE_FORMATS), ("--figures", figures, FIGURE_FORMATS))
    problems = [
        f"{flag} {name}: choose from {', '.join(known)}"
        for flag, names, known in named
        for name in names
        if name not in known
    ]
    if problems:
        raise ConfigError(problems)
    if "pdf" in figures and find_spec("svglib") is None:
        raise InputError(NEEDS_PDF)


def export_files(report: Report, tables: Sequence[str], figures: Sequence[str]) -> dict[str, bytes]:
    """Path below the report's folder -> content, of every table and figure in every format."""
    contents = list(_named(watermarked(report).blocks, ()))
    files: dict[str, bytes] = {}
    for name, block in _unique((name, block) for name, block in contents if isinstance(block, Table)):
        assert isinstance(block, Table)
        files |= {f"tables/{name}.{form}": _TABLES[form](block, name).encode() for form in tables}
    for name, block in _unique((name, block) for name, block in contents if isinstance(block, Figure)):
        assert isinstance(block, Figure)
        files |= {f"figures/{name}.{form}": _FIGURES[form](block) for form in figures}
    return files


def _named(blocks: Iterable[Block], path: tuple[str, ...]) -> Iterator[tuple[str, Block]]:
    """Every table and figure with a name: choices on the way, and its own name, title, or nearest heading."""
    for block in blocks:
        match block:
            case Table() | Figure():
                heading = path[-1:] if path else ("table",)
                own = block.name or block.title
                chosen = [part.removeprefix("?") for part in path if part.startswith("?")]
                yield _slug(" ".join([*chosen, own or heading[0].removeprefix("?")])), block
            case Choice(_, options):
                for name, inside in options:
                    yield from _named(inside, (*path, f"?{name}"))
            case Section(title=title) | Details(summary=title):
                yield from _named(block.blocks, (*path, title))
            case _:
                yield from _named(children(block), path)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80] or "table"


def _unique(pairs: Iterable[tuple[str, Block]]) -> Iterator[tuple[str, Block]]:
    seen: dict[str, int] = {}
    for name, block in pairs:
        seen[name] = seen.get(name, 0) + 1
        yield (name if seen[name] == 1 else f"{name}-{seen[name]}"), block


# Tables.


def csv_text(table: Table, name: str = "") -> str:
    """One line a row. The notes of a column with notes (intervals) are a column of their own; a dash is empty."""
    noted = [any(row[place].note for row in table.rows) for place in range(len(table.columns))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heads = list[str]()
    for column, has_notes in zip(table.columns, noted, strict=True):
        heads += [column.text, f"{column.text} ({column.note or 'note'})"] if has_notes else [str(column)]
    writer.writerow(heads)
    for row in table.rows:
        cells = list[str]()
        for cell, has_notes in zip(row, noted, strict=True):
            cells += [_plain(cell.text), _plain(cell.note)] if has_notes else [_plain(cell.text)]
        writer.writerow(cells)
    return out.getvalue()


def _plain(text: str) -> str:
    return "" if text == "–" else text.replace("−", "-")


_LATEX: Mapping[str, str] = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "−": "$-$", "–": "--", "×": r"$\times$", "≤": r"$\leq$",
    "≥": r"$\geq$", "→": r"$\rightarrow$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "<": r"$<$", ">": r"$>$",
}  # fmt: skip
_LATEX_MARKS = {"lowest": r"\textbf{%s}", "highest": r"\underline{%s}"}


def latex_text(table: Table, name: str = "") -> str:
    """A table for ``booktabs``; ``longtable`` where it has many rows. Intervals stand in small type."""
    heads = " & ".join(_latex_cell(column) for column in table.columns)
    rows = [" & ".join(map(_latex_cell, row)) + r" \\" for row in table.rows]
    form = "l" * len(table.columns)
    caption = [rf"\caption{{{_latex(table.title)}}}"] if table.title else []
    label = [rf"\label{{tab:{name}}}"] if name else []
    if len(table.rows) > LONG_TABLE:
        above = [r"% \usepackage{booktabs, longtable}", rf"\begin{{longtable}}{{{form}}}"]
        titles = [f"{''.join([*caption, *label])} \\\\"] if caption or label else []
        lines = [*above, *titles, r"\toprule", rf"{heads} \\", r"\midrule", r"\endhead", *rows, r"\bottomrule"]
        return "\n".join([*lines, r"\end{longtable}"]) + "\n"
    above = [r"% \usepackage{booktabs}", r"\begin{table}", r"\centering", *caption, *label]
    lines = [
        *above,
        rf"\begin{{tabular}}{{{form}}}",
        r"\toprule",
        rf"{heads} \\",
        r"\midrule",
        *rows,
        r"\bottomrule",
    ]
    return "\n".join([*lines, r"\end{tabular}", r"\end{table}"]) + "\n"


def _latex_cell(cell: Cell) -> str:
    text = _latex(cell.text)
    if cell.spans:
        text = "".join(_LATEX_MARKS.get(span.mark, "%s") % _latex(span.text) for span in cell.spans)
    return text + (rf" {{\scriptsize {_latex(cell.note)}}}" if cell.note else "")


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


# Figures.


def svg_bytes(figure: Figure, paint: Paint | None = None) -> bytes:
    """The drawing on white paper, with its title above."""
    width, height = next(iter(FIGURE_SIZES[figure.size].values()))
    return figure_svg(figure.spec, width, height, figure.label, paint or for_files()).encode()


def pdf_bytes(figure: Figure) -> bytes:
    """The drawing as a vector PDF.

    Raises:
        InputError: svglib is missing.
    """
    if find_spec("svglib") is None:
        raise InputError(NEEDS_PDF)
    from reportlab.graphics import renderPDF
    from svglib.svglib import svg2rlg

    drawing = svg2rlg(io.BytesIO(svg_bytes(figure, for_files(halo=False))))
    content: bytes = renderPDF.drawToString(drawing)
    return content


_TABLES: Mapping[str, Callable[[Table, str], str]] = {"csv": csv_text, "tex": latex_text}
_FIGURES: Mapping[str, Callable[[Figure], bytes]] = {"svg": svg_bytes, "pdf": pdf_bytes}
