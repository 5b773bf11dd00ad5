"""Search of responses for identifiers and sensitive content: tables, counts, and the recall of detectors."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.audit.audit_tables import KEY, leaked
from medunlearn.audit.identifiers.detectors import cached, make_detectors, parts_of
from medunlearn.audit.identifiers.finding_shares import find_identifiers
from medunlearn.audit.identifiers.findings import crossed
from medunlearn.audit.identifiers.known import KnownIdentifiers
from medunlearn.audit.identifiers.labelled_notes import invented_notes, label_records, labelled_styles
from medunlearn.audit.identifiers.leak_tables import by_kind, judged_table10, missed_by, table9, table10
from medunlearn.audit.identifiers.outputs import (
    RecordResponse,
    ResponseTokens,
    read_audit,
    read_outputs,
    response_tokens,
)
from medunlearn.audit.identifiers.recall import detector_recall
from medunlearn.audit.identifiers.review import write_review
from medunlearn.audit.identifiers.sensitive import find_sensitive
from medunlearn.audit.identifiers.sensitive_judge import JudgedContent, judge_sensitive, read_judged
from medunlearn.audit.judge import AuditJudge
from medunlearn.audit.position import SEGMENT
from medunlearn.audit.units import tokenizer_in
from medunlearn.config import check
from medunlearn.config.audit import IdentifierSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import DataUse, recorded_use, tightest, use_of_file
from medunlearn.data.moved_folders import find_moved
from medunlearn.data.records import Record
from medunlearn.data.storage import make_folder, read_json, refuse_existing, write_json
from medunlearn.errors import InputError
from medunlearn.reports.blocks import Block
from medunlearn.reports.view import ResultView, records_table, same_names
from medunlearn.results.runs import find_benchmark
from medunlearn.terminal import with_interval

FILE = "identifiers.json"
INVENTED, OWN = 200, 500
"""Texts that measure a detector: invented notes, and records of the user's that declare identifiers."""


def is_search(folder: Path) -> bool:
    """True if a folder has the record of a search."""
    with suppress(InputError, AttributeError):
        return "settings" in read_json(folder / FILE)
    return False


@dataclass(frozen=True)
class IdentifierSearch:
    """A search of responses for identifiers, and for sensitive content if the settings ask for it.

    Its tables are computed, or read from the folder, on first use. ``subjects`` is record id -> subject, ``origin``
    has the paths of responses (key ``said``) and records; with ``show_text`` examples are not masked.
    """

    outputs: Sequence[RecordResponse]
    records: Sequence[Record]
    subjects: Mapping[str, str]
    settings: IdentifierSettings
    folder: Path
    tokens: ResponseTokens | None = None
    data_use: DataUse | None = None
    origin: Mapping[str, str | None] = field(default_factory=dict)
    show_text: bool = False
    quiet: bool = False

    @staticmethod
    def open(folder: Path) -> IdentifierSearch:
        """An earlier search. Raises InputError if the folder holds none, or its source is gone."""
        if not (folder / FILE).exists():
            raise InputError(f"{folder} holds no findings. `medunlearn audit identifiers find` makes them.")
        info = read_json(folder / FILE)
        settings, records, identity = check(IdentifierSettings, info["settings"]), None, info.get("benchmark")
        if info["records"]:
            benchmark = find_benchmark(info["records"], folder, identity)
            records = Path(info["records"]) if benchmark is None else benchmark.folder
        source = find_moved(info["said"], folder) or Path(info["said"])
        return read_source(source, records, settings, folder, quiet=True).run()

    def run(self, judge: AuditJudge | None = None) -> IdentifierSearch:
        """Compute and save the tables.

        Args:
            judge: fills Table 10 as well.

        Raises:
            MedunlearnError: responses of the judge are missing; the others are kept.
            InputError: a file of others has the name of ours.
        """
        file = self.folder / FILE
        if os.path.lexists(file) and not is_search(self.folder):
            refuse_existing(file, why="it is no record of a search")
        make_folder(self.folder)
        self.tables()
        content = {**self.origin, "data_use": self.data_use, "settings": self.settings.model_dump(mode="json")}
        write_json(file, content)
        if judge is not None:
            judge_sensitive(self.outputs, self.records, self.settings, judge, **self._options)
        return self

    @cached_property
    def findings(self) -> pd.DataFrame:
        return find_identifiers(self.outputs, self.records, self.settings, subjects=self.subjects, **self._options)

    @cached_property
    def sensitive(self) -> pd.DataFrame | None:
        if not self.settings.sensitive:
            return None
        return find_sensitive(self.outputs, self.records, processes=self.settings.processes, **self._options)

    @cached_property
    def judged(self) -> JudgedContent | None:
        return read_judged(self.outputs, self.folder)

    def tables(self) -> list[pd.DataFrame]:
        """Findings and sensitive content, computed and saved."""
        return [table for table in (self.findings, self.sensitive) if table is not None]

    @property
    def _options(self) -> dict[str, Any]:
        return {"tokens": self.tokens, "folder": self.folder, "quiet": self.quiet}

    @property
    def _counting(self) -> dict[str, Any]:
        return {"show_text": self.show_text, "replicates": self.settings.replicates, "seed": self.settings.seed}

    @cached_property
    def table9(self) -> pd.DataFrame:
        return table9(self.findings, self.outputs, **self._counting)

    @cached_property
    def kinds(self) -> pd.DataFrame:
        """Leaks by kind."""
        return by_kind(self.findings, self.outputs, **self._counting)

    @cached_property
    def table10(self) -> pd.DataFrame | None:
        """Table 10, with known identifiers that all detectors missed, if any identifiers are known."""
        if self.sensitive is None:
            return None
        missed = None
        detector = make_detectors(self.settings.detectors)
        if detector is not None and any(record.identifiers for record in self.records):
            missed = missed_by(detector, self.findings, self.outputs)
        return table10(self.sensitive, self.outputs, self.findings, missed=missed, **self._counting)

    @cached_property
    def judged_table10(self) -> pd.DataFrame | None:
        if self.judged is None:
            return None
        return judged_table10(self.judged.findings, self.judged.outputs, self.findings, **self._counting)

    @cached_property
    def detectors(self) -> Mapping[str, Mapping[str, pd.DataFrame]]:
        """Detector -> labelled text -> recall and precision; for several detectors also of their union."""
        detector = make_detectors(self.settings.detectors)
        if detector is None:
            return {}
        detector = cached(detector)
        texts = {"fresh notes in eight styles": labelled_styles(), "invented notes": invented_notes(INVENTED)}
        if own := [text for text in label_records(self.records, self.subjects) if text.spans][:OWN]:
            texts["these records"] = own
        return {
            name: {title: detector_recall(part, text) for title, text in texts.items()}
            for name, part in {**parts_of(detector), detector.name: detector}.items()
        }

    @cached_property
    def overlap(self) -> pd.DataFrame:
        """Leaked undeclared identifiers by the detectors that found them: found_by, identifiers."""
        leaks = leaked(self.findings)
        detected = leaks[leaks["match"] == "detected"].drop_duplicates([*KEY, "kind", "key"])
        counts = detected["detector"].value_counts()
        return counts.rename_axis("found_by").rename("identifiers").reset_index()

    def review(self, out: Path, **sampling: Any) -> Path:
        """Write a review sheet; ``sampling`` as for :func:`~medunlearn.audit.identifiers.review.write_review`."""
        findings = pd.concat(self.tables(), ignore_index=True)
        return write_review(self.outputs, self.records, findings, out, **sampling)

    def summary(self) -> dict[str, Any]:
        """All counts as JSON; the only text is examples, masked by default."""
        judged = None
        if self.judged is not None:
            judged = {"model": self.judged.model, "responses": len(self.judged.outputs)}
            judged |= {"unanswered": dict(self.judged.unanswered), "table10": _rows(self.judged_table10)}
        return {
            "responses": len(self.outputs),
            "records": len(self.records),
            "table9": _rows(self.table9),
            "kinds": _rows(self.kinds),
            "table10": _rows(self.table10),
            "judged": judged,
            "cross_leaks": len(crossed(self.findings)),
            "overlap": _rows(self.overlap),
            "detectors": {
                name: {title: _rows(table) for title, table in tables.items()}
                for name, tables in self.detectors.items()
            },
            "skipped": dict(KnownIdentifiers(self.records).skipped),
        }

    def view(self) -> ResultView:
        """Identifiers by group and kind, sensitive content, and the detectors' recall, for the terminal."""

        def blocks() -> Iterator[Block | str | None]:
            yield from _counts("identifiers that leaked (Table 9)", self.table9)
            yield from _counts("by kind", self.kinds, "kind")
            if self.table10 is not None:
                yield from _counts("further sensitive content, by term lists (Table 10)", self.table10)
            if (judged := self.judged) is not None and self.judged_table10 is not None:
                by = f"by the judge {judged.model}, in {len(judged.outputs)} responses"
                yield from _counts(f"further sensitive content, {by} (Table 10)", self.judged_table10)
                yield from (f"Not judged, {count}: {why}." for why, count in judged.unanswered.items())
            yield from self.notes()

        return ResultView(lambda: {"folder": str(self.folder), **self.summary()}, blocks())

    def notes(self) -> list[str]:
        """Remarks on the counts, one per line."""
        lines = []
        for name, tables in self.detectors.items():
            for title, table in tables.items():
                share = table["recall"].iloc[-1]
                recall = "nothing to be found" if pd.isna(share) else f"{100 * share:.1f}%"
                lines.append(f"{name} finds {recall} of what is labelled in {title} (see --json)")
        if len(self.settings.detectors) > 1 and len(self.overlap):
            by = ", ".join(f"{row['identifiers']} by {row['found_by']}" for row in self.overlap.to_dict("records"))
            lines.append(f"leaked identifiers that no record declares were found: {by}")
        offsets = leaked(self.findings)["token"]
        if n := int(offsets.notna().sum()):
            early = int((offsets.dropna() < SEGMENT).sum())
            rest = f"; of {len(offsets) - n} more the tokens are not known" if n < len(offsets) else ""
            lines.append(f"{early} of {n} leaked identifiers begin in the first {SEGMENT} tokens{rest}")
        lines.append(f"{len(crossed(self.findings))} places name another subject alone (dates and ages left out)")
        skipped = KnownIdentifiers(self.records).skipped
        lines += [f"{count} declared identifiers were not looked for: {why}" for why, count in skipped.items()]
        lines.append(f"{self.folder}: findings.parquet holds text of responses; keep it where the records may be")
        return lines


def _counts(title: str, table: pd.DataFrame, name: str = "title") -> Iterator[Block | str]:
    """The rows of a table that have findings, and the names of the others."""
    there = table[table["frequency"] > 0]
    columns: dict[str, Any] = same_names("variant", name, "frequency", "responses", "subjects")
    columns |= {"per response": partial(with_interval, value="per_response"), "examples": "examples"}
    yield records_table(there, columns, title)
    if nothing := [str(label) for label in dict.fromkeys(table[name]) if label not in set(there[name])]:
        yield f"Nothing found: {', '.join(nothing)}."


def read_source(
    source: Path,
    records: Path | None,
    settings: IdentifierSettings,
    out: Path | None = None,
    *,
    show_text: bool = False,
    quiet: bool = False,
) -> IdentifierSearch:
    """A search, not yet run, of an audit or a table of responses.

    Args:
        source: an audit's folder, or a table.
        records: a benchmark's folder; None if a table brings its records' text.
        out: folder of the tables; None for the audit's own.

    Raises:
        InputError: records or output folder are not named, or tables do not fit.
    """
    benchmark = Benchmark.load(records) if records else None
    by_id = {} if benchmark is None else dict(benchmark.record)
    subjects = {} if benchmark is None else {name: benchmark.subject(name) for name in by_id}
    tokens = None
    if source.is_dir():
        if benchmark is None:
            raise InputError(f"{source} does not name its records. Name the benchmark: --records FOLDER.")
        outputs = read_audit(source)
        tokens = response_tokens(source)
    else:
        outputs, own_records = read_outputs(source, by_id)
        by_id |= {record.record_id: record for record in own_records}
        # A table without subjects takes those of the benchmark.
        bare = {name: name for name in by_id} | subjects
        outputs = [
            output._replace(subject=bare[output.record_id]) if output.subject == output.record_id else output
            for output in outputs
        ]
        if settings.tokenizer is not None:
            tokens = ResponseTokens(tokenizer_in(settings.tokenizer))
    if unknown := sorted({output.record_id for output in outputs} - by_id.keys()):
        raise InputError(
            f"{len(unknown)} records of the responses are not among the records ({', '.join(unknown[:5])}). Is it "
            "the right benchmark?"
        )
    subjects |= {output.record_id: output.subject for output in outputs}
    folder = out or (source if source.is_dir() else None)
    if folder is None:
        raise InputError(f"{source} is a table, so findings have no default folder. Name one: --out FOLDER.")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, not a folder. Choose another --out.")
    source_use = use_of_file(source, recorded_use(source))
    data_use = use_of_file(folder, tightest([source_use, None if benchmark is None else benchmark.data_use]))
    origin = {"said": os.path.abspath(source), "records": None if records is None else os.path.abspath(records)}
    origin["benchmark"] = None if benchmark is None else benchmark.fingerprint
    rows, options = list(by_id.values()), {"show_text": show_text, "quiet": quiet}
    return IdentifierSearch(outputs, rows, subjects, settings, folder, tokens, data_use, origin, **options)


def _rows(table: pd.DataFrame | None) -> list[dict[Any, Any]] | None:
    return None if table is None else table.astype(object).where(table.notna(), None).to_dict("records")
