"""Table 10 by a language model: sensitive content in a sample of responses, in the columns of findings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.audit.identifiers.findings import Output, ResponseTokens, as_frame, content_finding, with_tokens
from medunlearn.audit.identifiers.review import sample_of, similar_to_record
from medunlearn.audit.identifiers.text import Text, words_of
from medunlearn.audit.judge import AuditJudge, SensitiveContent
from medunlearn.config.identifiers import IdentifierSettings
from medunlearn.data.records import Record
from medunlearn.data.storage import read_json, sha256_of_json, write_atomically, write_json
from medunlearn.errors import InputError
from medunlearn.judging.writing import Reject, Source, write
from medunlearn.llm import Client, CostEstimate

FILE, FACTS = "sensitive_judged.parquet", "sensitive_judged.json"


@dataclass(frozen=True)
class JudgedContent:
    """Findings of a judge.

    Attributes:
        model: the judge.
        findings: of :func:`ask_sensitive`.
        outputs: the responses that it answered about.
        unanswered: reason -> number of sampled responses without an answer.
    """

    model: str
    findings: pd.DataFrame
    outputs: Sequence[Output]
    unanswered: Mapping[str, int]


def ask_sensitive(
    outputs: Sequence[Output], records: Iterable[Record], client: Client, *, quiet: bool = False
) -> tuple[pd.DataFrame, tuple[Reject, ...]]:
    """Sensitive content that a model names in a response and its record; code has checked that it is in both.

    Records go to the model's server; the client's guard decides first.

    Returns:
        Findings, with ``kind`` a row of Table 10 or a group of identifiers and ``detector`` the model; and the
        responses without an answer, which count as not searched.
    """
    sources = sensitive_sources(outputs, records)
    written = write(SensitiveContent(), [source for _, source in sources.values()], client, quiet=quiet)
    rows = [
        row
        for name, value in written.results.items()
        for row in _rows(sources[name][0], value["pieces"], client.settings.name)
    ]
    return as_frame(rows), written.rejects


def sensitive_sources(outputs: Sequence[Output], records: Iterable[Record]) -> dict[str, tuple[Output, Source]]:
    """Prompts of the judge: ``response-N``, for the n-th response, with the response."""
    by_id = {record.record_id: record for record in records}
    sources = {}
    for number, output in enumerate(outputs):
        record = by_id[output.record_id]
        known = tuple(identifier.value for identifier in record.identifiers) or None
        fields = {"record": record.text, "response": output.response}
        sources[f"response-{number}"] = (output, Source(f"response-{number}", fields, known))
    return sources


def judge_sensitive(
    outputs: Sequence[Output],
    records: Sequence[Record],
    settings: IdentifierSettings,
    judge: AuditJudge,
    folder: Path,
    *,
    tokens: ResponseTokens | None = None,
    quiet: bool = False,
) -> JudgedContent:
    """Ask a judge about a sample of responses, and save its findings in the folder.

    Raises:
        InputError: no response is similar enough to its record.
        MedunlearnError: responses of the judge are missing; the others are kept.
    """
    sample = sample_for_judge(outputs, records, settings)
    with judge.client() as client:
        findings, rejects = ask_sensitive(sample, records, client, quiet=quiet)
        facts = client.facts()
    if tokens is not None and not findings.empty:
        findings = with_tokens(findings, sample, tokens)
    without = {int(reject.id.rpartition("-")[2]) for reject in rejects}

    def save(path: Path) -> None:
        path.touch(mode=0o600)
        findings.to_parquet(path, index=False)

    write_atomically(folder / FILE, save)
    content = {
        "model": judge.name,
        "of": _digest(outputs),
        "answered": [output.key for number, output in enumerate(sample) if number not in without],
        "unanswered": dict(Counter(reject.reason for reject in rejects)),
        "llm": facts,
    }
    write_json(folder / FACTS, content)
    judge.refuse_missing([reject for reject in rejects if reject.status in ("failed", "not_sent")], "responses")
    judged = read_judged(outputs, folder)
    assert judged is not None
    return judged


def read_judged(outputs: Sequence[Output], folder: Path) -> JudgedContent | None:
    """Saved findings of a judge about these responses; None without any."""
    if not (folder / FACTS).exists() or not (folder / FILE).exists():
        return None
    facts = read_json(folder / FACTS)
    if facts["of"] != _digest(outputs):
        return None
    answered = {(probe, variant, sample) for probe, variant, sample in facts["answered"]}
    own = [output for output in outputs if output.key in answered]
    return JudgedContent(str(facts["model"]), pd.read_parquet(folder / FILE), own, facts["unanswered"])


def plan_sensitive(
    outputs: Sequence[Output], records: Sequence[Record], settings: IdentifierSettings, judge: AuditJudge
) -> CostEstimate:
    """Requests and tokens for a judge; sends and writes nothing."""
    sources = sensitive_sources(sample_for_judge(outputs, records, settings), records)
    return judge.estimate(SensitiveContent(), [source for _, source in sources.values()])


def sample_for_judge(
    outputs: Sequence[Output], records: Sequence[Record], settings: IdentifierSettings
) -> list[Output]:
    """A seeded sample of the responses that share much with their record.

    Raises:
        InputError: none does.
    """
    texts = {record.record_id: record.text for record in records}
    similar = similar_to_record(outputs, texts, settings.least_rouge)
    if not similar:
        raise InputError(
            f"No response has a ROUGE-L above {settings.least_rouge} with its record, so there is nothing to "
            "judge. Give a lower least_rouge=."
        )
    return sample_of(similar, settings.judged, settings.seed)


def _rows(output: Output, pieces: Sequence[dict[str, str]], model: str) -> Iterator[dict[str, Any]]:
    response, prefix = Text.of(output.response), f" {' '.join(words_of(output.prefix))} "
    for piece in pieces:
        words = words_of(piece["quote"])
        quote = r"[\W_]+".join(map(re.escape, words))
        match = re.search(rf"(?<![^\W_]){quote}(?![^\W_])", output.response, re.IGNORECASE)
        if match is not None:
            key = " ".join(words)
            kind, given = piece["category"], f" {key} " in prefix
            yield content_finding(output, response, *match.span(), kind, key, "detected", model, given)


def _digest(outputs: Sequence[Output]) -> str:
    return sha256_of_json([[*output.key, output.record_id, output.prefix, output.response] for output in outputs])
