"""Search of responses for identifiers and sensitive content: tables, counts, and the recall of detectors."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.audit.identifiers.detectors import Detector, make_detector
from medunlearn.audit.identifiers.findings import (
    Output,
    ResponseTokens,
    as_frame,
    crossed,
    find_detected,
    find_known,
    leaked,
    with_tokens,
)
from medunlearn.audit.identifiers.known import KnownIdentifiers
from medunlearn.audit.identifiers.outputs import read_audit, read_outputs, response_tokens
from medunlearn.audit.identifiers.recall import detector_recall, invented_notes, label_records
from medunlearn.audit.identifiers.review import write_review
from medunlearn.audit.identifiers.sensitive import find_terms, term_lists
from medunlearn.audit.identifiers.sensitive_judge import (
    JudgedContent,
    judge_sensitive,
    plan_sensitive,
    read_judged,
)
from medunlearn.audit.identifiers.tables import CountOptions, by_kind, judged_table10, missed_by, table9, table10
from medunlearn.audit.judge import AuditJudge
from medunlearn.audit.position import SEGMENT
from medunlearn.audit.units import tokenizer_in
from medunlearn.config import check
from medunlearn.config.identifiers import IdentifierSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Record
from medunlearn.data.storage import read_json, sha256_of_json, write_atomically, write_json
from medunlearn.errors import InputError
from medunlearn.llm import CostEstimate
from medunlearn.progress import progress
from medunlearn.sources.corpus import DataUse

FILE = "identifiers.json"
FINDINGS, SENSITIVE, PARTS = "findings.parquet", "sensitive.parquet", ".findings"
BATCH = 200
"""Responses per saved part, with which an interrupted search resumes."""
RULES = "2"
"""Version of the matching rules; tables of other versions are made again."""
INVENTED, OWN = 200, 500
"""Texts that measure a detector: invented notes, and records of the user's that declare identifiers."""

MakeJudge = Callable[[Path, Sequence[Record], DataUse], AuditJudge]
"""Makes a judge from the folder of its responses, the records that it is shown, and their data use."""


def find_identifiers(
    outputs: Sequence[Output],
    records: Iterable[Record],
    settings: IdentifierSettings | None = None,
    *,
    subjects: Mapping[str, str] | None = None,
    tokens: ResponseTokens | None = None,
    folder: Path | None = None,
    quiet: bool = False,
) -> pd.DataFrame:
    """Every identifier in responses, known and detected, traced to the records.

    Args:
        records: the model's training records with their identifiers; at least those of the probes.
        subjects: record id -> subject, for records without a response. A record without one is its own subject, and
            what it shares with another passes for another subject's.
        tokens: tokens of the responses, for the columns ``token`` and ``token_end``.
        folder: where ``findings.parquet`` is written, and read if made of the same; None for nowhere.

    Returns:
        :data:`~medunlearn.audit.identifiers.findings.COLUMNS`.

    Raises:
        InputError: a detector that cannot be made.
    """
    settings, records = settings or check(IdentifierSettings, {}), list(records)
    detectors = [make_detector(name) for name in settings.detectors]
    versions = [[one.name, one.version] for one in detectors]
    key = sha256_of_json(
        [RULES, settings.fuzzy, versions, _token_key(tokens), _digest(outputs, records, subjects or {})]
    )
    saved = _saved(folder, FINDINGS, key)
    if saved is not None:
        return saved
    owners = {**(subjects or {}), **{output.record_id: output.subject for output in outputs}}
    known, texts = KnownIdentifiers.of(records, owners), {record.record_id: record.text for record in records}
    search = partial(_find_in, known=known, texts=texts, detectors=detectors, settings=settings, folder=folder)
    parts = []
    with progress("identifiers", len(outputs), quiet=quiet) as advance:
        for start in range(0, len(outputs), BATCH):
            batch = outputs[start : start + BATCH]
            parts.append(search(batch, name=f"{key[:16]}-{start:08d}"))
            advance(len(batch))
    table = pd.concat(parts, ignore_index=True) if parts else as_frame([])
    findings = _save(_with_tokens(table, outputs, tokens), folder, FINDINGS, key)
    if folder is not None:
        shutil.rmtree(folder / PARTS, ignore_errors=True)
    return findings


def find_sensitive(
    outputs: Sequence[Output],
    records: Iterable[Record],
    *,
    tokens: ResponseTokens | None = None,
    folder: Path | None = None,
    quiet: bool = False,
) -> pd.DataFrame:
    """Sensitive content beyond identifiers that is in a response and in its record, by term lists.

    Returns:
        The columns of :func:`find_identifiers`; ``kind`` is a row of Table 10.
    """
    texts = {record.record_id: record.text for record in records}
    listed = [list(astuple(output)) for output in outputs]
    key = sha256_of_json([RULES, term_lists().version, _token_key(tokens), listed, sorted(texts.items())])
    saved = _saved(folder, SENSITIVE, key)
    if saved is not None:
        return saved
    rows: list[dict[str, Any]] = []
    with progress("sensitive content", len(outputs), quiet=quiet) as advance:
        for output in outputs:
            rows += find_terms(output, texts.get(output.record_id, ""))
            advance()
    return _save(_with_tokens(as_frame(rows), outputs, tokens), folder, SENSITIVE, key)


@dataclass(frozen=True)
class IdentifierSearch:
    """Results of a search.

    Attributes:
        folder: of the tables.
        settings: of the search.
        outputs: every response that was searched.
        records: to which findings were traced.
        subjects: record id -> subject.
        findings: of :func:`find_identifiers`.
        sensitive: of :func:`find_sensitive`; None if not asked for.
        show_text: examples are not masked.
        judged: a judge's findings in a sample of the responses; None without a judge.
    """

    folder: Path
    settings: IdentifierSettings
    outputs: Sequence[Output]
    records: Sequence[Record]
    subjects: Mapping[str, str]
    findings: pd.DataFrame
    sensitive: pd.DataFrame | None
    show_text: bool = False
    judged: JudgedContent | None = None

    @staticmethod
    def open(folder: Path) -> IdentifierSearch:
        """An earlier search.

        Raises:
            InputError: the folder holds none, or its source is gone.
        """
        if not (folder / FILE).exists():
            raise InputError(f"{folder} holds no findings. `medunlearn audit identifiers find` makes them.")
        info = read_json(folder / FILE)
        records = Path(info["records"]) if info["records"] else None
        settings = check(IdentifierSettings, info["settings"])
        return search(Path(info["said"]), records, settings, folder, quiet=True)

    @cached_property
    def table9(self) -> pd.DataFrame:
        """Table 9."""
        return table9(self.findings, self.outputs, options=self._options)

    @cached_property
    def kinds(self) -> pd.DataFrame:
        """Leaks by kind."""
        return by_kind(self.findings, self.outputs, options=self._options)

    @cached_property
    def table10(self) -> pd.DataFrame | None:
        """Table 10, with what the first detector missed of known identifiers, if any are known."""
        if self.sensitive is None:
            return None
        missed = None
        if self.settings.detectors and any(record.identifiers for record in self.records):
            missed = missed_by(make_detector(self.settings.detectors[0]), self.findings, self.outputs)
        return table10(self.sensitive, self.outputs, self.findings, missed=missed, options=self._options)

    @cached_property
    def judged_table10(self) -> pd.DataFrame | None:
        """Table 10 by the judge, of the responses that it answered about."""
        if self.judged is None:
            return None
        return judged_table10(self.judged.findings, self.judged.outputs, self.findings, options=self._options)

    @cached_property
    def detectors(self) -> Mapping[str, Mapping[str, pd.DataFrame]]:
        """Detector -> labelled text -> recall and precision there."""
        own = [text for text in label_records(self.records, self.subjects) if text.spans][:OWN]
        texts = {"invented notes": invented_notes(INVENTED), **({"these records": own} if own else {})}
        return {
            name: {title: detector_recall(make_detector(name), text) for title, text in texts.items()}
            for name in self.settings.detectors
        }

    @property
    def _options(self) -> CountOptions:
        return CountOptions(self.show_text, self.settings.replicates, self.settings.seed)

    def review(self, out: Path, *, number: int, least_rouge: float, seed: int) -> Path:
        """Write a review sheet (:func:`~medunlearn.audit.identifiers.review.write_review`)."""
        tables = [self.findings, *([] if self.sensitive is None else [self.sensitive])]
        findings = pd.concat(tables, ignore_index=True)
        return write_review(
            self.outputs, self.records, findings, out, number=number, least_rouge=least_rouge, seed=seed
        )

    def summary(self) -> dict[str, Any]:
        """All counts as JSON; the only text are examples, masked by default."""
        judged = None
        if self.judged is not None and self.judged_table10 is not None:
            judged = {"model": self.judged.model, "responses": len(self.judged.outputs)}
            judged |= {"unanswered": dict(self.judged.unanswered), "table10": _rows(self.judged_table10)}
        return {
            "responses": len(self.outputs),
            "records": len(self.records),
            "table9": _rows(self.table9),
            "kinds": _rows(self.kinds),
            "table10": None if self.table10 is None else _rows(self.table10),
            "judged": judged,
            "cross_leaks": len(crossed(self.findings)),
            "detectors": {
                name: {title: _rows(table) for title, table in tables.items()}
                for name, tables in self.detectors.items()
            },
            "skipped": dict(KnownIdentifiers.of(self.records).skipped),
        }

    def notes(self) -> list[str]:
        """Remarks on the counts, a line each."""
        lines = []
        for name, tables in self.detectors.items():
            for title, table in tables.items():
                recall = _percent(table.iloc[-1]["recall"])
                lines.append(f"{name} finds {recall} of what is labelled in {title} (see --json)")
        lines += self._early_leaks()
        lines.append(f"{len(crossed(self.findings))} places name another subject alone (dates and ages left out)")
        skipped = KnownIdentifiers.of(self.records).skipped
        lines += [f"{count} declared identifiers were not looked for: {why}" for why, count in skipped.items()]
        lines.append(f"{self.folder}: findings.parquet holds text of responses; keep it where the records may be")
        return lines

    def _early_leaks(self) -> list[str]:
        leaks = leaked(self.findings)
        known = leaks["token"].dropna()
        if not len(known):
            return []
        early = int((known < SEGMENT).sum())
        more = "" if len(known) == len(leaks) else f"; of {len(leaks) - len(known)} more the tokens are not known"
        return [f"{early} of {len(known)} leaked identifiers begin in the first {SEGMENT} tokens{more}"]


def search(
    source: Path,
    records: Path | None,
    settings: IdentifierSettings,
    out: Path | None = None,
    *,
    judge: MakeJudge | None = None,
    show_text: bool = False,
    quiet: bool = False,
) -> IdentifierSearch:
    """Find identifiers, and sensitive content if the settings ask for it, in an audit or a table of responses.

    Args:
        source: an audit's folder, or a table.
        records: a benchmark's folder; None where a table brings its records' text.
        out: folder of the tables; None for the audit's own.
        judge: makes a judge that fills Table 10 as well.

    Raises:
        InputError: records or output folder are not named, or tables do not fit.
        RemoteRefusedError: the judge may not see the records.
        MedunlearnError: responses of the judge are missing; the others are kept.
    """
    outputs, known, subjects = _read(source, records)
    folder = _folder(source, out)
    sensitive_judge = None if judge is None else judge(folder, known, data_use_of(records))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if source.is_dir():
        tokens = response_tokens(source)
    else:
        tokens = None if settings.tokenizer is None else ResponseTokens(tokenizer_in(settings.tokenizer))
    results = search_outputs(
        outputs, known, subjects, settings, folder, tokens=tokens, show_text=show_text, quiet=quiet
    )
    paths = {"said": os.path.abspath(source), "records": None if records is None else os.path.abspath(records)}
    write_json(folder / FILE, {**paths, "settings": settings.model_dump(mode="json")})
    if sensitive_judge is None:
        return results
    judged = judge_sensitive(outputs, known, settings, sensitive_judge, folder, tokens=tokens, quiet=quiet)
    return replace(results, judged=judged)


def search_outputs(
    outputs: Sequence[Output],
    records: Sequence[Record],
    subjects: Mapping[str, str],
    settings: IdentifierSettings,
    folder: Path,
    *,
    tokens: ResponseTokens | None = None,
    show_text: bool = False,
    quiet: bool = False,
) -> IdentifierSearch:
    """:func:`search` of responses and records in memory; the tables go to an existing folder."""
    options: dict[str, Any] = {"tokens": tokens, "folder": folder, "quiet": quiet}
    findings = find_identifiers(outputs, records, settings, subjects=subjects, **options)
    sensitive = find_sensitive(outputs, records, **options) if settings.sensitive else None
    judged = read_judged(outputs, folder)
    return IdentifierSearch(
        folder, settings, list(outputs), list(records), dict(subjects), findings, sensitive, show_text, judged
    )


def plan_judging(
    source: Path, records: Path | None, settings: IdentifierSettings, out: Path | None, judge: MakeJudge
) -> tuple[CostEstimate, AuditJudge]:
    """Requests and tokens for the judge of :func:`search`; sends and writes nothing."""
    outputs, known, _ = _read(source, records)
    sensitive_judge = judge(_folder(source, out), known, data_use_of(records))
    return plan_sensitive(outputs, known, settings, sensitive_judge), sensitive_judge


def data_use_of(records: Path | None) -> DataUse:
    """Data use of a benchmark's records; credentialed without one."""
    return "credentialed" if records is None else Benchmark.load(records).data_use


def _folder(source: Path, out: Path | None) -> Path:
    folder = out or (source if source.is_dir() else None)
    if folder is None:
        raise InputError(
            f"{source} is a table, so nothing says where the findings go. Name a folder: --out FOLDER."
        )
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, not a folder. Choose another --out.")
    return folder


def _read(source: Path, records: Path | None) -> tuple[list[Output], list[Record], dict[str, str]]:
    benchmark = Benchmark.load(records) if records else None
    own: list[Record] = []
    by_id = {} if benchmark is None else {record.record_id: record for record in benchmark.records}
    if source.is_dir():
        if benchmark is None:
            raise InputError(f"{source} says nothing of its records. Name the benchmark: --records FOLDER.")
        outputs = read_audit(source)
    else:
        outputs, own = read_outputs(source, by_id)
        outputs = [_with_subject(output, benchmark) for output in outputs]
    unknown = sorted({output.record_id for output in outputs} - {*by_id, *(record.record_id for record in own)})
    if unknown:
        raise InputError(
            f"{len(unknown)} records of the responses are not among the records ({', '.join(unknown[:5])}). Is it "
            "the right benchmark?"
        )
    subjects = {} if benchmark is None else {name: benchmark.subject(name) for name in by_id}
    subjects |= {output.record_id: output.subject for output in outputs}
    return outputs, [*by_id.values(), *own], subjects


def _with_subject(output: Output, benchmark: Benchmark | None) -> Output:
    """A table without subjects takes those of the benchmark."""
    if benchmark is None or output.subject != output.record_id or output.record_id not in benchmark.record:
        return output
    return replace(output, subject=benchmark.subject(output.record_id))


def _find_in(
    outputs: Sequence[Output],
    *,
    known: KnownIdentifiers,
    texts: Mapping[str, str],
    detectors: Sequence[Detector],
    settings: IdentifierSettings,
    folder: Path | None,
    name: str,
) -> pd.DataFrame:
    file = f"{PARTS}/{name}.parquet"
    saved = _saved(folder, file, name)
    if saved is not None:
        return saved
    findings = as_frame(find_known(outputs, known, texts, settings.fuzzy))
    for detector in detectors:
        detected = as_frame(find_detected(outputs, detector, texts, findings))
        findings = pd.concat([findings, detected], ignore_index=True)
    # Only detectors take long enough to be worth the file.
    return _save(findings, folder, file, name) if detectors else findings


def _with_tokens(findings: pd.DataFrame, outputs: Sequence[Output], tokens: ResponseTokens | None) -> pd.DataFrame:
    return findings if tokens is None or findings.empty else with_tokens(findings, outputs, tokens)


def _token_key(tokens: ResponseTokens | None) -> object:
    return None if tokens is None else [tokens.unit.fingerprint, len(tokens.generated)]


def _digest(outputs: Sequence[Output], records: Sequence[Record], subjects: Mapping[str, str]) -> str:
    declared = [
        [one.record_id, subjects.get(one.record_id), one.text, [[i.type, i.value] for i in one.identifiers]]
        for one in records
    ]
    return sha256_of_json([[list(astuple(output)) for output in outputs], declared])


def _saved(folder: Path | None, name: str, key: str) -> pd.DataFrame | None:
    """The table of a file that was made under this key; None without one, or if it is broken."""
    if folder is None or not (folder / name).exists():
        return None
    try:
        table = pd.read_parquet(folder / name)
    except (OSError, ValueError):
        return None
    return table if table.attrs.get("key") == key else None


def _save(table: pd.DataFrame, folder: Path | None, name: str, key: str) -> pd.DataFrame:
    if folder is not None:
        table.attrs["key"] = key

        def write(path: Path) -> None:
            path.touch(mode=0o600)
            table.to_parquet(path, index=False)

        write_atomically(folder / name, write)
    return table


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(name): None if value is None or value != value else value for name, value in row.items()}
        for row in table.to_dict("records")
    ]


def _percent(share: Any) -> str:
    return "nothing to be found" if share is None or share != share else f"{100 * share:.1f}%"
