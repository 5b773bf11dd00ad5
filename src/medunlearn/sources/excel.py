"""Rows of Excel workbooks (``.xlsx``), by openpyxl (an extra: ``pip install 'medunlearn[excel]'``)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from medunlearn.errors import SourceError, first_line

Rows = Iterator[tuple[str, dict[str, Any] | str]]


def excel_rows(path: Path) -> Rows:
    """Place and content of each row; the first row that is not empty names the columns.

    Sheets with the same columns are one table. A number shows the zeros that its format puts in front: 4711 in the
    format ``0000000`` is ``0004711``.

    Raises:
        SourceError: openpyxl is not installed, a broken file, a column twice, or sheets with different columns.
    """
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise SourceError(
            f"{path} is an Excel file, which openpyxl reads: pip install 'medunlearn[excel]'. Or save it as CSV in "
            "UTF-8."
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and extensions that hold no value
            book = load_workbook(path, read_only=True, data_only=True)
            try:
                yield from _rows_of(path, book.worksheets)
            finally:
                book.close()
    except (SourceError, OSError):
        raise
    except Exception as error:  # of zipfile, of the XML parser, and the library's own
        raise SourceError(
            f"{path} cannot be read as an Excel file ({first_line(error)}). It is cut off, broken, or protected by "
            "a password."
        ) from error


def _rows_of(path: Path, sheets: Sequence[Any]) -> Rows:
    header: list[str] = []
    for place, sheet in enumerate(sheets, start=1):
        own: list[str] = []
        for number, cells in enumerate(sheet.iter_rows(), start=1):
            values = [_value(cell) for cell in cells]
            while values and values[-1] is None:
                values.pop()
            if values and not own:
                own = ["" if value is None else str(value).strip() for value in values]
                if twice := sorted({name for name in own if name and own.count(name) > 1}):
                    raise SourceError(f"{path} has the column {twice[0]!r} twice. Rename one of them.")
                if header and own != header:
                    raise SourceError(
                        f"{path} has several sheets with different columns. Save the one with the notes as a file "
                        "of its own."
                    )
                header = own
            elif values:
                name = (
                    f"{path.name} row {number}" if len(sheets) == 1 else f"{path.name} sheet {place} row {number}"
                )
                missing = len(own) - len(values)
                whole = dict(zip(own, [*values, *[None] * missing], strict=True)) if missing >= 0 else None
                yield name, f"has {len(values)} cells, and the header {len(own)}" if whole is None else whole
    if not header:
        raise SourceError(f"{path} is empty. Its first row must name the columns.")


def _value(cell: Any) -> Any:
    value, zeros = cell.value, re.fullmatch(r"0{2,}", str(getattr(cell, "number_format", "")))
    if isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer():
        return str(int(value)).zfill(len(zeros[0])) if zeros else int(value)
    return value
