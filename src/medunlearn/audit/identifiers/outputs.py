"""Responses to search: from an audit's folder, or from a table that pairs records with responses; their tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from medunlearn.audit.audit_tables import KEY, PROBES, RESPONSES, Key, stored_responses
from medunlearn.audit.units import Unit, WordsUnit, continuations, tokenizer_in
from medunlearn.data.moved_folders import find_moved
from medunlearn.data.records import Identifier, Record
from medunlearn.data.storage import read_frame, read_json
from medunlearn.errors import InputError, ModelError, SourceError, UnknownNameError
from medunlearn.sources.table_files import read_rows, refuse_bad_rows

Value = TypeVar("Value")


class RecordResponse(NamedTuple):
    """A model's response to a prefix of a record (the prompt, may be empty); ``subject`` is that of the record."""

    record_id: str
    probe_id: str
    subject: str
    variant: str
    sample: int
    prefix: str
    response: str

    @property
    def key(self) -> Key:
        """Probe, variant, sample."""
        return self.probe_id, self.variant, self.sample


@dataclass(frozen=True)
class ResponseTokens:
    """Unit of response lengths, and generated token ids by key; no ids for responses stored as text."""

    unit: Unit
    generated: Mapping[Key, Sequence[int]] = field(default_factory=dict)

    @property
    def key(self) -> list[object]:
        """Part of the key of tables with token offsets."""
        return [self.unit.fingerprint, len(self.generated)]

    def place(self, findings: pd.DataFrame, outputs: Sequence[RecordResponse]) -> pd.DataFrame:
        """Add ``token`` and ``token_end`` to findings: token offsets in the response, end exclusive.

        The generated tokens may differ from the encoded text. Offsets after the first difference are null.
        """
        if findings.empty:
            return findings
        by_key = {output.key: output for output in outputs}
        rows = list(findings[[*KEY, "place", "end"]].itertuples(index=False, name=None))
        keys = list(dict.fromkeys(row[:3] for row in rows))
        texts = ([by_key[key].prefix for key in keys], [by_key[key].response for key in keys])
        encoded = dict(zip(keys, continuations(self.unit, *texts), strict=True))
        agreeing = {key: _common_prefix_length(text.ids, self.generated.get(key)) for key, text in encoded.items()}
        offsets: list[tuple[int, int] | tuple[None, None]] = []
        for *parts, place, end in rows:
            key, ends = tuple(parts), encoded[tuple(parts)].ends
            first = int(np.searchsorted(ends, place, side="right"))
            last = int(np.searchsorted(ends, end, side="left")) + 1
            offsets.append((first, last) if last <= agreeing[key] else (None, None))
        firsts, lasts = (pd.array(column, dtype="Int32") for column in zip(*offsets, strict=True))
        return findings.assign(token=firsts, token_end=lasts)


def _common_prefix_length(encoded: Any, generated: Sequence[int] | None) -> int:
    """Length of the common prefix of encoded and generated tokens."""
    if generated is None:
        return len(encoded)
    shared = min(len(encoded), len(generated))
    differ = encoded[:shared] != np.asarray(generated[:shared], dtype=encoded.dtype)
    return int(np.argmax(differ)) if differ.any() else shared


def read_audit(folder: Path) -> list[RecordResponse]:
    """The responses in an audit's folder, sorted by probe, variant and sample.

    Raises:
        InputError: the folder has no probes or no responses, or a response belongs to no probe.
    """
    if not (folder / PROBES).exists() or not (folder / RESPONSES).is_dir():
        raise InputError(
            f"{folder} is not an audit: it has no {PROBES} with {RESPONSES}/. `medunlearn audit` makes one."
        )
    probes = read_frame(folder / PROBES)[["probe_id", "record_id", "subject", "prefix"]]
    labels = {probe: columns for probe, *columns in probes.itertuples(index=False, name=None)}
    stored = stored_responses(folder)
    if unknown := sorted({key[0] for key in stored} - labels.keys()):
        examples = ", ".join(unknown[:5])
        raise InputError(
            f"{len(unknown)} responses belong to no probe ({examples}). Are the two tables of one audit?"
        )
    return [
        RecordResponse(str(record), key[0], str(subject), *key[1:], str(prefix or ""), stored[key].response)
        for key in sorted(stored)
        for record, subject, prefix in (labels[key[0]],)
    ]


def response_tokens(folder: Path) -> ResponseTokens | None:
    """Tokens of an audit's responses; None if its tokenizer is not on this machine."""
    info = read_json(folder / "run.json") if (folder / "run.json").exists() else {}
    results, config = info.get("results", {}), info.get("config", {})
    if results.get("unit", {}).get("noun") == "words":
        return ResponseTokens(WordsUnit())
    source = config.get("tokenizer") or results.get("model", {}).get("source")
    identity = info.get("inputs", {}).get("unit")

    def is_same(place: Path) -> bool:
        with suppress(ModelError):
            return identity in (None, tokenizer_in(place).fingerprint)
        return False

    place = find_moved(source, folder, is_same) if source else None
    if place is None:
        return None
    unit = tokenizer_in(place)
    tokens = ((key, response.response_tokens) for key, response in stored_responses(folder).items())
    return ResponseTokens(unit, {key: ids for key, ids in tokens if ids})


def read_outputs(
    path: Path | str, records: Mapping[str, Record] | None = None
) -> tuple[list[RecordResponse], list[Record]]:
    """Responses of any table, and the records that it contains.

    Columns: ``record_id`` and ``response``; optionally ``prefix``, ``text`` (of the record), ``subject``,
    ``probe_id``, ``variant``, ``sample``, ``identifiers`` (a list of type and value).

    Args:
        records: known already, by id; their text is not needed in the table.

    Raises:
        SourceError: rows that cannot be read, the first few with their places.
    """
    own_records: dict[str, Record] = {}

    def parse(row: Mapping[str, Any], number: int) -> RecordResponse:
        missing = ["record_id"] if row.get("record_id") in (None, "") else []
        missing += ["response"] if row.get("response") is None else []
        if missing:
            raise ValueError(f"has no {' and no '.join(missing)}")
        if not isinstance(row["response"], str | int | float):
            raise ValueError("has a `response` that is not text")
        record_id = str(row["record_id"])
        if record_id not in (records or {}) and record_id not in own_records:
            own_records[record_id] = _record(record_id, row)
        return RecordResponse(
            record_id,
            str(row.get("probe_id") or f"{record_id}@{number}"),
            str(row.get("subject") or record_id),
            str(row.get("variant") or "greedy"),
            int(row.get("sample") or 0),
            str(row.get("prefix") or ""),
            str(row["response"]),
        )

    return parse_rows(Path(path), parse, "record_id and response, one response"), list(own_records.values())


def _record(record_id: str, row: Mapping[str, Any]) -> Record:
    identifiers = tuple(
        Identifier(str(declared["type"]), str(declared["value"]))
        for declared in row.get("identifiers") or ()
        if isinstance(declared, Mapping) and declared.get("type") and declared.get("value")
    )
    return Record(record_id, str(row.get("text") or ""), {}, identifiers)


def parse_rows(path: Path, parse: Callable[[Mapping[str, Any], int], Value], needs: str) -> list[Value]:
    """Parse every row of a table.

    Args:
        parse: called with a row and its number; raises ValueError or UnknownNameError for a wrong row.
        needs: columns, for the message of an empty table.

    Raises:
        SourceError: rows that cannot be read, the first few with their places; or no row.
    """
    parsed, bad = [], []
    for number, (place, row) in enumerate(read_rows(path)):
        try:
            if isinstance(row, str):
                raise ValueError(row)
            parsed.append(parse(row, number))
        except (ValueError, UnknownNameError) as error:
            bad.append((place, str(error)))
    refuse_bad_rows(bad, path, skippable=False)
    if not parsed:
        raise SourceError(f"{path} has no row. It needs {needs} in each row.")
    return parsed
