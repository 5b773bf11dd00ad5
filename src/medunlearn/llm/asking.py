"""From a request to its one outcome: store, guard, limits, budget, attempts, corrections."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from medunlearn.llm.attempt import Reply, Server, body_of
from medunlearn.llm.conversation import accept, corrected, opening
from medunlearn.llm.faults import AttemptError, backoff
from medunlearn.llm.guard import Decision
from medunlearn.llm.limits import Limiter, TooLargeError
from medunlearn.llm.requests import Outcome, Request, Status
from medunlearn.llm.settings import ServerSettings
from medunlearn.llm.store import Store, Stored
from medunlearn.llm.structured import UnusableError
from medunlearn.llm.usage import (
    Budget,
    BudgetSpentError,
    Usage,
    likely_tokens,
    most_prompt_tokens,
    priced,
    texts_of,
)

ROOM = 0.05  # seconds between two looks whether the budget has room again


class Asker:
    """Answers requests, many at a time; lives in one event loop.

    Args:
        settings: of the server.
        decision: what the guard found.
        store: where responses are kept; None keeps none.
        budget: what may be used.
        again: ask again what ended ``invalid`` or ``refused`` in an earlier run.

    Attributes:
        halted: why nothing more is sent; empty while the run goes on.
    """

    def __init__(
        self, settings: ServerSettings, decision: Decision, store: Store | None, budget: Budget, *, again: bool
    ) -> None:
        self.settings, self.store, self.budget = settings, store, budget
        self._decision, self._again = decision, again
        self.server = Server(settings, on_this_machine=decision.on_this_machine)
        self.limiter = Limiter(settings.requests_per_minute, settings.tokens_per_minute)
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._busy: dict[str, asyncio.Lock] = {}
        self._wanted: Counter[str] = Counter()
        self.unenforced: set[str] = set()  # prompt versions whose schema the server refused
        self.failed_in_a_row = 0
        self.halted = ""

    async def close(self) -> None:
        await self.server.close()

    async def outcome(self, request: Request) -> Outcome:
        """What comes of a request; every mishap on the way is in it, none is raised."""
        key = request.key(self.settings.name, self.settings.extra)
        async with self._slots, self._alone(key):
            stored = self._from_store(request, key)
            if stored is not None:
                return stored
            reason = self._decision.why_not(request.text, request.identifiers) or self.halted
            if reason:
                return Outcome(request.id, key, "not_sent", reason)
            return await _Exchange(self, request, key).run()

    @asynccontextmanager
    async def _alone(self, key: str) -> AsyncIterator[None]:
        """One at a time for requests that ask the same: the second finds the first one's answer in the store."""
        lock = self._busy.setdefault(key, asyncio.Lock())
        self._wanted[key] += 1
        try:
            async with lock:
                yield
        finally:
            self._wanted[key] -= 1
            if not self._wanted[key]:
                del self._busy[key], self._wanted[key]

    def _from_store(self, request: Request, key: str) -> Outcome | None:
        found = self.store.get(key) if self.store else None
        if found is None:
            return None
        if found.status == "answered":
            return self.usable(request, found)
        return None if self._again else _outcome(request, found, None, stored=True)

    def usable(self, request: Request, found: Stored) -> Outcome | None:
        """The outcome that a stored answer is; None if it is none, or fails a check that it once passed."""
        try:
            value = accept(request, found.text, found.finish_reason)
        except UnusableError:
            return None
        return _outcome(request, found, value, stored=True) if found.status == "answered" else None


class _Exchange:
    """One request on its way; counts what it uses."""

    def __init__(self, asker: Asker, request: Request, key: str) -> None:
        self._asker, self._request, self._key = asker, request, key
        self._settings = asker.settings
        self._usage = Usage()

    async def run(self) -> Outcome:
        try:
            outcome = await self._converse()
        except AttemptError as fault:
            return self._failed(fault)
        self._asker.failed_in_a_row = 0
        return outcome

    async def _converse(self) -> Outcome:
        messages = opening(self._request)
        reason = ""
        for _ in range(1 + self._settings.corrections):
            reply = await self._reply(messages)
            if reply.refusal:
                return self._keep(reply, "refused", "The model, or the server's filter, refused to answer.")
            if self._request.log_probs is not None and reply.log_probs is None:
                raise AttemptError("The server gave no log-probabilities; use one that does.", ends_run=True)
            try:
                value = accept(self._request, reply.text, reply.finish_reason)
            except UnusableError as error:
                reason = str(error)
                messages = corrected(messages, reply, reason)
                continue
            return self._keep(reply, "answered", "", value)
        return self._keep(reply, "invalid", f"No usable answer: {reason}.")

    async def _reply(self, messages: tuple[Any, ...]) -> Reply:
        """The server's reply, after as many attempts as the settings allow.

        Raises:
            AttemptError: the last attempt's, or one that no repeat can mend.
        """
        attempt = 0
        while True:
            enforce = self._settings.structured != "prompt" and not self._schema_refused()
            body = body_of(self._request, messages, self._settings, enforce=enforce)
            try:
                return await self._attempt(body)
            except AttemptError as fault:
                if fault.refuses_schema and "response_format" in body:
                    self._asker.unenforced.add(self._schema_name())
                    continue
                if fault.again and fault.wait is not None:
                    self._heed(fault, fault.wait)
                if not fault.again or attempt == self._settings.retries:
                    raise
                await asyncio.sleep(backoff(self._settings.backoff_seconds, attempt, self._key))
                attempt += 1

    def _heed(self, fault: AttemptError, wait: float) -> None:
        """Nobody sends while the server asks for silence, unless that is too long to wait for."""
        if wait > self._settings.longest_wait_seconds:
            longest = f"longest_wait_seconds is {self._settings.longest_wait_seconds:g}"
            raise AttemptError(f"{fault.reason} It asks to wait {wait:.0f} s, and {longest}.", ends_run=True)
        self._asker.limiter.pause(wait)

    def _schema_name(self) -> str:
        return f"{self._request.prompt_version}:{sorted(self._request.schema or ())}"

    def _schema_refused(self) -> bool:
        return self._schema_name() in self._asker.unenforced

    async def _attempt(self, body: dict[str, Any]) -> Reply:
        prompt, answer = most_prompt_tokens(body), self._request.max_tokens
        likely = likely_tokens(texts_of(body)) + answer
        ticket = await self._reserve(priced(self._settings.price, prompt, answer))
        used = Usage()
        try:
            try:
                entry = await self._asker.limiter.acquire(likely)
            except TooLargeError as error:
                raise AttemptError(f"It is not sent: {error}.", this_alone=True) from None
            if self._asker.halted:
                raise AttemptError(self._asker.halted)
            # Until the server has said what became of it, it may be on the bill with all it asked for.
            used = priced(self._settings.price, prompt, answer, prompt + answer)
            try:
                reply = await self._asker.server.send(body)
            except AttemptError as fault:
                used = used if fault.maybe_charged else Usage(requests=1)
                raise
            used = reply.usage
            self._asker.limiter.correct(entry, reply.usage.tokens)
            return reply
        finally:
            self._asker.budget.settle(ticket, used)
            self._usage += used

    async def _reserve(self, most: Usage) -> int:
        while True:
            try:
                ticket = self._asker.budget.reserve(most)
            except BudgetSpentError as error:
                raise AttemptError(f"The run was stopped: {error}.", ends_run=True) from None
            if ticket is not None:
                return ticket
            await asyncio.sleep(ROOM)

    def _keep(self, reply: Reply, status: Status, reason: str, value: Any = None) -> Outcome:
        """Store what the model said in the end."""
        request = self._request
        said = Stored(
            self._key, status, reason, reply.text, reply.finish_reason, reply.log_probs,
            self._settings.name, reply.served_model, reply.system_fingerprint, request.prompt_version,
            request.temperature, request.sent_seed, request.sample, request.max_tokens, self._usage,
            datetime.now(UTC).isoformat(timespec="seconds"),
        )  # fmt: skip
        store = self._asker.store
        if store is None:
            return _outcome(request, said, value)
        kept = store.put(said)
        if kept != said:
            # Another process was faster, or it is an old response that was found wanting before this was asked.
            there = self._asker.usable(request, kept)
            if there is not None:
                return there
            store.put(said, replace=True)
        return _outcome(request, said, value)

    def _failed(self, fault: AttemptError) -> Outcome:
        asker = self._asker
        asker.failed_in_a_row += not fault.this_alone
        if fault.ends_run:
            asker.halted = asker.halted or fault.reason
        elif asker.failed_in_a_row >= self._settings.give_up_after and not asker.halted:
            asker.halted = f"{asker.failed_in_a_row} requests in a row failed. The last one: {fault.reason}"
        status: Status = "failed" if self._usage.requests else "not_sent"
        return Outcome(self._request.id, self._key, status, fault.reason, usage=self._usage)


def _outcome(request: Request, said: Stored, value: Any, *, stored: bool = False) -> Outcome:
    # What is in the store has one of the three statuses that are kept.
    status: Any = said.status
    said_and_done = (said.text, value, said.finish_reason, said.log_probs, said.usage, stored)
    return Outcome(request.id, said.key, status, said.reason, *said_and_done)
