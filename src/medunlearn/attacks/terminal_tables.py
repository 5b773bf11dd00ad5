"""Tables and sentences of attacks for the terminal, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

Row = Mapping[Any, Any]


@dataclass(frozen=True)
class TerminalTables:
    """Terminal output of the attacks of one family: a table per group, with a column per model.

    Attributes:
        table: rows with ``model``, ``value``, ``low``, ``high``.
        groups: columns whose values make a table, and the title of one.
        lines: columns whose values make a line of a table.
        words: words of a row behind its value.
        differences: rows with ``model``, ``against``, ``difference``, ``low``, ``high``.
        difference_columns: heading -> column of the differences, in front of the difference.
        notes: sentences below.
        empty_lines: lines without any number are shown.
    """

    table: pd.DataFrame
    groups: Sequence[str]
    title: Callable[..., str]
    lines: Sequence[str]
    words: Callable[[Row], str]
    difference_title: str
    differences: pd.DataFrame
    difference_columns: Mapping[str, str]
    reading_heading: str = ""
    notes: Sequence[str] = field(default_factory=tuple)
    empty_lines: bool = False


def rows_of_json(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A table's rows for JSON, with missing values as null."""
    plain = table.astype(object)
    rows = plain.where(plain.notna(), None).to_dict("records")
    return [{str(key): value for key, value in row.items()} for row in rows]
