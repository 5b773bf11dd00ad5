"""Log of a search: every file that still contains a subject, how it does so, and every file that was not read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from medunlearn.data.escaping import csv_of_frame
from medunlearn.data.storage import atomic_file, json_bytes
from medunlearn.errors import InputError
from medunlearn.input_files import path_text
from medunlearn.reports.blocks import Facts
from medunlearn.reports.view import ResultView
from medunlearn.request.holders.traces import Trace

How = (
    Trace | Literal["record", "image", "name of the file", "trained on", "token of the vocabulary", "answer about"]
)
"""Ways in which a file holds a subject, besides traces in its text.

Weights are trained on it; a vocabulary's token is in its texts alone; a stored answer is to a request that a table
links to it.
"""
LOGS = (".parquet", ".csv", ".json")
COLUMNS = ("path", "kind", "bytes", "sha256", "how", "evidence", "reason")


@dataclass(frozen=True, slots=True)
class Holder:
    """A file that contains the subject.

    Attributes:
        kind: type of the file: ``benchmark``, ``run``, ``weights``, ``tokenizer``, ``responses``, ``scores``,
            ``store``, ``report``, ``sheet``, ``image``, ``table``, ``text`` or ``other``.
        evidence: kind of trace -> number of occurrences; for text, of runs of eight words.
    """

    path: Path
    kind: str
    bytes: int
    sha256: str
    evidence: Mapping[How, int]


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that was not searched, or only in part."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Holders:
    """The log of a search.

    Attributes:
        holders: files that hold the subject, by path.
        unread: files that were not searched, or only in part; any of them may hold the subject.
        files, bytes: number of files and bytes that were read whole.
        identifiers_left_out: identifiers shared with others, or too short to search for.
    """

    holders: tuple[Holder, ...]
    unread: tuple[UnreadFile, ...]
    files: int = 0
    bytes: int = 0
    identifiers_left_out: int = 0

    @property
    def complete(self) -> bool:
        """True if every file was searched."""
        return not self.unread

    def view(self) -> ResultView:
        """The files that contain the subject and how, and those that were not read."""
        lines = [
            (str(item.path), f"{item.kind}: " + ", ".join(f"{how} ({n:,})" for how, n in item.evidence.items()))
            for item in self.holders
        ]
        left_out = "identifiers were not looked for: too short, or others have them too."
        words = f"{self.identifiers_left_out} {left_out}" if self.identifiers_left_out else None
        data = {"complete": self.complete, "files": self.files, "bytes": self.bytes, "rows": self.table()}
        return ResultView(data, [Facts((*lines, *self.unread_facts)), words, self.extent("the subject")])

    @property
    def unread_facts(self) -> list[tuple[str, str]]:
        """Each file that was not read, and the reason."""
        return [(f"unread: {item.path}", item.reason) for item in self.unread]

    def extent(self, whom: str) -> str:
        """``Traces of the patient: in no file that was read. Files: 120 read, 3 unread, which may hold some.``"""
        number = len(self.holders)
        where = "no file that was read" if not number else "1 file" if number == 1 else f"{number:,} files"
        doubt = ", which may hold some" if self.unread else ""
        return f"Traces of {whom}: in {where}. Files: {self.files:,} read, {len(self.unread):,} unread{doubt}."

    def table(self) -> pd.DataFrame:
        """One row per file and kind of trace, and one per unsearched file with a reason; no text."""
        rows: list[tuple[Any, ...]] = [
            (path_text(holder.path), holder.kind, holder.bytes, holder.sha256, how, number, "")
            for holder in self.holders
            for how, number in holder.evidence.items()
        ]
        rows += [
            (path_text(file.path), None, None, None, "not looked at", None, file.reason) for file in self.unread
        ]
        table = pd.DataFrame(rows, columns=list(COLUMNS))
        return table.astype({"bytes": "Int64", "evidence": "Int64"})

    def write(self, path: Path) -> Path:
        """Write the log as Parquet, CSV or JSON, readable only by its owner.

        Raises:
            InputError: another suffix.
            StorageError: the disk refused.
        """
        table, suffix = self.table(), path.suffix.lower()
        if suffix not in LOGS:
            raise InputError(f"{path}: the log is written as {', '.join(LOGS)}.")

        with atomic_file(path) as part:
            if suffix == ".parquet":
                table.to_parquet(part)
            elif suffix == ".csv":
                part.write_text(csv_of_frame(table), encoding="utf-8")
            else:
                rows = json.loads(table.to_json(orient="records"))
                facts = {"complete": self.complete, "files": self.files, "bytes": self.bytes, "rows": rows}
                part.write_bytes(json_bytes(facts))
        return path
