"""Private files of an audit, and CSV sheets that people fill in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from medunlearn.data.escaping import csv_text
from medunlearn.data.storage import write_atomically
from medunlearn.errors import InputError, SourceError


def write_private(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file atomically, readable by its owner alone."""

    def write_part(part: Path) -> None:
        part.touch(mode=0o600)
        write(part)

    write_atomically(path, write_part)


def refuse_existing(path: Path) -> None:
    """Raises:
    InputError: the sheet is there.
    """
    if path.exists():
        raise InputError(f"{path} is there already, and may hold somebody's work. Choose another --out.")


def write_sheet(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write a CSV for a spreadsheet, header first; no cell is taken for a formula."""
    write_private(path, lambda part: part.write_bytes(csv_text(rows).encode()))


def refuse_problems(problems: Sequence[str], where: str = "", shown: int = 5) -> None:
    """Raises:
    SourceError: there are problems; names the first ones.
    """
    if problems:
        more = f" ({len(problems)} such in all)" if len(problems) > shown else ""
        raise SourceError(f"{where}{'; '.join(problems[:shown])}{more}.")
