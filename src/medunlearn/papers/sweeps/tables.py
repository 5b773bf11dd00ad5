"""Tables that the reports of all sweeps share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from medunlearn.reports.blocks import Cell, Table
from medunlearn.reports.formatting import ABSENT, decimal
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.table_blocks import records

_SEARCH = ("method", "lr", "utility", "forgetting", "score", "chosen", "utility_name", "forgetting_name", "reason")


def cell_table(heads: Iterable[object], rows: Iterable[Iterable[object]]) -> Table | None:
    """A table of cells and plain text, or None of no row."""
    return records(map(_cell, heads), (tuple(map(_cell, row)) for row in rows))


def _cell(content: object) -> Cell:
    return content if isinstance(content, Cell) else Cell(str(content))


def search_table(search: pd.DataFrame | None) -> Table | None:
    """The tried learning rates, one row each, and the numbers that one was chosen by."""
    if search is None:
        return None
    columns = [name for name in _SEARCH if name in search.columns]
    return cell_table(columns, ([_plain(row[name]) for name in columns] for row in rows_of(search)))


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    if type(value).__name__ in ("bool", "bool_"):
        return "chosen" if value else ""
    known = number(value)
    if known is None:
        return ABSENT
    return decimal(known) if abs(known) >= 0.001 or known == 0 else f"{known:.0e}"
