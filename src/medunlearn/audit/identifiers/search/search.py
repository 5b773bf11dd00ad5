"""The search as one call on files: tables, counts, and what the detectors are worth beside them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.audit.identifiers.detectors import make_detector
from medunlearn.audit.identifiers.findings import Output, crossed, leaked
from medunlearn.audit.identifiers.known import Known
from medunlearn.audit.identifiers.labelled import invented_notes, labelled_records
from medunlearn.audit.identifiers.places import Tokens
from medunlearn.audit.identifiers.recall import detector_recall
from medunlearn.audit.identifiers.search.find import find_identifiers, find_sensitive
from medunlearn.audit.identifiers.search.judged import Judged, judge_sensitive, plan_sensitive, read_judged
from medunlearn.audit.identifiers.search.outputs import frames, outputs_of, read_outputs, tokens_of
from medunlearn.audit.identifiers.search.review import write_review
from medunlearn.audit.identifiers.tables import by_kind, judged_table10, missed_by, table9, table10
from medunlearn.audit.kinds.judging import OneJudge
from medunlearn.audit.position import SEGMENT
from medunlearn.audit.units import tokenizer_in
from medunlearn.config import check
from medunlearn.config.identifiers import IdentifierSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Record
from medunlearn.data.storage import read_json, write_json
from medunlearn.errors import InputError
from medunlearn.llm import CostEstimate
from medunlearn.sources.corpus import DataUse

FILE = "identifiers.json"
MakeJudge = Callable[[Path, Sequence[Record], DataUse], OneJudge]
"""A judge, of the folder of its answers, the records that it is shown, and what they are."""
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
        judged: what a judge found in a sample of the responses; None where none was asked.
    """

    folder: Path
    settings: IdentifierSettings
    outputs: Sequence[Output]
    records: Sequence[Record]
    subjects: Mapping[str, str]
    findings: pd.DataFrame
    sensitive: pd.DataFrame | None
    show_text: bool = False
    judged: Judged | None = None

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
    def judged_table10(self) -> pd.DataFrame | None:
        """Table 10 by the judge, of the responses that it answered about."""
        if self.judged is None:
            return None
        return judged_table10(self.judged.found, self.judged.outputs, self.findings, **self._how)

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
        """Write a sheet for people; see :func:`~medunlearn.audit.identifiers.search.review.write_review`."""
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
            "judged": self._judged_facts(),
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
        lines += self._where()
        lines.append(f"{len(crossed(self.findings))} places name another subject alone (dates and ages left out)")
        skipped: Counter[str] = Known.of(self.records).skipped
        lines += [f"{count} declared identifiers were not looked for: {why}" for why, count in skipped.items()]
        return [
            *lines,
            f"{self.folder}: findings.parquet holds text of responses; keep it where the records may be",
        ]

    def _judged_facts(self) -> dict[str, Any] | None:
        if self.judged is None or self.judged_table10 is None:
            return None
        facts = {"model": self.judged.model, "responses": len(self.judged.outputs)}
        return {**facts, "unanswered": dict(self.judged.unanswered), "table10": _rows(self.judged_table10)}

    def _where(self) -> list[str]:
        """Where in the responses leaked identifiers stand, as far as their tokens are known."""
        told = leaked(self.findings)
        known = told["token"].dropna()
        early = int((known < SEGMENT).sum())
        if not len(known):
            return []
        more = "" if len(known) == len(told) else f"; of {len(told) - len(known)} more the tokens are not known"
        return [f"{early} of {len(known)} leaked identifiers begin in the first {SEGMENT} tokens{more}"]


def search(
    said: Path,
    records: Path | None,
    settings: IdentifierSettings,
    out: Path | None = None,
    *,
    judge: MakeJudge | None = None,
    show_text: bool = False,
    quiet: bool = False,
) -> Found:
    """Find identifiers, and sensitive content where the settings ask for it, in an audit or a table of responses.

    Args:
        said: an audit's folder, or a table.
        records: a benchmark's folder; None where a table brings its records' text.
        out: where the tables go; None for the audit's own folder.
        judge: makes the judge that is asked for Table 10 as well, of the folder and the records.

    Raises:
        InputError: nothing says where records or tables are, or they do not fit.
        RemoteRefusedError: the judge may not see the records.
        MedunlearnError: the judge's server left some without an answer; what came is kept.
    """
    outputs, known, subjects = _read(said, records)
    folder = _folder(said, out)
    asked = None if judge is None else judge(folder, known, data_use_of(records))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    tokens = tokens_of(said) if said.is_dir() else _tokens_in(settings)
    found = found_in(outputs, known, subjects, settings, folder, tokens=tokens, show_text=show_text, quiet=quiet)
    told = {"said": os.path.abspath(said), "records": None if records is None else os.path.abspath(records)}
    write_json(folder / FILE, {**told, "settings": settings.model_dump(mode="json")})
    if asked is None:
        return found
    return replace(
        found, judged=judge_sensitive(outputs, known, settings, asked, folder, tokens=tokens, quiet=quiet)
    )


def plan_judging(
    said: Path, records: Path | None, settings: IdentifierSettings, out: Path | None, judge: MakeJudge
) -> tuple[CostEstimate, OneJudge]:
    """What the judge of :func:`search` would be sent; nothing is, and nothing is written."""
    outputs, known, _ = _read(said, records)
    asked = judge(_folder(said, out), known, data_use_of(records))
    return plan_sensitive(outputs, known, settings, asked), asked


def data_use_of(records: Path | None) -> DataUse:
    """What a benchmark says of its records; credentialed where none is named."""
    return "credentialed" if records is None else Benchmark.load(records).data_use


def _folder(said: Path, out: Path | None) -> Path:
    folder = out or (said if said.is_dir() else None)
    if folder is None:
        raise InputError(f"{said} is a table, so nothing says where the findings go. Name a folder: --out FOLDER.")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, not a folder. Choose another --out.")
    return folder


def found_in(
    outputs: Sequence[Output],
    records: Sequence[Record],
    subjects: Mapping[str, str],
    settings: IdentifierSettings,
    folder: Path,
    *,
    tokens: Tokens | None = None,
    show_text: bool = False,
    quiet: bool = False,
) -> Found:
    """The same of responses and records that are read already; the tables go to a folder that is there."""
    kept: dict[str, Any] = {"tokens": tokens, "folder": folder, "quiet": quiet}
    findings = find_identifiers(outputs, records, settings, subjects=subjects, **kept)
    sensitive = find_sensitive(outputs, records, **kept) if settings.sensitive else None
    judged = read_judged(outputs, folder)
    whole = (list(outputs), list(records), dict(subjects), findings, sensitive, show_text, judged)
    return Found(folder, settings, *whole)


def _tokens_in(settings: IdentifierSettings) -> Tokens | None:
    return None if settings.tokenizer is None else Tokens(tokenizer_in(settings.tokenizer))


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
