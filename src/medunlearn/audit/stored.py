"""Stored responses of any table as probes and responses, without a model or torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from medunlearn.audit.probes import Probe
from medunlearn.audit.scoring import first_text
from medunlearn.audit.tables import Key
from medunlearn.audit.units import Encoded, Unit, WordsUnit, continuations
from medunlearn.config.audit import AuditSettings
from medunlearn.data.responses import Response
from medunlearn.data.storage import sha256_of
from medunlearn.errors import SourceError, unknown_name
from medunlearn.sources.tables import read_rows

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "suffix": ("suffix", "reference"),
    "response": ("response", "generated", "output"),
    "prefix": ("prefix", "prompt"),
    "record_id": ("record_id", "id"),
    "subject": ("subject", "patient"),
    "corpus": ("corpus", "dataset"),
    "prefix_tokens": ("prefix_tokens",),
    "variant": ("variant", "decoding"),
    "sample": ("sample",),
    "copies": ("copies",),
}
"""Accepted names of each column; the first two columns are required."""

MIXED = 0
"""Prefix length of probes whose prefixes have many lengths."""
_DISTINCT_LENGTHS = 12
_ENDINGS = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".json")


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One stored response; ``prefix_tokens``, ``sample`` and ``copies`` are None where the file has none."""

    record_id: str
    subject: str
    corpus: str
    prefix_tokens: int | None
    prefix: str
    suffix: str
    response: str
    variant: str
    sample: int | None
    copies: int | None = None


@dataclass(frozen=True)
class StoredAudit:
    """A file of responses as probes and responses.

    Attributes:
        starts: text of each response's first tokens.
        empty: rows without a suffix, left out.
    """

    probes: tuple[Probe, ...]
    keys: tuple[Key, ...]
    responses: dict[Key, Response]
    starts: dict[Key, str]
    empty: int


def is_table(path: Path) -> bool:
    """Whether a path is a table of responses."""
    return path.is_file() and path.suffix.lower() in _ENDINGS


def identity(file: Path) -> list[str]:
    """Part of the run's key.

    Raises:
        SourceError: no such file.
    """
    if not file.is_file():
        raise SourceError(f"There is no file {file}. --responses names a table: JSONL, CSV or Parquet.")
    return ["responses", sha256_of(file)]


def read_stored(file: Path, unit: Unit, settings: AuditSettings) -> StoredAudit:
    """Read responses, and encode prefix with suffix and prefix with response, each as one text.

    Suffix and response are cut to ``max_new_tokens``.

    Raises:
        SourceError: rows that cannot be used, or missing columns.
    """
    rows, empty = _read(file)
    prefixes = [row.prefix for row in rows]
    suffixes = continuations(unit, prefixes, [row.suffix for row in rows])
    lengths = _prefix_lengths(rows, unit)
    if isinstance(unit, WordsUnit):
        unit.seal()
    responses = continuations(unit, prefixes, [row.response for row in rows])
    reader = _Reader(settings.max_new_tokens)
    for row, suffix, length, response in zip(rows, suffixes, lengths, responses, strict=True):
        reader.take(row, suffix, length, response)
    return StoredAudit(
        tuple(reader.probes.values()), tuple(reader.responses), reader.responses, reader.starts, empty
    )


class _Reader:
    """Collects probes, one per text and prefix, and their responses."""

    def __init__(self, most: int) -> None:
        self.probes: dict[str, Probe] = {}
        self.responses: dict[Key, Response] = {}
        self.starts: dict[Key, str] = {}
        self._most = most
        self._ids: dict[tuple[str, int, str, str], str] = {}

    def take(self, row: StoredRow, suffix: Encoded, length: int, response: Encoded) -> None:
        probe_id = self._probe_id(row, length)
        if probe_id not in self.probes:
            ids, ends = suffix.ids[: self._most], suffix.ends[: self._most]
            self.probes[probe_id] = Probe(
                probe_id,
                row.record_id,
                row.subject,
                row.corpus,
                length,
                row.prefix,
                row.suffix[: int(ends[-1])] if len(ends) else "",
                np.zeros(0, dtype=np.uint32),
                ids,
                ends,
                row.copies,
            )
        key = probe_id, row.variant, self._sample(probe_id, row)
        tokens = tuple(response.ids.tolist())[: self._most]
        self.responses[key] = Response(*key, row.response, tokens, finished=True)
        self.starts[key] = first_text(row.response, response)

    def _probe_id(self, row: StoredRow, length: int) -> str:
        """``RECORD@LENGTH``, with a number for further texts of the same record and length."""
        text = (row.record_id, length, row.prefix, row.suffix)
        if text not in self._ids:
            name = f"{row.record_id}@{length}"
            before = sum(known[:2] == text[:2] for known in self._ids) if name in self.probes else 0
            self._ids[text] = name + (f".{before + 1}" if before else "")
        return self._ids[text]

    def _sample(self, probe_id: str, row: StoredRow) -> int:
        """Sample number of a probe's response: as the file says, else counted in its order."""
        if row.sample is None:
            sample = 0
            while (probe_id, row.variant, sample) in self.responses:
                sample += 1
            return sample
        if (probe_id, row.variant, row.sample) in self.responses:
            raise SourceError(
                f"Sample {row.sample} of {probe_id!r} ({row.variant}) is there twice. Number samples from 0."
            )
        return row.sample


def _prefix_lengths(rows: Sequence[StoredRow], unit: Unit) -> list[int]:
    """Lengths as the file says them; else counted, and all :data:`MIXED` where they are many."""
    if all(row.prefix_tokens is not None for row in rows):
        return [row.prefix_tokens or 0 for row in rows]
    counted = [len(encoded) for encoded in unit.encode([row.prefix for row in rows])]
    return counted if len(set(counted)) <= _DISTINCT_LENGTHS else [MIXED] * len(counted)


def _read(file: Path) -> tuple[list[StoredRow], int]:
    rows, bad, empty = [], [], 0
    columns: dict[str, str] = {}
    for number, (place, content) in enumerate(read_rows(file)):
        if isinstance(content, str):
            bad.append(f"{place} {content}")
            continue
        columns = columns or _columns(file, content)
        if any(content.get(columns[name]) is None for name in ("suffix", "response")):
            bad.append(f"{place} has no {columns['suffix']} or no {columns['response']}")
        elif not str(content[columns["suffix"]]).strip():
            empty += 1
        else:
            rows.append(_row(file, number, columns, content))
    if bad:
        shown = "\n".join(f"  - {problem}" for problem in bad[:20])
        raise SourceError(f"{len(bad)} rows of {file} cannot be used:\n{shown}\nMend them and try again.")
    if not rows:
        raise SourceError(f"{file} holds no response.")
    return rows, empty


def _columns(file: Path, row: Mapping[str, Any]) -> dict[str, str]:
    """Our column -> the file's."""
    columns = {}
    for column, names in COLUMNS.items():
        if present := [name for name in names if name in row]:
            columns[column] = present[0]
    if missing := [column for column in ("suffix", "response") if column not in columns]:
        problems = "; ".join(unknown_name("column", column, row) for column in missing)
        raise SourceError(
            f"{file}: {problems} A table of responses has prefix, suffix (or reference) and response, and may have "
            "record_id, subject, corpus, prefix_tokens, variant, sample and copies."
        )
    return columns


def _row(file: Path, number: int, columns: Mapping[str, str], content: Mapping[str, Any]) -> StoredRow:
    def text(column: str, default: str) -> str:
        value = content.get(columns[column]) if column in columns else None
        return default if value is None or str(value) == "" else str(value)

    def count(column: str) -> int | None:
        value = content.get(columns[column]) if column in columns else None
        try:
            return None if value in (None, "") else int(value)
        except (TypeError, ValueError):
            raise SourceError(f"{file}, row {number + 1}: {column} is {value!r}, not a whole number.") from None

    record = text("record_id", f"row-{number + 1}")
    return StoredRow(
        record,
        text("subject", record),
        text("corpus", file.name.split(".")[0]),
        count("prefix_tokens"),
        text("prefix", ""),
        text("suffix", ""),
        text("response", ""),
        text("variant", "greedy"),
        count("sample"),
        count("copies"),
    )
