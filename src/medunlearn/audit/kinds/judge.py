"""One model on one server that is asked about spans or responses of records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from medunlearn.config import check
from medunlearn.data.records import Record
from medunlearn.errors import ConfigError, MedunlearnError
from medunlearn.judging.writing import Reject, Source, WritingTask, estimated
from medunlearn.llm import Budget, Client, CostEstimate, Decision, ServerSettings, Store, decide
from medunlearn.llm.store import FILE

RESPONSES = "judge"
"""Folder of the judge's answers, in that of the audit."""


@dataclass(frozen=True)
class OneJudge:
    """A judge that may be asked.

    Attributes:
        settings: of its server.
        decision: of the guard.
        folder: where answers are kept; what is in it is not asked again.
        again: ask again what ended unusably.
        allow_missing: finish though the server left something without an answer.
    """

    settings: ServerSettings
    decision: Decision
    folder: Path
    again: bool = False
    allow_missing: bool = False

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.settings.name

    @contextmanager
    def client(self) -> Iterator[Client]:
        """An open client; what earlier calls spent counts against the budget."""
        with Store(self.folder) as store:
            budget = Budget(self.settings, spent=store.spent())
            with Client(self.settings, self.decision, store=store, budget=budget, again=self.again) as client:
                yield client

    def estimate(self, task: WritingTask, sources: Sequence[Source]) -> CostEstimate:
        """What would be sent; nothing is, and nothing is written."""
        if not (self.folder / FILE).exists():
            return estimated(task, sources, self.settings, None)
        with Store(self.folder) as store:
            return estimated(task, sources, self.settings, store)

    def refuse_missing(self, rejects: Sequence[Reject], of: str) -> None:
        """To be called when all that came is kept.

        Raises:
            MedunlearnError: something has no answer that another run may get, and that is not allowed.
        """
        if rejects and not self.allow_missing:
            raise MedunlearnError(
                f"{len(rejects)} {of} have no answer of {self.name}: {rejects[0].reason}. What came is kept; give "
                "the same command again and the rest is asked for, or finish without it: --allow-missing."
            )


def one_judge(
    url: str,
    model: str | None,
    folder: Path,
    *,
    data_use: Literal["open", "credentialed"],
    records: Sequence[Record] = (),
    overrides: Mapping[str, Any] | None = None,
    permitted: bool = False,
    again: bool = False,
    allow_missing: bool = False,
) -> OneJudge:
    """The judge behind an address.

    Args:
        folder: of the audit.
        data_use, records: what prompts will be made of, for the guard.
        overrides: further settings of the server.
        permitted: protected text may go to a server off this machine.

    Raises:
        ConfigError: no model's name, or wrong settings of the server.
        RemoteRefusedError: the guard refuses.
    """
    if model is None:
        raise ConfigError(["--llm-model is missing: the model to ask at --llm"])
    settings = check(ServerSettings, {**(overrides or {}), "base_url": url, "model": model})
    decision = decide(settings.base_url, data_use=data_use, records=records, permitted=permitted)
    return OneJudge(settings, decision.enforce(), folder / RESPONSES, again, allow_missing)
