"""CSV sheets that people fill in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from medunlearn.data.escaping import csv_text
from medunlearn.data.storage import write_atomically, writer
from medunlearn.errors import InputError, SourceError


def refuse_existing(path: Path) -> None:
    """Refuse to overwrite a sheet.

    Raises:
    """
    if path.exists():
        raise InputError(f"{path} exists, and may contain a reviewer's work. Choose another --out.")


def write_sheet(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write a CSV for a spreadsheet, header first; cells that look like formulas are escaped."""
    write_atomically(path, writer(csv_text(rows).encode()))


def refuse_problems(problems: Sequence[str], where: str = "", most: int = 5) -> None:
    """Raise if there are problems, naming the first ones.

    Raises:
    """
    if problems:
        more = f" ({len(problems)} such in all)" if len(problems) > most else ""
        raise SourceError(f"{where}{'; '.join(problems[:most])}{more}.")
