"""Panel of judges: asks every judge about every case, and stores each answer before use."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from medunlearn.config import JudgeSettings
from medunlearn.data.data_use import DataUse
from medunlearn.data.records import Record
from medunlearn.judging.judges import Judge
from medunlearn.judging.tasks import JudgingCase, JudgingTask
from medunlearn.llm.client import Client
from medunlearn.llm.guard import Decision, decide
from medunlearn.llm.requests import Outcome, Request
from medunlearn.llm.store import Store

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
    "drawn": "bool",
}
"""A judgement: ``verdict``, ``reasoning`` and ``detail`` (JSON) are of an answer; else ``reason`` says why not.
``drawn``: a rehearsal drew it at random.
"""
VERDICTS_ON = {
    "label": "verdicts on labels",
    "question": "verdicts on questions",
    "document": "verdicts on documents",
    "factuality": "factuality ratings",
}
"""Task -> what its judges give, in words."""


@dataclass(frozen=True)
class JudgingMaterial:
    """Cases to judge, with the facts about them that the guard needs.

    Attributes:
        categories: categories of the cases, for tasks with categories.
        data_use: data use of the cases; None if unknown.
        records: all records whose text may occur in the prompts.
    """

    task: JudgingTask
    cases: Sequence[JudgingCase]
    categories: tuple[str, ...]
    settings: JudgeSettings
    data_use: DataUse | None = None
    records: Sequence[Record] = ()

    def requests(self) -> Iterator[Request]:
        """One request per case, the same for every judge."""
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

    def decisions(self, judges: Sequence[Judge], *, permitted: bool = False) -> dict[str, Decision]:
        """The guard's decision on each judge's server."""
        how: dict[str, Any] = {"data_use": self.data_use, "records": self.records, "permitted": permitted}
        return {judge.name: decide(judge.settings.base_url, **how) for judge in judges}


def ask(
    material: JudgingMaterial,
    judges: Sequence[Judge],
    decisions: Mapping[str, Decision],
    store: Store,
    *,
    again: bool = False,
    quiet: bool = False,
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Ask every judge about every case; ``again``: repeat requests whose earlier answer was unusable.

    Returns:
        The judgements (:data:`COLUMNS`), sorted by case and judge; and facts for the run's record, by judge.

    Raises:
        RemoteRefusedError: a decision does not allow its server. No server was asked then.
    """
    for judge in judges:
        decisions[judge.name].enforce()
    rows: list[dict[str, Any]] = []
    facts: dict[str, Any] = {}
    n_cases = len(material.cases)
    for judge in judges:
        with Client(judge.settings, decisions[judge.name], store=store, again=again) as client:
            stream = client.stream(material.requests(), what=f"{judge.name}: judging", total=n_cases, quiet=quiet)
            rows += [_row(material.task, judge, outcome) for outcome in stream]
            origin = client.provenance(
                VERDICTS_ON[material.task.name], material.task.version, material.task.prompt_sha256
            )
            facts[judge.name] = {**client.facts(), "provenance": origin.to_json()}
    place = {case.case_id: number for number, case in enumerate(material.cases)}
    order = {judge.name: number for number, judge in enumerate(judges)}
    rows.sort(key=lambda row: (place[row["case_id"]], order[row["judge"]]))
    table = {name: pd.Series([row[name] for row in rows], dtype=kind) for name, kind in COLUMNS.items()}
    return pd.DataFrame(table), facts


def _row(task: JudgingTask, judge: Judge, outcome: Outcome) -> dict[str, Any]:
    verdict, reasoning, detail = None, None, None
    if outcome.status == "answered":
        verdict, extra = task.read(outcome.value)
        reasoning, detail = outcome.value["reasoning"], json.dumps(extra, ensure_ascii=False)
    return {
        "case_id": outcome.id,
        "judge": judge.name,
        "verdict": verdict,
        "reasoning": reasoning,
        "detail": detail,
        "status": outcome.status,
        "reason": outcome.reason or None,
        "model": judge.settings.name,
        "prompt_version": task.version,
        "key": outcome.key,
        "prompt_tokens": outcome.usage.prompt_tokens,
        "answer_tokens": outcome.usage.answer_tokens,
        "drawn": outcome.drawn,
    }
