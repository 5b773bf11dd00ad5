"""The tables that an audit gains: ``findings.parquet``, and ``sensitive.parquet`` beside it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.audit.identifiers.detectors import Detector, make_detector
from medunlearn.audit.identifiers.findings import Output, as_frame, find_detected, find_known
from medunlearn.audit.identifiers.known import Known
from medunlearn.audit.identifiers.places import Tokens, with_tokens
from medunlearn.audit.identifiers.search.outputs import Frames, outputs_of
from medunlearn.audit.identifiers.sensitive import find_terms, lists
from medunlearn.config import check
from medunlearn.config.identifiers import IdentifierSettings
from medunlearn.data.records import Record
from medunlearn.data.storage import sha256_of_json, write_atomically
from medunlearn.progress import progress

FINDINGS, SENSITIVE = "findings.parquet", "sensitive.parquet"
PARTS = ".findings"
AT_ONCE = 200
"""Responses that are searched together; what is done of them stays when a long search is cut off."""
RULES = "2"
"""Changes with the rules of matching: tables that older ones gave are made again."""


def find_identifiers(
    audit: Frames | Sequence[Output],
    records: Iterable[Record],
    settings: IdentifierSettings | None = None,
    *,
    subjects: Mapping[str, str] | None = None,
    tokens: Tokens | None = None,
    folder: Path | None = None,
    quiet: bool = False,
) -> pd.DataFrame:
    """Every identifier in an audit's responses, known and detected, traced to the records.

    Args:
        audit: tables of an audit, or responses from elsewhere.
        records: what the model was trained on, with what they declare; at least those of the probes.
        subjects: record id -> whose it is, of records without a response; a record that nobody names is a subject
            of its own, and what it shares with another passes for another subject's.
        tokens: what the responses' tokens are, where that is known: findings then say which of them they are.
        folder: where ``findings.parquet`` is written and, if it was made of the same, read; None: nowhere.

    Returns:
        Columns of :data:`~medunlearn.audit.identifiers.findings.COLUMNS`.

    Raises:
        InputError: tables that do not fit; a detector that is not there.
    """
    chosen, outputs = settings or check(IdentifierSettings, {}), _outputs(audit)
    listed = list(records)
    detectors = [make_detector(name) for name in chosen.detectors]
    key = sha256_of_json(
        [
            RULES,
            chosen.fuzzy,
            [[one.name, one.version] for one in detectors],
            _token_facts(tokens),
            _digest(outputs, listed, subjects or {}),
        ]
    )
    kept = _kept(folder, FINDINGS, key)
    if kept is not None:
        return kept
    whose = {**(subjects or {}), **{one.record_id: one.subject for one in outputs}}
    known, texts = Known.of(listed, whose), {one.record_id: one.text for one in listed}
    parts = []
    with progress("identifiers", len(outputs), quiet=quiet) as advance:
        for start in range(0, len(outputs), AT_ONCE):
            some = outputs[start : start + AT_ONCE]
            parts.append(_of_part(some, known, texts, detectors, chosen, folder, f"{key[:16]}-{start:08d}"))
            advance(len(some))
    whole = pd.concat(parts, ignore_index=True) if parts else as_frame([])
    found = _keep(_placed(whole, outputs, tokens), folder, FINDINGS, key)
    if folder is not None:
        shutil.rmtree(folder / PARTS, ignore_errors=True)
    return found


def find_sensitive(
    audit: Frames | Sequence[Output],
    records: Iterable[Record],
    *,
    tokens: Tokens | None = None,
    folder: Path | None = None,
    quiet: bool = False,
) -> pd.DataFrame:
    """Sensitive content beyond identifiers that stands in a response and in its record, by term lists.

    Returns:
        The columns of :func:`find_identifiers`; ``kind`` is a row of Table 10.
    """
    outputs, texts = _outputs(audit), {one.record_id: one.text for one in records}
    said = [_said(one) for one in outputs]
    key = sha256_of_json([RULES, lists().version, _token_facts(tokens), said, sorted(texts.items())])
    kept = _kept(folder, SENSITIVE, key)
    if kept is not None:
        return kept
    rows: list[dict[str, Any]] = []
    with progress("sensitive content", len(outputs), quiet=quiet) as advance:
        for output in outputs:
            rows += find_terms(output, texts.get(output.record_id, ""))
            advance()
    return _keep(_placed(as_frame(rows), outputs, tokens), folder, SENSITIVE, key)


def _placed(found: pd.DataFrame, outputs: Sequence[Output], tokens: Tokens | None) -> pd.DataFrame:
    return found if tokens is None or found.empty else with_tokens(found, outputs, tokens)


def _token_facts(tokens: Tokens | None) -> object:
    return None if tokens is None else [tokens.unit.fingerprint, len(tokens.said)]


def _of_part(
    outputs: Sequence[Output],
    known: Known,
    texts: Mapping[str, str],
    detectors: Sequence[Detector],
    settings: IdentifierSettings,
    folder: Path | None,
    name: str,
) -> pd.DataFrame:
    kept = _kept(folder, f"{PARTS}/{name}.parquet", name)
    if kept is not None:
        return kept
    found = as_frame(find_known(outputs, known, texts, settings.fuzzy))
    for detector in detectors:
        found = pd.concat([found, as_frame(find_detected(outputs, detector, texts, found))], ignore_index=True)
    # Only a detector takes long enough to be worth the file.
    return _keep(found, folder, f"{PARTS}/{name}.parquet", name) if detectors else found


def _outputs(audit: Frames | Sequence[Output]) -> Sequence[Output]:
    return outputs_of(audit) if isinstance(audit, Frames) else audit


def _said(output: Output) -> list[object]:
    return [
        output.record_id,
        output.probe_id,
        output.subject,
        output.variant,
        output.sample,
        output.prefix,
        output.response,
    ]


def _digest(outputs: Sequence[Output], records: Sequence[Record], subjects: Mapping[str, str]) -> str:
    told = [
        [one.record_id, subjects.get(one.record_id), one.text, [[i.type, i.value] for i in one.identifiers]]
        for one in records
    ]
    return sha256_of_json([[_said(one) for one in outputs], told])


def _kept(folder: Path | None, name: str, key: str) -> pd.DataFrame | None:
    """The table in a file that was made of the same; None where there is none, or it is broken."""
    if folder is None or not (folder / name).exists():
        return None
    try:
        found = pd.read_parquet(folder / name)
    except (OSError, ValueError):
        return None
    return found if found.attrs.get("key") == key else None


def _keep(found: pd.DataFrame, folder: Path | None, name: str, key: str) -> pd.DataFrame:
    if folder is not None:
        found.attrs["key"] = key

        def write(path: Path) -> None:
            path.touch(mode=0o600)
            found.to_parquet(path, index=False)

        write_atomically(folder / name, write)
    return found
