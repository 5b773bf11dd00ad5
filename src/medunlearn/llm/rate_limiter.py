"""Rate limiter: requests and tokens per minute as the server sees them, honouring Retry-After.

A request is admitted first and sent later, once it has a connection. It occupies the window from its admission
until a minute after it was sent, so no 60 seconds on the server's clock exceed the limits, however long connections
take, as long as requests arrive within :data:`TRANSIT`.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass

WINDOW = 60.0  # seconds
TRANSIT = 1.0  # seconds from this machine to the server, at most
POLL = 0.5  # seconds between two looks for room: true usage may make some at any time


class TooLargeError(Exception):
    """One request needs more tokens than the limit per minute."""


@dataclass(eq=False, slots=True)
class SentRequest:
    """One request in the window; ``sent`` is infinite until it is sent."""

    tokens: float
    sent: float = math.inf


class Window:
    """Requests of all clients that one server may still count for one key in its last minute."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.limits: dict[object, tuple[float, float]] = {}  # requests, tokens of each limiter in use
        self.quiet_until = 0.0
        self.unsent: set[SentRequest] = set()
        self.sent: deque[SentRequest] = deque()  # oldest first
        self.tokens = 0.0

    def forget(self, before: float) -> None:
        """Drop requests sent at or before a time."""
        while self.sent and self.sent[0].sent <= before:
            self.tokens -= self.sent.popleft().tokens

    def holds(self, place: SentRequest) -> bool:
        return place in self.unsent or bool(self.sent and self.sent[0].sent <= place.sent)


_WINDOWS: dict[Hashable, Window] = {}


def window_of(account: Hashable) -> Window:
    """The window that all clients of this process share for one server and key."""
    return _WINDOWS.setdefault(account, Window())


class RateLimiter:
    """Fair rate limiter; no 60 seconds contain more requests or tokens than the limits (None: no limit).

    Limiters that share a window count together and apply the lowest of their limits. ``clock`` (monotonic seconds)
    and ``sleep`` are for tests.
    """

    def __init__(
        self,
        requests: int | None,
        tokens: int | None,
        *,
        window: Window | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._requests, self._tokens = (math.inf if limit is None else limit for limit in (requests, tokens))
        self._window = window or Window()
        self._clock, self._sleep = clock, sleep
        self._turn = asyncio.Lock()

    def close(self) -> None:
        """Remove this limiter's limits from the shared window."""
        with self._window.lock:
            self._window.limits.pop(self, None)

    async def acquire(self, tokens: int) -> SentRequest:
        """Wait for room for a request's expected tokens; returns its place for :meth:`sent`.

        Raises:
            TooLargeError: the request exceeds the limit of a whole minute.
        """
        async with self._turn:
            while isinstance(step := self._enter(tokens), float):
                await self._sleep(min(step, POLL))
            return step

    def sent(self, place: SentRequest) -> None:
        """Start the minute of a request that was sent or dropped; only the first call counts."""
        window = self._window
        with window.lock:
            if place in window.unsent:
                window.unsent.remove(place)
                place.sent = self._clock()
                window.sent.append(place)

    def correct(self, place: SentRequest, tokens: int) -> None:
        """Replace the expected tokens of a request by its actual tokens."""
        with self._window.lock:
            if self._window.holds(place):
                self._window.tokens += tokens - place.tokens
                place.tokens = float(tokens)

    def pause(self, seconds: float) -> None:
        """Block all requests for some seconds."""
        with self._window.lock:
            self._window.quiet_until = max(self._window.quiet_until, self._clock() + seconds)

    def _enter(self, tokens: int) -> SentRequest | float:
        """A place in the window, or the seconds until there may be one."""
        window = self._window
        with window.lock:
            window.limits[self] = self._requests, self._tokens
            most_requests, most_tokens = (min(limits) for limits in zip(*window.limits.values(), strict=True))
            if tokens > most_tokens:
                raise TooLargeError(f"it needs up to {tokens} tokens, and tokens_per_minute is {most_tokens:.0f}")
            now = self._clock()
            window.forget(now - WINDOW - TRANSIT)
            wait = window.quiet_until - now
            if len(window.unsent) + len(window.sent) >= most_requests or window.tokens + tokens > most_tokens:
                room_at = window.sent[0].sent + WINDOW + TRANSIT if window.sent else now + POLL
                wait = max(wait, room_at - now, 0.001)
            if wait > 0:
                return wait
            place = SentRequest(float(tokens))
            window.unsent.add(place)
            window.tokens += tokens
            return place
