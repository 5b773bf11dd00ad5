"""A request's path to its outcome: store, guard, rate limiter, budget, attempts, corrections."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

from medunlearn.data.origins import is_rehearsal_model
from medunlearn.llm.connection import Connection, body_of
from medunlearn.llm.faults import AttemptError, backoff
from medunlearn.llm.field_support import FieldSupport
from medunlearn.llm.guard import Decision
from medunlearn.llm.rate_limiter import RateLimiter, TooLargeError, window_of
from medunlearn.llm.reply import Reply, shortened, why_no_text
from medunlearn.llm.requests import Message, Outcome, Request, Status
from medunlearn.llm.server_settings import ServerSettings
from medunlearn.llm.slots import Slots
from medunlearn.llm.store import Store, StoredResponse
from medunlearn.llm.structured import UnusableError, accept, opening_messages, with_correction
from medunlearn.llm.usage import (
    Budget,
    BudgetSpentError,
    Usage,
    likely_tokens,
    most_prompt_tokens,
    texts_of,
    usage_of,
)

BUDGET_POLL = 0.05  # seconds


class Dispatcher:
    """Answers many requests concurrently in one event loop; ``halted`` says why nothing more is sent."""

    def __init__(
        self, settings: ServerSettings, decision: Decision, store: Store | None, budget: Budget, *, again: bool
    ) -> None:
        self.settings, self.store, self.budget = settings, store, budget
        self._decision, self._again = decision, again
        self.connection = Connection(settings, on_this_machine=decision.on_this_machine)
        account = window_of((decision.server, settings.api_key_env))
        self.limiter = RateLimiter(settings.requests_per_minute, settings.tokens_per_minute, window=account)
        self._waiting_room = asyncio.Semaphore(settings.concurrency)
        self.slots, self.fields = Slots(settings.concurrency), FieldSupport()
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()
        self.unenforced: set[str] = set()  # prompts whose schema the server refused
        self.failed_in_a_row = 0
        self.halted = ""
        self.halted_for_good = False

    async def close(self) -> None:
        self.limiter.close()
        await self.connection.close()

    async def outcome(self, request: Request) -> Outcome:
        """The outcome of a request; failures are part of it and never raised."""
        key = request.key(self.settings.name, self.settings.extra)
        async with self._waiting_room, self._alone(key):
            if stored := stored_outcome(self.store, request, key, again=self._again):
                return stored
            if reason := self._decision.why_not(request.text, request.identifiers) or self.halted:
                return Outcome(request.id, key, "not_sent", reason, permanent=self.halted_for_good)
            return await _Exchange(self, request, key).run()

    @asynccontextmanager
    async def _alone(self, key: str) -> AsyncIterator[None]:
        """Serialize equal requests: the second finds the first one's answer in the store."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._waiting[key] += 1
        try:
            async with lock:
                yield
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._locks[key], self._waiting[key]


def stored_outcome(store: Store | None, request: Request, key: str, *, again: bool) -> Outcome | None:
    """The outcome of a request whose response is stored; None if the request must be sent.

    Args:
        again: repeat requests that ended ``invalid`` or ``refused``.
    """
    stored = None if store is None else store.get(key)
    if stored is None or _is_pretended(stored):
        return None
    if stored.status == "answered":
        return usable_outcome(request, stored)
    return None if again else stored.outcome(request.id, stored=True)


def _is_pretended(stored: StoredResponse) -> bool:
    """True for a drawn answer under the name of a real model, whose own answer it must not stand for."""
    return stored.drawn and not is_rehearsal_model(stored.model)


def usable_outcome(request: Request, stored: StoredResponse) -> Outcome | None:
    """The outcome of a stored answer; None if it is not an answer, or no longer passes its check."""
    try:
        value = accept(request, stored.text, stored.finish_reason)
    except UnusableError:
        return None
    return stored.outcome(request.id, value, stored=True) if stored.status == "answered" else None


def _texts(request: Request, messages: tuple[Message, ...]) -> list[str]:
    return [request.prompt] if isinstance(request.prompt, str) else [message.content for message in messages]


class _Exchange:
    """One request in progress, with its usage."""

    def __init__(self, dispatcher: Dispatcher, request: Request, key: str) -> None:
        self._dispatcher, self._request, self._key = dispatcher, request, key
        self._settings = dispatcher.settings
        self._usage = Usage()
        self._schema_name = f"{request.prompt_version}:{sorted(request.schema or ())}"

    async def run(self) -> Outcome:
        try:
            outcome = await self._converse()
        except AttemptError as fault:
            return self._failed(fault)
        self._dispatcher.failed_in_a_row = 0
        return outcome

    async def _converse(self) -> Outcome:
        messages = opening_messages(self._request)
        reason = ""
        for _ in range(1 + self._settings.corrections):
            reply = await self._reply(messages)
            if reason := shortened(reply.details.prompt_tokens, _texts(self._request, messages)):
                raise AttemptError(reason, this_alone=True, permanent=True)
            if reply.refusal:
                return self._finish(reply, "refused", "The model, or the server's filter, refused to answer.")
            if self._request.log_probs is not None and reply.log_probs is None:
                raise AttemptError("The server gave no log-probabilities; use one that does.", ends_run=True)
            try:
                value = accept(self._request, reply.text, reply.finish_reason)
            except UnusableError as error:
                reason = str(error)
                if not reply.text.strip():
                    reason = why_no_text(reply, self._settings.limit_name, self._request.max_tokens) or reason
                messages = with_correction(messages, reply.text, reason)
                continue
            return self._finish(reply, "answered", "", value)
        return self._finish(reply, "invalid", f"No usable answer: {reason}.")

    async def _reply(self, messages: tuple[Message, ...]) -> Reply:
        """The server's reply after as many attempts as the settings allow; raises the last AttemptError."""
        first = self._settings.backoff_seconds
        retrying = AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, AttemptError) and error.again),
            stop=stop_after_attempt(1 + self._settings.retries),
            wait=lambda state: backoff(first, state.attempt_number - 1, self._key),
            reraise=True,
        )
        return await retrying(self._attempt, messages)

    async def _attempt(self, messages: tuple[Message, ...]) -> Reply:
        enforce = self._settings.structured != "prompt" and self._schema_name not in self._dispatcher.unenforced
        support = self._dispatcher.fields
        body = body_of(self._request, messages, self._settings, enforce=enforce, refused=support.refused)
        body |= support.stream_fields(self._request)
        try:
            return await self._send(body)
        except AttemptError as fault:
            if support.adapt(fault, self._request, body):
                return await self._attempt(messages)
            if fault.refuses_schema and "response_format" in body:
                self._dispatcher.unenforced.add(self._schema_name)
                return await self._attempt(messages)
            if fault.again and fault.wait is not None:
                self._pause(fault, fault.wait)
            if (bare := support.without(fault, self._request, body)) is None:
                raise
            return await self._send_bare(bare, fault)

    async def _send_bare(self, body: dict[str, Any], fault: AttemptError) -> Reply:
        """The reply to a request without optional fields; raises the first fault if that is refused too."""
        try:
            reply = await self._send(body)
        except AttemptError:
            self._dispatcher.fields.acquit()
            raise fault from None
        self._dispatcher.fields.refuse_all(self._request)
        return reply

    def _pause(self, fault: AttemptError, wait: float) -> None:
        """Pause all requests until Retry-After has passed, unless that is too long."""
        if wait > self._settings.longest_wait_seconds:
            longest = f"longest_wait_seconds is {self._settings.longest_wait_seconds:g}"
            raise AttemptError(f"{fault.reason} It asks to wait {wait:.0f} s, and {longest}.", ends_run=True)
        self._dispatcher.limiter.pause(wait)

    async def _send(self, body: dict[str, Any]) -> Reply:
        """One attempt in a slot, which gives way if the server is overloaded."""
        dispatcher = self._dispatcher
        async with dispatcher.slots.place() as began:
            try:
                reply = await self._send_counted(body)
            except AttemptError as fault:
                if fault.overload:
                    dispatcher.slots.give_way(began)
                raise
            dispatcher.slots.answered()
        if reply.streamed and reply.details.prompt_tokens is None:
            # Only a count shows that a prompt was shortened on its way.
            dispatcher.fields.stop_streams()
        return reply

    async def _send_counted(self, body: dict[str, Any]) -> Reply:
        """One attempt within rate limits and budget, counted whatever its result."""
        dispatcher, price = self._dispatcher, self._settings.price
        prompt, answer = most_prompt_tokens(body), self._request.max_tokens
        ticket = await self._reserve(usage_of(price, prompt, answer))
        usage = Usage()
        try:
            try:
                place = await dispatcher.limiter.acquire(likely_tokens(texts_of(body)) + answer)
            except TooLargeError as error:
                raise AttemptError(f"It is not sent: {error}.", this_alone=True) from None
            try:
                if dispatcher.halted:
                    raise AttemptError(dispatcher.halted, permanent=dispatcher.halted_for_good)
                # Until the server has said what became of it, it may be on the bill with all it asked for.
                usage = usage_of(price, prompt, answer, prompt + answer)
                reply = await dispatcher.connection.send(body, lambda: dispatcher.limiter.sent(place))
            except AttemptError as fault:
                if usage.requests and not fault.maybe_charged:
                    usage = Usage(requests=1)
                raise
            finally:
                dispatcher.limiter.sent(place)
            usage = reply.usage
            dispatcher.limiter.correct(place, reply.usage.tokens)
            return reply
        finally:
            dispatcher.budget.settle(ticket, usage)
            self._usage += usage

    async def _reserve(self, most: Usage) -> int:
        while True:
            try:
                ticket = self._dispatcher.budget.reserve(most)
            except BudgetSpentError as error:
                raise AttemptError(f"The run was stopped: {error}.", ends_run=True) from None
            if ticket is not None:
                return ticket
            await asyncio.sleep(BUDGET_POLL)

    def _finish(self, reply: Reply, status: Status, reason: str, value: Any = None) -> Outcome:
        """Store the model's last reply and return the outcome."""
        request = self._request
        details = replace(reply.details, refused_fields=self._dispatcher.fields.left_out(request))
        response = StoredResponse(
            self._key, status, reason, reply.text, reply.finish_reason, reply.log_probs,
            self._settings.name, reply.served_model, reply.system_fingerprint, request.prompt_version,
            request.temperature, request.sent_seed, request.sample, request.max_tokens, self._usage,
            datetime.now(UTC).isoformat(timespec="seconds"), details,
        )  # fmt: skip
        store = self._dispatcher.store
        if store is not None and (there := store.put(response)) != response:
            # Another process was faster, or it is an old response that was found wanting before this was asked.
            if not _is_pretended(there) and (outcome := usable_outcome(request, there)) is not None:
                return outcome
            store.put(response, replace=True)
        return response.outcome(request.id, value)

    def _failed(self, fault: AttemptError) -> Outcome:
        dispatcher = self._dispatcher
        dispatcher.failed_in_a_row += not fault.this_alone
        if fault.ends_run:
            dispatcher.halted = dispatcher.halted or fault.reason
            dispatcher.halted_for_good |= fault.permanent
        elif dispatcher.failed_in_a_row >= self._settings.give_up_after and not dispatcher.halted:
            failed = dispatcher.failed_in_a_row
            dispatcher.halted = f"{failed} requests in a row failed. The last one: {fault.reason}"
            dispatcher.halted_for_good |= fault.permanent
        status: Status = "failed" if self._usage.requests else "not_sent"
        return Outcome(
            self._request.id, self._key, status, fault.reason, usage=self._usage, permanent=fault.permanent
        )
