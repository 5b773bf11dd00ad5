"""LLM judge for an audit's findings, with two tasks: sensitive content, and kinds of memorized spans."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from medunlearn.config import check
from medunlearn.data.data_use import DataUse
from medunlearn.data.origins import REHEARSAL, any_drawn, is_rehearsal_model, marked, read_provenance
from medunlearn.data.records import Record
from medunlearn.errors import ConfigError, MedunlearnError
from medunlearn.judging.writing.task import Source, WritingTask
from medunlearn.judging.writing.writing import Reject, estimate_task
from medunlearn.llm import Budget, Client, CostEstimate, Decision, ServerSettings, Store, decide
from medunlearn.llm.faults import next_step
from medunlearn.reports.view import ResultView

RESPONSES = "judge"
"""Subfolder of the judge's responses."""
UNCLEAR = "unclear"
_WORD = re.compile(r"[^\W_]+")


class SensitiveContent(WritingTask):
    """Task: list sensitive content in both a response and its record, by category.

    A source has ``record`` and ``response``; a result is ``{"pieces": [{"category", "quote"}]}``. A quote must be
    in both, ignoring case and punctuation.

    Source: Memorization in Large Language Models in Medicine, Section 3.3 and Table 10, where people do this.
    """

    name: ClassVar[str] = "sensitive_content"
    title: ClassVar[str] = "sensitive content"

    def wrong(self, source: Source, value: Any) -> str:
        response, record = (_padded_words(source.fields[name]) for name in ("response", "record"))
        quotes = [_padded_words(piece["quote"]) for piece in value["pieces"]]
        if any(not quote.strip() for quote in quotes):
            return "a quote has no word"
        for name, text in (("text", response), ("record", record)):
            if missing := sum(quote not in text for quote in quotes):
                return f"{missing} of the quotes do not stand in the {name} to the letter"
        return "the same quote stands twice" if len(set(quotes)) < len(quotes) else ""


class MemorizedKind(WritingTask):
    """Task: sort a memorized span into one of the kinds of :mod:`medunlearn.audit.kinds`, with a short reason.

    A source has ``span``; a result is ``{"kind", "reason"}``. ``unclear`` is an answer, and declined.

    Source: Memorization in Large Language Models in Medicine, Table 3 and Figure 8.
    """

    name: ClassVar[str] = "memorized_kind"
    title: ClassVar[str] = "kinds of memorized text"

    def wrong(self, source: Any, value: Any) -> str:
        # Reasons are kept in tables without record text; numbers are what identifies a person first.
        return "the reason has a number; give it in words" if re.search(r"\d", value["reason"]) else ""

    def declined(self, source: Any, value: Any) -> str:
        return "the model finds that no kind fits" if value["kind"] == UNCLEAR else ""


class JudgePreview(NamedTuple):
    """Requests that a judge would get, and the guard's decision on them."""

    estimate: CostEstimate
    decision: Decision

    def view(self) -> ResultView:
        """For the terminal."""
        data = {"estimate": self.estimate.to_json(), "guard": self.decision.to_json()}
        return ResultView(data, [f"Nothing was sent. {self.estimate}", self.decision.reason])


@dataclass(frozen=True)
class AuditJudge:
    """A judge that passed the data-protection guard.

    Attributes:
        folder: cache of responses; cached requests are not sent again.
        again: resend requests whose cached response was unusable.
        allow_missing: finish with responses missing.
    """

    settings: ServerSettings
    decision: Decision
    folder: Path
    again: bool = False
    allow_missing: bool = False

    @property
    def name(self) -> str:
        return self.settings.name

    @contextmanager
    def client(self) -> Iterator[Client]:
        """An open client; earlier spending counts against the budget."""
        with Store(self.folder) as store:
            budget = Budget(self.settings, spent=store.spent())
            with Client(self.settings, self.decision, store=store, budget=budget, again=self.again) as client:
                yield client

    def estimate(self, task: WritingTask, sources: Sequence[Source]) -> CostEstimate:
        """Requests and tokens of a task; sends and writes nothing."""
        with Store.existing(self.folder) as store:
            return estimate_task(task, sources, self.settings, store, again=self.again)

    def refuse_missing(self, rejects: Sequence[Reject], noun: str, *, permanent: bool = False) -> None:
        """Call this after the responses are saved.

        Args:
            permanent: a request would fail again until settings change.

        Raises:
            MedunlearnError: a response is missing that another run may get, unless that is allowed.
        """
        if rejects and not self.allow_missing:
            raise MedunlearnError(
                f"{len(rejects)} {noun} have no answer from {self.name}: {rejects[0].reason.rstrip('.?')}. "
                f"Received answers are stored. {next_step(permanent)}, or finish without them: --allow-missing."
            )


def named_judge(name: str, records: object) -> str:
    """Name of a judge for tables, marked if its answers were drawn at random.

    Args:
        records: its provenance as written; None in files of older versions.
    """
    entries = read_provenance(records)
    is_drawn = any_drawn(entries) or (not entries and is_rehearsal_model(name))
    return marked(name) if is_drawn else name


def audit_judge(
    url: str,
    model: str | None,
    folder: Path,
    *,
    data_use: DataUse | None,
    records: Sequence[Record] = (),
    overrides: Mapping[str, Any] | None = None,
    permitted: bool = False,
    again: bool = False,
    allow_missing: bool = False,
) -> AuditJudge:
    """The judge behind an address; ``rehearsal`` draws its answers at random.

    Args:
        data_use, records: source of the prompts, for the guard.
        overrides: further settings of the server.
        permitted: protected text may go to a server off this machine.

    Raises:
        ConfigError: no model's name, or wrong settings of the server.
        RemoteRefusedError: the guard refuses.
    """
    if model is None and url != REHEARSAL:
        raise ConfigError(["--llm.model is missing: the model to ask at --llm"])
    settings = check(ServerSettings, {**(overrides or {}), "base_url": url, "model": model or REHEARSAL})
    decision = decide(settings.base_url, data_use=data_use, records=records, permitted=permitted)
    return AuditJudge(settings, decision.enforce(), folder / RESPONSES, again, allow_missing)


def _padded_words(text: str) -> str:
    """Lower-case words with a space before, between and after, so that quotes match whole words."""
    return f" {' '.join(_WORD.findall(text.lower()))} "
