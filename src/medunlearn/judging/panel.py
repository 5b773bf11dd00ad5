"""Asking a panel: every judge about every case, each answer stored before it is used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from medunlearn.config import JudgeSettings
from medunlearn.judging.judges import Judge
from medunlearn.judging.task import JudgingCase, JudgingTask
from medunlearn.llm.client import Client
from medunlearn.llm.estimate import CostEstimate, estimate
from medunlearn.llm.guard import Decision
from medunlearn.llm.requests import Outcome, Request
from medunlearn.llm.store import Store

UNFINISHED = ("failed", "not_sent")
"""Outcomes that the next run asks again: what a server, the network or a budget did, not what a judge said."""


@dataclass(frozen=True, slots=True)
class Asking:
    """Everything that a panel is asked.

    Attributes:
        task: how it judges.
        cases: what.
        categories: in use, for tasks that have some.
        settings: how it is asked.
    """

    task: JudgingTask
    cases: Sequence[JudgingCase]
    categories: tuple[str, ...]
    settings: JudgeSettings

    def requests(self) -> Iterator[Request]:
        """One a case, the same for every judge."""
        schema = self.task.schema(self.categories)
        for case in self.cases:
            yield Request(
                id=case.case_id,
                prompt=self.task.messages(case, self.categories),
                schema=schema,
                temperature=self.settings.temperature,
                max_tokens=self.settings.max_tokens,
                seed=self.settings.seed,
                prompt_version=self.task.version,
                check=lambda value, case=case: self.task.check(case, value),  # type: ignore[misc]
                identifiers=case.identifiers,
            )


def dry_run(asking: Asking, judges: Sequence[Judge], store: Store | None) -> dict[str, CostEstimate]:
    """What each judge would be sent, and what that would cost; nothing is sent."""
    return {judge.name: estimate(asking.requests(), judge.settings, store) for judge in judges}


def ask(
    asking: Asking,
    judges: Sequence[Judge],
    decisions: Mapping[str, Decision],
    store: Store,
    *,
    again: bool = False,
    quiet: bool = False,
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Every judge in turn about every case.

    Args:
        decisions: the guard's, by judge.
        store: of all judges' answers.
        again: ask again what ended without a usable answer in an earlier run.

    Returns:
        The judgements (:data:`COLUMNS`), by case in their order and judge; and by judge what a run records.

    Raises:
        RemoteRefusedError: a decision does not allow its server. None was asked then.
    """
    for judge in judges:
        decisions[judge.name].enforce()
    rows: list[dict[str, Any]] = []
    facts: dict[str, Any] = {}
    for judge in judges:
        with Client(judge.settings, decisions[judge.name], store=store, again=again) as client:
            stream = client.stream(
                asking.requests(), what=f"{judge.name}: judging", total=len(asking.cases), quiet=quiet
            )
            rows += [_row(asking, judge, outcome) for outcome in stream]
            facts[judge.name] = client.facts()
    place = {case.case_id: number for number, case in enumerate(asking.cases)}
    order = {judge.name: number for number, judge in enumerate(judges)}
    rows.sort(key=lambda row: (place[row["case_id"]], order[row["judge"]]))
    table = {name: pd.Series([row[name] for row in rows], dtype=kind) for name, kind in COLUMNS.items()}
    return pd.DataFrame(table), facts


COLUMNS: dict[str, Any] = {
    "case_id": "str",
    "judge": "str",
    "verdict": "object",
    "reasoning": "object",
    "detail": "object",
    "status": "str",
    "reason": "object",
    "model": "str",
    "prompt_version": "str",
    "key": "str",
    "prompt_tokens": "int64",
    "answer_tokens": "int64",
}
"""A judgement: ``verdict``, ``reasoning`` and ``detail`` (JSON) are of an answer; else ``reason`` says why not."""


def _row(asking: Asking, judge: Judge, outcome: Outcome) -> dict[str, Any]:
    reading = asking.task.read(outcome.value) if outcome.status == "answered" else None
    return {
        "case_id": outcome.id,
        "judge": judge.name,
        "verdict": reading.verdict if reading else None,
        "reasoning": reading.reasoning if reading else None,
        "detail": json.dumps(dict(reading.detail), ensure_ascii=False) if reading else None,
        "status": outcome.status,
        "reason": outcome.reason or None,
        "model": judge.settings.name,
        "prompt_version": asking.task.version,
        "key": outcome.key,
        "prompt_tokens": outcome.usage.prompt_tokens,
        "answer_tokens": outcome.usage.answer_tokens,
    }
