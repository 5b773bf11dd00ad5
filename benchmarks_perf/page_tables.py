"""Tables that scripts write into pages of docs/, each between its own two markers."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import date
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

    A line above the markers that names date, commit and command (``*2026-11-20, commit ...*``) is written anew when
    a script of this folder calls. A page without the markers may leave the table to results.md.

    Raises:
        ValueError: the page has no such markers.
    """
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    pages = [file for file in (docs / page, docs / "results.md") if file.exists()]
    for file in pages:
        before, found, rest = file.read_text(encoding="utf-8").partition(start)
        _, ended, behind = rest.partition(end)
        if found and ended:
            before = _MADE.sub(lambda old: _made_by() or old[0], before)
            file.write_text(f"{before}{start}\n{table.strip()}\n\n{end}{behind}", encoding="utf-8")
            return
    raise ValueError(f"{page} has no markers {start.strip()} and {end}")


_MADE = re.compile(r"\*\d{4}-\d\d-\d\d, [^\n]*\*(?=\n\n(?:<details[^\n]*\n\n)?\Z)")


def _made_by() -> str | None:
    """Date, commit and command of the script of this folder that runs; None of any other program."""
    script, *words = sys.argv
    if Path(script).resolve().parent != Path(__file__).resolve().parent:
        return None
    shown = ["OUT" if Path(word).is_absolute() else word for word in words]
    root = Path(__file__).parents[1]
    ask = ("git", "-C", str(root), "rev-parse", "--short=8", "HEAD")
    commit = subprocess.run(ask, capture_output=True, text=True).stdout.strip() or "unknown"
    command = " ".join(["python", f"benchmarks_perf/{Path(script).name}", *shown])
    return f"*{date.today()}, commit `{commit}`: `{command}`*"
