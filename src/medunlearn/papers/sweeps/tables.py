"""Tables shared by the reports of all sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd

from medunlearn.papers.sweeps.results import SweepNumber
from medunlearn.reports.blocks import Cell, Table
from medunlearn.reports.formatting import ABSENT, decimal
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.table_blocks import records

_SEARCH = ("method", "lr", "utility", "forgetting", "score", "chosen", "utility_name", "forgetting_name", "reason")


def cell_table(heads: Iterable[object], rows: Iterable[Iterable[object]]) -> Table | None:
    """A table of cells and plain text; None without rows."""
    return records(map(_cell, heads), (tuple(map(_cell, row)) for row in rows))


def contrast_table(
    heads: Iterable[object],
    rows: Iterable[tuple[Sequence[object], Sequence[SweepNumber]]],
    cell: Callable[[SweepNumber], Cell],
) -> Table | None:
    """A table of (labels, contrasts) rows; rows without values are dropped."""
    valued = ((labels, numbers) for labels, numbers in rows if any(number.value is not None for number in numbers))
    return cell_table(heads, ((*labels, *map(cell, numbers)) for labels, numbers in valued))


def _cell(content: object) -> Cell:
    return content if isinstance(content, Cell) else Cell(str(content))


def search_table(search: pd.DataFrame | None) -> Table | None:
    """The candidate learning rates, one row each, with the numbers behind the choice."""
    if search is None:
        return None
    columns = [name for name in _SEARCH if name in search.columns]
    return cell_table(columns, ([_plain(row[name]) for name in columns] for row in rows_of(search)))


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    if type(value).__name__ in ("bool", "bool_"):
        return "chosen" if value else ""
    finite = number(value)
    if finite is None:
        return ABSENT
    return decimal(finite) if abs(finite) >= 0.001 or finite == 0 else f"{finite:.0e}"
