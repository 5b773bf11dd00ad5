"""Escaping of model and record text for CSV and Markdown: no formula, tag, link or cell break gets through."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

from medunlearn.terminal import printable_line

_NUMBER = r"[+\-](?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:[eE][+\-]?[0-9]+)?%?(?![\s\S])"
FORMULA = (
    r"^['\"\t\n\v\f\r \u00a0\u200b\ufeff]*"
    rf"(?:[\t\r\n]|(?!{_NUMBER})[=+\-@\uff1d\uff0b\uff0d\uff20])"
)
"""A cell that a spreadsheet may run, also after quotes and spaces, but no number. Python and JavaScript read it.

Source: OWASP, "CSV Injection".
"""
_FORMULA = re.compile(FORMULA)


def escape_formula(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: escaped with an apostrophe if it could be one."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unescape_formula(cell: str) -> str:
    """Undo :func:`escape_formula`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) else cell


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """Rows, header first, as CSV for spreadsheets: UTF-8 with byte order mark, CRLF, no formulas."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerows([escape_formula(cell) for cell in row] for row in rows)
    return "\ufeff" + buffer.getvalue()


def csv_of_frame(table: Any) -> str:
    """A DataFrame as CSV, without its index; formulas are escaped in text and headings, numbers are formatted by
    pandas.
    """
    columns = {
        name: column.astype(object).map(lambda cell: escape_formula(cell) if isinstance(cell, str) else cell)
        for name, column in table.items()
        if column.dtype.kind not in "biufc"
    }
    guarded = table.assign(**columns).rename(columns=escape_formula)
    # A lone CR in a cell is quoted only where rows end in CRLF.
    return str(guarded.to_csv(index=False, lineterminator="\r\n"))


def markdown_line(text: str) -> str:
    """One line in which no viewer sees a tag, a link or an image."""
    return printable_line(text).replace("<", "&lt;").replace("![", "!\\[").replace("](", "]\\(")


def markdown_cell(text: str) -> str:
    """Text escaped like :func:`markdown_line` that also stays in its cell of a pipe table."""
    # A backslash before a pipe would undo the pipe's own.
    return re.sub(r"(\\*)\|", r"\1\1\\|", markdown_line(text))
