"""Probes and responses from a table of stored responses, without a model or torch."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from medunlearn.audit.audit_tables import UNNAMED, Key
from medunlearn.audit.probe_scoring import ProbeResponses
from medunlearn.audit.probes import Probe
from medunlearn.audit.units import Encoded, Unit, WordsUnit, continuations
from medunlearn.errors import SourceError, unknown_name
from medunlearn.probes.response_logs import RESPONSE, read_references, read_response_rows
from medunlearn.probes.stored_responses import EMPTY, stored_response
from medunlearn.sources.table_files import refuse_bad_rows

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "suffix": ("suffix", "reference"),
    "response": RESPONSE,
    "prefix": ("prefix", "prompt"),
    "record_id": ("record_id", "id"),
    "subject": ("subject", "patient"),
    "corpus": ("corpus", "dataset"),
    "prefix_tokens": ("prefix_tokens",),
    "variant": ("variant", "decoding"),
    "sample": ("sample",),
    "copies": ("copies",),
    "finish_reason": ("finish_reason",),
}
"""Accepted names of each column; the first two columns are required."""

MIXED = 0
"""Prefix length of probes whose prefixes have many lengths."""
_REQUIRED, _NUMBERS = ("suffix", "response"), ("prefix_tokens", "sample", "copies")

Row = Mapping[str, Any]
"""A row by our names of the columns; a number is None if the file has none."""


def read_stored(file: Path, unit: Unit, max_new_tokens: int, references: Path | None = None) -> ProbeResponses:
    """Read responses; encode prefix with suffix and prefix with response, each pair as one text.

    Suffix and response are cut to ``max_new_tokens``.

    Args:
        references: table of prefixes and true texts for rows without them.
    """
    rows, empty = _read(file, None if references is None else read_references(references))
    prefixes = [row["prefix"] for row in rows]
    suffixes = continuations(unit, prefixes, [row["suffix"] for row in rows])
    lengths = _prefix_lengths(rows, unit)
    if isinstance(unit, WordsUnit):
        unit.seal()
    responses = continuations(unit, prefixes, [row["response"] or "" for row in rows])
    answers, keys, free = ProbeResponses(empty=empty), set[Key](), dict[tuple[str, str], int]()
    probe_ids, labels = _probe_ids(rows, lengths), _length_labels(rows, lengths)
    for row, probe_id, length, suffix, response in zip(rows, probe_ids, labels, suffixes, responses, strict=True):
        if probe_id not in answers.probes:
            answers.probes[probe_id] = _probe(row, probe_id, length, suffix, max_new_tokens)
        key = probe_id, row["variant"], _sample(probe_id, row, keys, free)
        keys.add(key)
        answers.keys.append(key)
        if row["response"] is None:
            answers.reasons[key] = EMPTY
            continue
        tokens = tuple(response.ids.tolist())[:max_new_tokens]
        answers.responses[key] = stored_response(key, row["response"], tokens, row["finish_reason"])
        answers.starts[key] = response.start_of(row["response"])
    return answers


def _probe(row: Row, probe_id: str, length: int, suffix: Encoded, most: int) -> Probe:
    encoded = Encoded(suffix.ids[:most], suffix.ends[:most])
    text = row["suffix"][: int(encoded.ends[-1])] if len(encoded) else ""
    labels = (row["record_id"], row["subject"], row["corpus"], length, row["prefix"])
    return Probe(probe_id, *labels, text, encoded, copies=row["copies"])


def _probe_ids(rows: Sequence[Row], lengths: Sequence[int]) -> list[str]:
    """``RECORD@LENGTH``, plus a hash of the prefix if a record has several prefixes of one length.

    An id depends only on record and prefix, not on the order of rows, so that files of two models can be paired.
    """
    prefixes: dict[tuple[str, int], set[str]] = {}
    keys = [(row["record_id"], n) for row, n in zip(rows, lengths, strict=True)]
    for key, row in zip(keys, rows, strict=True):
        prefixes.setdefault(key, set()).add(row["prefix"])
    return [
        f"{key[0]}@{key[1]}" + (f".{_short_hash(row['prefix'])}" if len(prefixes[key]) > 1 else "")
        for key, row in zip(keys, rows, strict=True)
    ]


def _short_hash(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:10]


def _sample(probe_id: str, row: Row, keys: Set[Key], free: dict[tuple[str, str], int]) -> int:
    """Sample number of a probe's response: from the file, else counted in row order.

    Args:
        free: probe and variant -> a number below which none is free.
    """
    variant, sample = row["variant"], row["sample"]
    if sample is None:
        sample = free.get((probe_id, variant), 0)
        while (probe_id, variant, sample) in keys:
            sample += 1
        free[probe_id, variant] = sample + 1
    elif (probe_id, variant, sample) in keys:
        raise SourceError(f"Sample {sample} of {probe_id!r} ({variant}) occurs twice. Number samples from 0.")
    return int(sample)


def _prefix_lengths(rows: Sequence[Row], unit: Unit) -> list[int]:
    """Lengths of the prefixes: from the file, else counted."""
    if _have_lengths(rows):
        return [row["prefix_tokens"] for row in rows]
    return [len(encoded) for encoded in unit.encode([row["prefix"] for row in rows])]


def _length_labels(rows: Sequence[Row], lengths: list[int]) -> list[int]:
    """Prefix lengths if the file gives them or all are equal; else :data:`MIXED` for all, so they share one
    table.
    """
    return lengths if _have_lengths(rows) or len(set(lengths)) == 1 else [MIXED] * len(lengths)


def _have_lengths(rows: Sequence[Row]) -> bool:
    return all(row["prefix_tokens"] is not None for row in rows)


def _read(file: Path, references: Mapping[str, Row] | None) -> tuple[list[Row], int]:
    rows: list[Row] = []
    bad, empty = list[tuple[str, str]](), 0
    columns: dict[str, str] = {}
    for number, (place, content) in enumerate(read_response_rows(file, references)):
        if isinstance(content, str):
            bad.append((place, content))
            continue
        columns = columns or _columns(file, content)
        if columns["response"] not in content or content.get(columns["suffix"]) is None:
            bad.append((place, f"has no {columns['suffix']} or no {columns['response']}"))
        elif not str(content[columns["suffix"]]).strip():
            empty += 1
        else:
            rows.append(_row(file, number, columns, content))
    refuse_bad_rows(bad, file, skippable=False)
    if not rows:
        raise SourceError(f"{file} contains no response.")
    if all(row["response"] is None for row in rows):
        raise SourceError(f"{file}: {columns['response']!r} is empty in all {len(rows)} rows: nothing to audit.")
    return rows, empty


def _columns(file: Path, row: Mapping[str, Any]) -> dict[str, str]:
    """Our column names -> the file's."""
    present = {column: [name for name in names if name in row] for column, names in COLUMNS.items()}
    columns = {column: names[0] for column, names in present.items() if names}
    if missing := [column for column in _REQUIRED if column not in columns]:
        problems = "; ".join(unknown_name("column", column, row) for column in missing)
        raise SourceError(
            f"{file}: {problems} A table of responses has prefix, suffix (or reference) and response, and may have "
            "record_id, subject, corpus, prefix_tokens, variant, sample and copies."
        )
    return columns


def _row(file: Path, number: int, columns: Mapping[str, str], content: Mapping[str, Any]) -> Row:
    values = {name: content.get(columns[name]) if name in columns else None for name in COLUMNS}
    row: dict[str, Any] = {}
    for name, value in values.items():
        blank = value is None or str(value) == ""
        try:
            row[name] = None if blank else int(value) if name in _NUMBERS else str(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise SourceError(f"{file}, row {number + 1}: {name} is {value!r}, not a whole number.") from None
    if row["response"] is None and content.get(columns["response"]) is not None:
        row["response"] = str(content[columns["response"]])
    texts = {"prefix": "", "suffix": "", "variant": "greedy"}
    row |= {name: default for name, default in texts.items() if row[name] is None}
    record = row["record_id"] or f"text-{_short_hash(row['prefix'], row['suffix'])}"
    defaults = {"record_id": record, "subject": record, "corpus": UNNAMED}
    return row | {name: default for name, default in defaults.items() if row[name] is None}
