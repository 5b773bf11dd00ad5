"""Synchronous client over an asynchronous dispatcher.

An event loop runs in a thread of its own, so the calls work in scripts, tests and notebooks alike. Requests are
taken from their source a few at a time and outcomes are handed out as they come, so memory does not grow with
their number.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Coroutine, Iterable, Iterator, Sized
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from typing import Any, TypeVar

from medunlearn.errors import InputError
from medunlearn.llm.exchange import Dispatcher
from medunlearn.llm.guard import Decision, read_address
from medunlearn.llm.requests import Outcome, Request
from medunlearn.llm.server_settings import ServerSettings
from medunlearn.llm.store import Store
from medunlearn.llm.structured import check_schema
from medunlearn.llm.usage import Budget, Usage
from medunlearn.progress import progress

AHEAD = 2  # requests taken from their source, for each one in flight

T = TypeVar("T")


class Client:
    """Asks one model on one server; use it in a ``with`` block.

    Args:
        settings: of the server.
        decision: of the guard, for this server.
        budget: one that several clients share; None makes one from the settings.
        again: ask again what ended ``invalid`` or ``refused`` in an earlier run.

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
        url = read_address(settings.base_url)
        if decision.server != f"{url.scheme}://{url.netloc.decode()}":
            raise InputError(f"The guard's decision is about {decision.server}, not about the server in base_url.")
        decision.enforce()
        self.settings, self.decision, self.store = settings, decision, store
        self.budget = budget or Budget(settings)
        self._dispatcher = Dispatcher(settings, decision, store, self.budget, again=again)
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
        """Reason why the run was stopped (budget, wrong key, a server that does not answer); else empty."""
        return self._dispatcher.halted

    @property
    def spent(self) -> Usage:
        """Usage so far."""
        return self.budget.spent

    def facts(self) -> dict[str, Any]:
        """For a run's record: the guard's decision, the settings (they hold no key), the usage."""
        settings = self.settings.model_dump(mode="json")
        return {"guard": self.decision.to_json(), "settings": settings, **asdict(self.spent), "halted": self.halted}

    def ask(self, request: Request) -> Outcome:
        """One request, one outcome."""
        (outcome,) = self.stream([request], quiet=True)
        return outcome

    def stream(
        self, requests: Iterable[Request], *, what: str = "asking", total: int | None = None, quiet: bool = False
    ) -> Iterator[Outcome]:
        """Outcomes as they come, in no order; exactly one for each request.

        A request that cannot be answered has an outcome that says so; only a full disk or a mistake in the code
        raises. When the caller stops early, by Ctrl-C say, what is in flight is dropped; every answer that came
        back is stored.

        Args:
            requests: taken as they are needed; ``total``: how many there are, where ``requests`` cannot tell.
            what: in front of the progress bar.
        """
        if not self._thread.is_alive():
            raise RuntimeError("A Client works inside its with block only.")
        count = total if total is not None else len(requests) if isinstance(requests, Sized) else None
        with progress(what, count or 0, quiet=quiet or count is None) as advance:
            for outcome in self._stream(iter(requests)):
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
