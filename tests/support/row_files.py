"""Tables of rows in files."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """JSONL, a row a line; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]], delimiter: str = ",", encoding: str = "utf-8") -> Path:
    """A table with the keys of its first row."""
    with path.open("w", newline="", encoding=encoding) as file:
        table = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        table.writeheader()
        table.writerows(rows)
    return path


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of a table, with or without a byte order mark."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))
