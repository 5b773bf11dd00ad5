"""Rows of a large table as data of the HTML page, whose script draws some of them at a time.

Cells repeat (labels, counts), so each distinct one is written once, and rows are places in the list of cells.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from medunlearn.reports.blocks import Cell, Table

MOST_ROWS = 2_000
"""Rows up to which a table is written out; a browser takes a second for every thousand or two."""
DRAWN_ROWS = 200
"""Rows that are drawn at a time, and that stand in the page without its script, and in print."""


def is_large(table: Table) -> bool:
    """True if the rows of a table are data."""
    return len(table.rows) > MOST_ROWS


def row_data(table: Table, rendered: Callable[[Cell], str]) -> str:
    """The rows as JSON that may stand in a script element.

    Args:
        rendered: HTML of a cell's content, with its text escaped.

    Returns:
        An object with ``cells`` (HTML), ``rows`` (places in ``cells``), and ``filters``: name -> ``values``, and
        for each row the place or places of its values.
    """
    cells: dict[Cell, int] = {}
    rows = [[cells.setdefault(cell, len(cells)) for cell in row] for row in table.rows]
    data = {
        "drawn": DRAWN_ROWS,
        "cells": [rendered(cell) for cell in cells],
        "rows": rows,
        "filters": {name: _filter_data(values) for name, values in table.filters.items()},
    }
    # "<" would end the script element, or begin a comment in it.
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _filter_data(values: Sequence[str | tuple[str, ...]]) -> dict[str, Any]:
    distinct: dict[str, int] = {}
    rows = [
        [distinct.setdefault(each, len(distinct)) for each in value]
        if isinstance(value, tuple)
        else distinct.setdefault(value, len(distinct))
        for value in values
    ]
    return {"values": [*distinct], "rows": rows}
