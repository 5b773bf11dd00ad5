"""Run a writing task on sources: results and rejects in order; resumes through the client's store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from medunlearn.data.storage import write_table
from medunlearn.errors import InputError
from medunlearn.judging.writing.task import Sampling, Source, WritingTask
from medunlearn.llm.client import Client
from medunlearn.llm.estimate import CostEstimate, estimate
from medunlearn.llm.requests import UNFINISHED, Outcome
from medunlearn.llm.server_settings import ServerSettings
from medunlearn.llm.store import Store
from medunlearn.progress import progress

REJECTS = pa.schema(
    [
        *((name, pa.string()) for name in ("task", "id", "status", "reason", "model", "key")),
        *((name, pa.int64()) for name in ("requests", "tokens")),
        ("money", pa.float64()),
    ]
)
RejectStatus = Literal["invalid", "refused", "failed", "not_sent", "declined", "excluded"]


@dataclass(frozen=True, slots=True)
class Reject:
    """A source without a result.

    Attributes:
        task: name and version of the task, or of the step that excluded it.
        status: ``invalid``, ``refused``, ``failed``, ``not_sent`` as in an outcome; ``declined``: the model validly
            declined; ``excluded``: a rule of the benchmark or a bad row.
        reason: one sentence, without text of record or answer.
        model, key: key of the model's last response in the store; empty if no model was asked.
    """

    task: str
    id: str
    status: RejectStatus
    reason: str
    model: str = ""
    key: str = ""
    requests: int = 0
    tokens: int = 0
    money: float | None = None


@dataclass(frozen=True)
class WritingOutput:
    """Accepted answers by source id, and rejects; every source is in one of the two, in order."""

    results: Mapping[str, Any] = field(repr=False)
    rejects: tuple[Reject, ...]

    @property
    def to_ask_again(self) -> tuple[Reject, ...]:
        """Rejects due to server, network or budget, which a rerun requests again."""
        return tuple(reject for reject in self.rejects if reject.status in UNFINISHED)


def write(
    task: WritingTask,
    sources: Sequence[Source],
    client: Client,
    *,
    sampling: Sampling | None = None,
    quiet: bool = False,
) -> WritingOutput:
    """Run a task on every source.

    Raises:
        InputError: two sources have the same id, or a field of the prompt is missing.
    """
    results: dict[str, Any] = {}
    rejects: dict[str, Reject] = {}
    by_id = _by_id(sources)
    requests = (task.request(source, sampling) for source in sources)
    with progress(task.title, len(sources), quiet=quiet) as advance:
        for outcome in client.stream(requests, quiet=True):
            source = by_id[outcome.id]
            reject = _reject(task, source, outcome, client.settings.name)
            if reject is None:
                results[source.id] = task.shaped(source, outcome.value)
            else:
                rejects[source.id] = reject
            advance(note=f"{client.spent.words}, {len(rejects)} rejected")
    return WritingOutput(
        {source.id: results[source.id] for source in sources if source.id in results},
        tuple(rejects[source.id] for source in sources if source.id in rejects),
    )


def estimate_task(
    task: WritingTask,
    sources: Sequence[Source],
    settings: ServerSettings,
    store: Store | None,
    sampling: Sampling | None = None,
    *,
    again: bool = False,
) -> CostEstimate:
    """Requests and cost of a task; sends nothing. ``again`` as for a client."""
    _by_id(sources)
    return estimate((task.request(source, sampling) for source in sources), settings, store, again=again)


def reasons(rejects: Sequence[Reject], most: int = 8) -> Iterator[str]:
    """Counts of rejects by reason, the most frequent first."""
    counts = Counter((reject.task, reject.status, reject.reason) for reject in rejects).most_common()
    for (task, status, reason), count in counts[:most]:
        yield f"{count} x {task}: {status}: {reason}"
    if len(counts) > most:
        yield f"and {len(counts) - most} further reasons"


def save_rejects(path: Path, rejects: Sequence[Reject]) -> None:
    """Write the table ``rejects.parquet``, even without rejects."""
    write_table(path, [asdict(reject) for reject in rejects], REJECTS)


def _by_id(sources: Sequence[Source]) -> dict[str, Source]:
    twice = [name for name, count in Counter(source.id for source in sources).items() if count > 1]
    if twice:
        raise InputError(f"{len(twice)} sources have duplicate ids: {', '.join(sorted(twice)[:5])}.")
    return {source.id: source for source in sources}


def _reject(task: WritingTask, source: Source, outcome: Outcome, model: str) -> Reject | None:
    status: RejectStatus
    if outcome.status != "answered":
        status, reason = outcome.status, outcome.reason
    elif reason := task.declined(source, outcome.value):
        status = "declined"
    else:
        return None
    usage = outcome.usage
    cost = (usage.requests, usage.tokens, usage.money)
    return Reject(task.version, source.id, status, reason, model, outcome.key, *cost)
