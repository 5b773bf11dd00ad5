"""Table 10 by a language model: sensitive content in a sample of responses, in the columns of findings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.audit.identifiers.findings import as_frame, finding
from medunlearn.audit.identifiers.normalized_text import IndexedText, words_of
from medunlearn.audit.identifiers.outputs import RecordResponse, ResponseTokens
from medunlearn.audit.identifiers.review import sample_similar
from medunlearn.audit.judge import AuditJudge, SensitiveContent, named_judge
from medunlearn.config.audit import IdentifierSettings
from medunlearn.data.records import Record
from medunlearn.data.storage import read_frame, read_json, sha256_of_json, write_frame, write_json
from medunlearn.judging.writing import Source, write
from medunlearn.llm import CostEstimate

FILE, FACTS = "sensitive_judged.parquet", "sensitive_judged.json"


@dataclass(frozen=True)
class JudgedContent:
    """Findings of a judge.

    Attributes:
        model: the judge.
        findings: ``kind`` is a row of Table 10 or a group of identifiers, ``detector`` the model.
        outputs: the responses with an answer of the judge.
        unanswered: reason -> number of sampled responses without an answer; they count as not searched.
    """

    model: str
    findings: pd.DataFrame
    outputs: Sequence[RecordResponse]
    unanswered: Mapping[str, int]


def judge_sensitive(
    outputs: Sequence[RecordResponse],
    records: Sequence[Record],
    settings: IdentifierSettings,
    judge: AuditJudge,
    *,
    folder: Path,
    tokens: ResponseTokens | None = None,
    quiet: bool = False,
) -> None:
    """Ask a judge for sensitive content in a sample of responses and their records; save its findings.

    Code checks that each piece is in both. Records go to the model's server; the client's guard decides first.

    Raises:
        InputError: no response is similar enough to its record.
        MedunlearnError: responses of the judge are missing; the others are kept.
    """
    sample, sources = _sources(outputs, records, settings)
    task = SensitiveContent()
    with judge.client() as client:
        results = write(task, sources, client, quiet=quiet)
        facts = client.facts()
        origin = client.provenance(task.title, task.version, task.prompt_sha256)
    replies = [results.results.get(source.id) for source in sources]
    judged_outputs = [(output, reply["pieces"]) for output, reply in zip(sample, replies, strict=True) if reply]
    findings = as_frame(row for output, reply in judged_outputs for row in _rows(output, reply, judge.name))
    if tokens is not None:
        findings = tokens.place(findings, sample)
    write_frame(folder / FILE, findings, index=False)
    content = {
        "model": judge.name,
        "of": _digest(outputs),
        "answered": [output.key for output, _ in judged_outputs],
        "unanswered": dict(Counter(reject.reason for reject in results.rejects)),
        "llm": facts,
        "provenance": [origin.to_json()],
    }
    write_json(folder / FACTS, content)
    judge.refuse_missing(results.to_ask_again, "responses", permanent=client.permanent)


def read_judged(outputs: Sequence[RecordResponse], folder: Path) -> JudgedContent | None:
    """Saved findings of a judge about these responses; None without any."""
    if not (folder / FACTS).exists() or not (folder / FILE).exists():
        return None
    facts = read_json(folder / FACTS)
    if facts["of"] != _digest(outputs):
        return None
    judged_keys = set(map(tuple, facts["answered"]))
    answered_outputs = [output for output in outputs if output.key in judged_keys]
    model = named_judge(str(facts["model"]), facts.get("provenance"))
    return JudgedContent(model, read_frame(folder / FILE), answered_outputs, facts["unanswered"])


def plan_sensitive(
    outputs: Sequence[RecordResponse], records: Sequence[Record], settings: IdentifierSettings, judge: AuditJudge
) -> CostEstimate:
    """Requests and tokens for a judge; sends and writes nothing."""
    return judge.estimate(SensitiveContent(), _sources(outputs, records, settings)[1])


def _sources(
    outputs: Sequence[RecordResponse], records: Iterable[Record], settings: IdentifierSettings
) -> tuple[list[RecordResponse], list[Source]]:
    """A sample of the responses, and the judge's prompt for each."""
    by_id = {record.record_id: record for record in records}
    sample, _ = sample_similar(outputs, list(by_id.values()), settings.least_rouge, settings.judged, settings.seed)
    sources = []
    for number, output in enumerate(sample):
        record = by_id[output.record_id]
        values = tuple(identifier.value for identifier in record.identifiers) or None
        fields = {"record": record.text, "response": output.response}
        sources.append(Source(f"response-{number}", fields, values))
    return sample, sources


def _rows(output: RecordResponse, pieces: Sequence[Mapping[str, str]], model: str) -> Iterator[dict[str, Any]]:
    response, prefix = IndexedText.of(output.response), f" {' '.join(words_of(output.prefix))} "
    for piece in pieces:
        words = words_of(piece["quote"])
        quote = r"[\W_]+".join(map(re.escape, words))
        match = re.search(rf"(?<![^\W_]){quote}(?![^\W_])", output.response, re.IGNORECASE)
        if match is not None:
            key = " ".join(words)
            columns = {"match": "detected", "detector": model, "in_prefix": f" {key} " in prefix}
            yield finding(output, response, match.span(), piece["category"], key, **columns)


def _digest(outputs: Sequence[RecordResponse]) -> str:
    return sha256_of_json([[*output.key, output.record_id, output.prefix, output.response] for output in outputs])
