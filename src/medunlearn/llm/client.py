"""Synchronous client on top of an asynchronous dispatcher.

An event loop runs in its own thread, so the calls work in scripts, tests and notebooks alike. Requests are consumed
lazily and outcomes are yielded as they arrive, so memory does not grow with their number.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Coroutine, Iterable, Iterator, Sized
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, TypeVar

from medunlearn.data.origins import REHEARSAL, Provenance
from medunlearn.errors import InputError
from medunlearn.llm.exchange import Dispatcher
from medunlearn.llm.guard import Decision, server_name
from medunlearn.llm.requests import Outcome, Request
from medunlearn.llm.server_settings import ServerSettings
from medunlearn.llm.store import Store
from medunlearn.llm.structured import check_schema
from medunlearn.llm.usage import Budget, Usage
from medunlearn.progress import progress

AHEAD = 2  # requests taken from their source, for each one in flight

T = TypeVar("T")


@dataclass
class AnswerRecord:
    """Origin of the answers to one prompt: the day of the last one, and whether any was drawn at random."""

    last: str = ""
    drawn: bool = False

    def add(self, outcome: Outcome) -> None:
        self.last = max(self.last, outcome.created[:10])
        self.drawn |= outcome.drawn


class Client:
    """Client of one model on one server; use it in a ``with`` block.

    Args:
        settings: server settings.
        decision: decision of the guard for this server.
        budget: budget shared by several clients; None makes one from the settings.
        again: repeat requests that ended ``invalid`` or ``refused`` in an earlier run.

    Raises:
        RemoteRefusedError: the decision does not allow it.
        InputError: the decision is about another server.
        ConfigError: the variable with the key is not set.
    """

    def __init__(
        self,
        settings: ServerSettings,
        decision: Decision,
        *,
        store: Store | None = None,
        budget: Budget | None = None,
        again: bool = False,
    ) -> None:
        if decision.server != server_name(settings.base_url):
            raise InputError(f"The guard's decision is about {decision.server}, not about the server in base_url.")
        decision.enforce()
        self.settings, self.decision, self.store = settings, decision, store
        self.budget = budget or Budget(settings)
        self._dispatcher = Dispatcher(settings, decision, store, self.budget, again=again)
        self._answers: dict[str, AnswerRecord] = {}
        self.permanent = False
        """True if a request failed that would fail again until settings change."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="medunlearn-llm", daemon=True)

    def __enter__(self) -> Client:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._submit(self._wind_up()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def halted(self) -> str:
        """Reason why the run was stopped (budget, wrong key, an unresponsive server); else empty."""
        return self._dispatcher.halted

    @property
    def spent(self) -> Usage:
        """Usage so far."""
        return self.budget.spent

    def facts(self) -> dict[str, Any]:
        """Facts for a run's record: the guard's decision, the settings (without key), the usage."""
        settings = self.settings.model_dump(mode="json")
        how: dict[str, Any] = {"halted": self.halted, "permanent": self.permanent}
        how["fewest_in_flight"] = self._dispatcher.slots.fewest
        return {"guard": self.decision.to_json(), "settings": settings, **asdict(self.spent), **how}

    def provenance(self, what: str, prompt: str, prompt_sha256: str) -> Provenance:
        """Origin of the answers to one prompt so far.

        Args:
            what: what was made, in words.
            prompt: name and version of the prompt, as in its requests.
        """
        answers = self._answers.get(prompt, AnswerRecord())
        place = "on this machine" if self.decision.on_this_machine else "on another machine"
        return Provenance(
            what,
            self.settings.name,
            REHEARSAL if answers.drawn or self.settings.rehearsed else place,
            prompt,
            prompt_sha256,
            answers.last,
            answers.drawn or self.settings.rehearsed,
        )

    def ask(self, request: Request) -> Outcome:
        """Send one request and return its outcome."""
        (outcome,) = self.stream([request], quiet=True)
        return outcome

    def stream(
        self, requests: Iterable[Request], *, what: str = "asking", total: int | None = None, quiet: bool = False
    ) -> Iterator[Outcome]:
        """Outcomes as they arrive, unordered; exactly one for each request.

        Failed requests have an outcome too; only a full disk or a bug raises. If the caller stops early, for
        instance by Ctrl-C, requests in flight are dropped; every answer received is stored.

        Args:
            requests: consumed lazily; ``total``: their number, if ``requests`` has no length.
            what: title of the progress bar.
        """
        if not self._thread.is_alive():
            raise RuntimeError("A Client works inside its with block only.")
        count = total if total is not None else len(requests) if isinstance(requests, Sized) else None
        with progress(what, count or 0, quiet=quiet or count is None) as advance:
            for outcome in self._stream(iter(requests)):
                self.permanent |= outcome.permanent
                self._answers.setdefault(outcome.prompt_version, AnswerRecord()).add(outcome)
                advance(note=self.spent.words)
                yield outcome

    def _stream(self, source: Iterator[Request]) -> Iterator[Outcome]:
        completed: queue.SimpleQueue[Future[Outcome]] = queue.SimpleQueue()
        waiting: set[Future[Outcome]] = set()
        try:
            while True:
                for request in islice(source, AHEAD * self.settings.concurrency - len(waiting)):
                    if request.schema is not None:
                        check_schema(request.schema)
                    future = self._submit(self._dispatcher.outcome(request))
                    waiting.add(future)
                    future.add_done_callback(completed.put)
                if not waiting:
                    return
                future = completed.get()
                waiting.discard(future)
                yield future.result()
        finally:
            for future in waiting:
                future.cancel()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _wind_up(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        for task in others:
            with suppress(asyncio.CancelledError, Exception):
                await task
        await self._dispatcher.close()
