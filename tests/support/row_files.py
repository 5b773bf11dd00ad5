"""Tables of rows in files."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


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


TABLE_NAMES = ("n.csv", "semicolons.csv", "tabs.csv", "bars.csv", "n.TSV", "n.jsonl", "n.json", "n.parquet")
"""Names of files for :func:`write_rows`, each another form of table."""
_DELIMITERS = {"semicolons": ";", "tabs": "\t", "bars": "|"}


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """A table in the form of its ending; a CSV named after its delimiter, with semicolons as Excel has it."""
    match path.suffix.lower():
        case ".parquet":
            pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)
        case ".json":
            path.write_text(json.dumps(rows, ensure_ascii=False), "utf-8")
        case ".jsonl":
            path.write_text("\n\n".join(json.dumps(row) for row in rows))
        case ".tsv":
            write_csv(path, rows, "\t")
        case _:
            encoding = "utf-8-sig" if path.stem == "semicolons" else "utf-8"
            write_csv(path, rows, _DELIMITERS.get(path.stem, ","), encoding)
    return path


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of a table, with or without a byte order mark."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))
