"""Findings of many responses: in batches that a search resumes with, and in several processes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd

from medunlearn.audit.identifiers.detectors import is_light, make_detectors
from medunlearn.audit.identifiers.detectors.detected_spans import Detector
from medunlearn.audit.identifiers.findings import RULES, as_frame, find_detected, find_known, stored_table
from medunlearn.audit.identifiers.fuzzy import Fuzziness
from medunlearn.audit.identifiers.known import KnownIdentifiers
from medunlearn.audit.identifiers.outputs import RecordResponse, ResponseTokens
from medunlearn.config import check
from medunlearn.config.audit import IdentifierSettings
from medunlearn.data.leftovers import MARK
from medunlearn.data.records import Record
from medunlearn.data.storage import sha256_of_json
from medunlearn.metrics.workers import in_processes, shares
from medunlearn.progress import progress

FINDINGS, PARTS = "findings.parquet", f".findings.{MARK}-parts"
BATCH = 200
"""Responses per saved part, with which an interrupted search resumes."""
PER_PROCESS = 5000
"""Responses that are worth a process: about five seconds."""


def find_identifiers(
    outputs: Sequence[RecordResponse],
    records: Iterable[Record],
    settings: IdentifierSettings | None = None,
    *,
    subjects: Mapping[str, str] | None = None,
    tokens: ResponseTokens | None = None,
    folder: Path | None = None,
    quiet: bool = False,
) -> pd.DataFrame:
    """Find every known and detected identifier in responses, traced to the records.

    Args:
        records: the model's training records with their identifiers; at least those of the probes.
        subjects: record id -> subject, for records without a response; a record without one is its own subject.
        tokens: for the columns ``token`` and ``token_end``.
        folder: where ``findings.parquet`` is written, and read if made of the same.

    Returns:
        :data:`~medunlearn.audit.identifiers.findings.COLUMNS`.

    Raises:
        InputError: a detector that cannot be made.
        MedunlearnError: a process was killed; what others found is kept if a detector found it.
    """
    settings, records, subjects = settings or check(IdentifierSettings, {}), list(records), subjects or {}
    detector = make_detectors(settings.detectors)
    versions = None if detector is None else (detector.name, detector.version)
    values = ([(declared.type, declared.value) for declared in record.identifiers] for record in records)
    content = [(r.record_id, subjects.get(r.record_id), r.text, v) for r, v in zip(records, values, strict=True)]
    key = sha256_of_json([RULES, settings.fuzzy, versions, tokens and tokens.key, [outputs, content]])
    texts = {record.record_id: record.text for record in records}
    declared = [replace(record, text="") for record in records]
    of_all = {**subjects, **{output.record_id: output.subject for output in outputs}}
    several = settings.processes if detector is None or is_light(detector) else 1

    def find_all() -> pd.DataFrame:
        # Only detectors take long enough to be worth the file.
        how = declared, of_all, settings.fuzzy, detector, key[:16], folder / PARTS if folder and detector else None
        parts = []
        for starts in shares(range(0, len(outputs), BATCH), PER_PROCESS // BATCH, several):
            of_share = outputs[starts[0] : starts[-1] + BATCH]
            own = {output.record_id: texts.get(output.record_id, "") for output in of_share}
            parts.append(Share(starts[0], of_share, own, *how))
        with progress("identifiers", len(outputs), quiet=quiet) as advance:
            if parts:
                parts[0] = replace(parts[0], advance=lambda count: advance(count * len(parts)))
            table = pd.concat([as_frame([]), *in_processes(Share.find, parts)], ignore_index=True)
        return table if tokens is None else tokens.place(table, outputs)

    findings = stored_table(folder, FINDINGS, key, find_all)
    if folder is not None:
        shutil.rmtree(folder / PARTS, ignore_errors=True)
    return findings


@dataclass(frozen=True)
class Share:
    """Responses that one process searches.

    Attributes:
        start: place of the first response among all.
        texts: record id -> text, of the share's responses.
        declared: all records with their identifiers, without their text.
        key: what the findings depend on, in the names of saved parts.
        folder: of the saved parts; None saves none.
        advance: told how many responses were searched, in this process alone.
    """

    start: int
    outputs: Sequence[RecordResponse]
    texts: Mapping[str, str]
    declared: Sequence[Record]
    subjects: Mapping[str, str]
    fuzzy: Fuzziness
    detector: Detector | None
    key: str
    folder: Path | None
    advance: Callable[[int], None] | None = None

    def find(self) -> pd.DataFrame:
        index, parts = KnownIdentifiers(self.declared, self.subjects), []
        for start in range(0, len(self.outputs), BATCH):
            batch, part = self.outputs[start : start + BATCH], f"{self.key}-{self.start + start:08d}"
            make = partial(self._find_batch, index, batch)
            parts.append(stored_table(self.folder, f"{part}.parquet", part, make))
            if self.advance is not None:
                self.advance(len(batch))
        return pd.concat(parts, ignore_index=True)

    def _find_batch(self, index: KnownIdentifiers, batch: Sequence[RecordResponse]) -> pd.DataFrame:
        findings = as_frame(find_known(batch, index, self.texts, self.fuzzy))
        if self.detector is None:
            return findings
        detected = as_frame(find_detected(batch, self.detector, self.texts, findings))
        return pd.concat([findings, detected], ignore_index=True)
