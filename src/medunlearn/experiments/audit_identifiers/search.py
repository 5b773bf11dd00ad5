"""The search as one call on files: tables, counts, and what the detectors are worth beside them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.config import check
from medunlearn.config.identifiers import IdentifierSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Record
from medunlearn.data.storage import read_json, write_json
from medunlearn.errors import InputError
from medunlearn.experiments.audit_identifiers.find import find_identifiers, find_sensitive
from medunlearn.experiments.audit_identifiers.outputs import frames, outputs_of, read_outputs
from medunlearn.experiments.audit_identifiers.review import write_review
from medunlearn.memorization.identifiers.detectors import make_detector
from medunlearn.memorization.identifiers.findings import Output, crossed
from medunlearn.memorization.identifiers.known import Known
from medunlearn.memorization.identifiers.labelled import invented_notes, labelled_records
from medunlearn.memorization.identifiers.recall import detector_recall
from medunlearn.memorization.identifiers.tables import by_kind, missed_by, table9, table10

FILE = "identifiers.json"
INVENTED, OWN = 200, 500
"""Texts that a detector is measured on: invented notes, and records of the user's that declare identifiers."""


@dataclass(frozen=True)
class Found:
    """What was found in responses.

    Attributes:
        folder: of the tables.
        settings: of the search.
        outputs: every response that was searched.
        records: those that it was traced to.
        subjects: record id -> whose it is.
        findings, sensitive: see :func:`find_identifiers` and :func:`find_sensitive`; the latter None if not asked
        for. show_text: examples are not masked.
    """

    folder: Path
    settings: IdentifierSettings
    outputs: Sequence[Output]
    records: Sequence[Record]
    subjects: Mapping[str, str]
    findings: pd.DataFrame
    sensitive: pd.DataFrame | None
    show_text: bool = False

    @staticmethod
    def open(folder: Path) -> Found:
        """What an earlier search wrote.

        Raises:
            InputError: the folder holds none, or what it was made of is gone.
        """
        if not (folder / FILE).exists():
            raise InputError(f"{folder} holds no findings (no {FILE}). `medunlearn identifiers find` makes them.")
        info = read_json(folder / FILE)
        records = Path(info["records"]) if info["records"] else None
        settings = check(IdentifierSettings, info["settings"])
        return search(Path(info["said"]), records, settings, folder, quiet=True)

    @cached_property
    def table9(self) -> pd.DataFrame:
        return table9(self.findings, self.outputs, **self._how)

    @cached_property
    def kinds(self) -> pd.DataFrame:
        return by_kind(self.findings, self.outputs, **self._how)

    @cached_property
    def table10(self) -> pd.DataFrame | None:
        """Table 10; what the first detector missed of known identifiers stands in it where some are known."""
        if self.sensitive is None:
            return None
        missed = None
        if self.settings.detectors and any(one.identifiers for one in self.records):
            missed = missed_by(make_detector(self.settings.detectors[0]), self.findings, self.outputs)
        return table10(self.sensitive, self.outputs, self.findings, missed=missed, **self._how)

    @cached_property
    def detectors(self) -> Mapping[str, Mapping[str, pd.DataFrame]]:
        """Detector -> labelled text -> its recall and precision there."""
        own = [one for one in labelled_records(self.records, self.subjects) if one.spans][:OWN]
        texts = {"invented notes": invented_notes(INVENTED), **({"these records": own} if own else {})}
        return {
            name: {where: detector_recall(make_detector(name), text) for where, text in texts.items()}
            for name in self.settings.detectors
        }

    @property
    def _how(self) -> dict[str, Any]:
        return {
            "show_text": self.show_text,
            "replicates": self.settings.replicates,
            "seed": self.settings.seed,
        }

    def review(self, out: Path, *, number: int, least_rouge: float, seed: int) -> Path:
        """Write a sheet for people; see :func:`~medunlearn.experiments.audit_identifiers.review.write_review`."""
        tables = [self.findings, *([] if self.sensitive is None else [self.sensitive])]
        everything = pd.concat(tables, ignore_index=True)
        return write_review(
            self.outputs, self.records, everything, out, number=number, least_rouge=least_rouge, seed=seed
        )

    def summary(self) -> dict[str, Any]:
        """Everything counted, as JSON: no text but examples, which are masked unless asked for."""
        return {
            "responses": len(self.outputs),
            "records": len(self.records),
            "table9": _rows(self.table9),
            "kinds": _rows(self.kinds),
            "table10": None if self.table10 is None else _rows(self.table10),
            "cross_leaks": len(crossed(self.findings)),
            "detectors": {
                name: {where: _rows(table) for where, table in tables.items()}
                for name, tables in self.detectors.items()
            },
            "skipped": dict(Known.of(self.records).skipped),
        }

    def notes(self) -> list[str]:
        """What to know beside the counts, a line each."""
        lines = []
        for name, tables in self.detectors.items():
            for where, table in tables.items():
                row = table.iloc[-1]
                lines.append(f"{name} finds {_percent(row['recall'])} of what is labelled in {where} (see --json)")
        lines.append(f"{len(crossed(self.findings))} places name another subject alone (dates and ages left out)")
        skipped: Counter[str] = Known.of(self.records).skipped
        lines += [f"{count} declared identifiers were not looked for: {why}" for why, count in skipped.items()]
        return [
            *lines,
            f"{self.folder}: findings.parquet holds text of responses; keep it where the records may be",
        ]


def search(
    said: Path,
    records: Path | None,
    settings: IdentifierSettings,
    out: Path | None = None,
    *,
    show_text: bool = False,
    quiet: bool = False,
) -> Found:
    """Find identifiers, and sensitive content where the settings ask for it, in an audit or a table of responses.

    Args:
        said: an audit's folder, or a table.
        records: a benchmark's folder; None where a table brings its records' text.
        out: where the tables go; None for the audit's own folder.

    Raises:
        InputError: nothing says where records or tables are, or they do not fit.
    """
    outputs, known, subjects = _read(said, records)
    folder = out or (said if said.is_dir() else None)
    if folder is None:
        raise InputError(f"{said} is a table, so nothing says where the findings go. Name a folder: --out FOLDER.")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, not a folder. Choose another --out.")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = found_in(outputs, known, subjects, settings, folder, show_text=show_text, quiet=quiet)
    told = {"said": os.path.abspath(said), "records": None if records is None else os.path.abspath(records)}
    write_json(folder / FILE, {**told, "settings": settings.model_dump(mode="json")})
    return found


def found_in(
    outputs: Sequence[Output],
    records: Sequence[Record],
    subjects: Mapping[str, str],
    settings: IdentifierSettings,
    folder: Path,
    *,
    show_text: bool = False,
    quiet: bool = False,
) -> Found:
    """The same of responses and records that are read already; the tables go to a folder that is there."""
    findings = find_identifiers(outputs, records, settings, subjects=subjects, folder=folder, quiet=quiet)
    sensitive = find_sensitive(outputs, records, folder=folder, quiet=quiet) if settings.sensitive else None
    return Found(folder, settings, list(outputs), list(records), dict(subjects), findings, sensitive, show_text)


def _read(said: Path, records: Path | None) -> tuple[list[Output], list[Record], dict[str, str]]:
    benchmark = Benchmark.load(records) if records else None
    own: list[Record] = []
    by_id = {} if benchmark is None else {one.record_id: one for one in benchmark.records}
    if said.is_dir():
        if benchmark is None:
            raise InputError(f"{said} says nothing of its records. Name the benchmark: --records FOLDER.")
        outputs = outputs_of(frames(said))
    else:
        outputs, own = read_outputs(said, by_id)
        outputs = [_with_subject(one, benchmark) for one in outputs]
    _refuse_strangers(outputs, {*by_id, *(one.record_id for one in own)})
    subjects = {} if benchmark is None else {name: benchmark.subject(name) for name in by_id}
    whose = {**subjects, **{one.record_id: one.subject for one in outputs}}
    return outputs, [*by_id.values(), *own], whose


def _with_subject(output: Output, benchmark: Benchmark | None) -> Output:
    """A table without subjects takes those of the benchmark."""
    if benchmark is None or output.subject != output.record_id or output.record_id not in benchmark.record:
        return output
    return Output(**{**asdict(output), "subject": benchmark.subject(output.record_id)})


def _refuse_strangers(outputs: Sequence[Output], known: set[str]) -> None:
    strangers = sorted({one.record_id for one in outputs} - known)
    if strangers:
        raise InputError(
            f"{len(strangers)} records of the responses are not among the records "
            f"({', '.join(strangers[:5])}). Is it the right benchmark?"
        )


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(name): None if value is None or value != value else value for name, value in row.items()}
        for row in table.to_dict("records")
    ]


def _percent(share: Any) -> str:
    return "nothing to be found" if share is None or share != share else f"{100 * share:.1f}%"
