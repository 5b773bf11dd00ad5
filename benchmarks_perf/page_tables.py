"""Tables that scripts write into pages of docs/, each between its own two markers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

DOCS = Path(__file__).parents[1] / "docs"


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """A table with the first row's keys as its heads."""
    heads = [*rows[0]]
    lines = (" | ".join(row[head] for head in heads) for row in rows)
    return "\n".join([f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {line} |" for line in lines)])


def with_interval(value: float, low: float | None, high: float | None) -> str:
    """``0.15 (0.08–0.25)``; the value alone where it has no interval."""
    return f"{value:.2f}" if pd.isna(low) or pd.isna(high) else f"{value:.2f} ({low:.2f}–{high:.2f})"


def replace_table(page: str, name: str, table: str, docs: Path = DOCS) -> None:
    """Put a table between ``<!-- NAME -->`` and ``<!-- end of NAME -->`` of a page, in place of the old one.

    Raises:
        ValueError: the page has no such markers.
    """
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    text = (docs / page).read_text()
    before, found, rest = text.partition(start)
    _, ended, behind = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"{page} has no markers {start.strip()} and {end}")
    (docs / page).write_text(f"{before}{start}\n{table.strip()}\n\n{end}{behind}")
