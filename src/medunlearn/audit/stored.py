"""Responses that somebody has stored already: probes and what a model said, with neither model nor torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from medunlearn.audit.asked import ids_of, response_of
from medunlearn.audit.probes import Probe
from medunlearn.audit.scoring import Key, first_text
from medunlearn.audit.units import Unit, WordsUnit, continuations
from medunlearn.config.audit import AuditSettings
from medunlearn.data.responses import Response
from medunlearn.data.storage import sha256_of
from medunlearn.errors import SourceError, unknown_name
from medunlearn.sources.tables import read_rows

NAMES: Mapping[str, tuple[str, ...]] = {
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
"""What a column may be called; the first two are needed."""

MIXED = 0
"""Prefix length of probes whose prefixes have many lengths."""
_LENGTHS_APART = 12


@dataclass(frozen=True, slots=True)
class Row:
    """One stored response; ``prefix_tokens`` and ``copies`` are None where the file does not say."""

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
class Stored:
    """A file of responses, as probes and responses.

    Attributes:
        starts: the text of each response's first tokens.
        empty: rows without a suffix, left out.
    """

    probes: tuple[Probe, ...]
    keys: tuple[Key, ...]
    responses: dict[Key, Response]
    starts: dict[Key, str]
    empty: int


def identity(file: Path) -> list[str]:
    """For the run's key.

    Raises:
        SourceError: no such file.
    """
    if not file.is_file():
        raise SourceError(f"There is no file {file}. --responses names a table: JSONL, CSV or Parquet.")
    return ["responses", sha256_of(file)]


def read_stored(file: Path, unit: Unit, settings: AuditSettings) -> Stored:
    """Read responses, and cut prefix, suffix and response into tokens as one text.

    The suffix is compared as far as ``max_new_tokens`` goes, and the response likewise.

    Raises:
        SourceError: rows that cannot be used, or columns that are not there.
    """
    rows, empty = _rows(file)
    suffixes = continuations(unit, [row.prefix for row in rows], [row.suffix for row in rows])
    lengths = _prefix_lengths(rows, unit)
    if isinstance(unit, WordsUnit):
        unit.seal()
    said = continuations(unit, [row.prefix for row in rows], [row.response for row in rows])
    probes: dict[str, Probe] = {}
    named: dict[tuple[str, int, str, str], str] = {}
    responses: dict[Key, Response] = {}
    starts: dict[Key, str] = {}
    most = settings.max_new_tokens
    for row, suffix, length, encoded in zip(rows, suffixes, lengths, said, strict=True):
        what = (row.record_id, length, row.prefix, row.suffix)
        if what not in named:
            again = sum(key[:2] == what[:2] for key in named) if f"{row.record_id}@{length}" in probes else 0
            named[what] = f"{row.record_id}@{length}" + (f".{again + 1}" if again else "")
        probe_id = named[what]
        if probe_id not in probes:
            ids_of_suffix, ends = suffix.ids[:most], suffix.ends[:most]
            text = row.suffix[: int(ends[-1])] if len(ends) else ""
            probes[probe_id] = Probe(
                probe_id,
                row.record_id,
                row.subject,
                row.corpus,
                length,
                row.prefix,
                text,
                np.zeros(0, dtype=np.uint32),
                ids_of_suffix,
                ends,
                row.copies,
            )
        key = _key(probe_id, row, responses)
        responses[key] = response_of(key, row.response, ids_of([encoded])[0][:most])
        starts[key] = first_text(row.response, encoded)
    return Stored(tuple(probes.values()), tuple(responses), responses, starts, empty)


def _key(probe_id: str, row: Row, taken: Mapping[Key, Response]) -> Key:
    """A probe's several responses are its samples, numbered in the file's order where it does not number them."""
    sample = row.sample
    if sample is None:
        sample = 0
        while (probe_id, row.variant, sample) in taken:
            sample += 1
    elif (probe_id, row.variant, sample) in taken:
        raise SourceError(f"Sample {sample} of {probe_id!r} ({row.variant}) is there twice. Number samples from 0.")
    return probe_id, row.variant, sample


def _prefix_lengths(rows: Sequence[Row], unit: Unit) -> list[int]:
    """As the file says them; else counted, and all called mixed where there are many lengths."""
    if all(row.prefix_tokens is not None for row in rows):
        return [row.prefix_tokens or 0 for row in rows]
    counted = [len(one) for one in unit.encode([row.prefix for row in rows])]
    return counted if len(set(counted)) <= _LENGTHS_APART else [MIXED] * len(counted)


def _rows(file: Path) -> tuple[list[Row], int]:
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
    found = {}
    for what, names in NAMES.items():
        there = [name for name in names if name in row]
        if there:
            found[what] = there[0]
    missing = [what for what in ("suffix", "response") if what not in found]
    if missing:
        asked = "; ".join(unknown_name("column", what, row) for what in missing)
        raise SourceError(
            f"{file}: {asked} A table of responses has prefix, suffix (or reference) and response, and may have "
            "record_id, subject, corpus, prefix_tokens, variant, sample and copies."
        )
    return found


def _row(file: Path, number: int, columns: Mapping[str, str], content: Mapping[str, Any]) -> Row:
    def text(what: str, otherwise: str) -> str:
        value = content.get(columns[what]) if what in columns else None
        return otherwise if value is None or str(value) == "" else str(value)

    def count(what: str) -> int | None:
        value = content.get(columns[what]) if what in columns else None
        try:
            return None if value in (None, "") else int(value)
        except (TypeError, ValueError):
            raise SourceError(f"{file}, row {number + 1}: {what} is {value!r}, not a whole number.") from None

    record = text("record_id", f"row-{number + 1}")
    return Row(
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


def files_of_responses(word: str) -> Iterator[Path]:
    """The path that a word names, if it is a table of responses."""
    path = Path(word)
    if path.is_file() and path.suffix.lower() in (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".json"):
        yield path
