"""Rate limiter: requests and tokens per minute as the server sees them, honouring Retry-After.

A request is let through at one moment and sent at a later one: first a connection is made. It keeps its place from
the first moment until a minute after the second, so no 60 seconds on the server's clock hold more than the limits,
however long connections take, as long as what is sent arrives within :data:`TRANSIT`.
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
    """One request needs more tokens than a whole minute has."""


@dataclass(eq=False, slots=True)
class SentRequest:
    """One request in the window; ``sent`` is infinite until it was sent."""

    tokens: float
    sent: float = math.inf


class Window:
    """Requests to one server under one key that the server may still see in its last minute, of all clients."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.limits: dict[object, tuple[float, float]] = {}  # requests, tokens of each limiter in use
        self.quiet_until = 0.0
        self.unsent: set[SentRequest] = set()
        self.sent: deque[SentRequest] = deque()  # oldest first
        self.tokens = 0.0

    def forget(self, before: float) -> None:
        """Drop what was sent at this moment or before it."""
        while self.sent and self.sent[0].sent <= before:
            self.tokens -= self.sent.popleft().tokens

    def holds(self, place: SentRequest) -> bool:
        return place in self.unsent or bool(self.sent and self.sent[0].sent <= place.sent)


_WINDOWS: dict[Hashable, Window] = {}


def window_of(account: Hashable) -> Window:
    """The window that all clients of this process share for one server and key."""
    return _WINDOWS.setdefault(account, Window())


class RateLimiter:
    """First come, first served; no 60 seconds hold more requests or tokens than the limits (None: no limit).

    Limiters that share a window count together and keep to the lowest limits of those in use. ``clock`` (seconds
    that only grow) and ``sleep`` are for tests.
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
        """Release the others from this one's limits."""
        with self._window.lock:
            self._window.limits.pop(self, None)

    async def acquire(self, tokens: int) -> SentRequest:
        """Wait for room for the tokens that a request is expected to use; the place is for :meth:`sent`.

        Raises:
            TooLargeError: it will never have room.
        """
        async with self._turn:
            while isinstance(step := self._enter(tokens), float):
                await self._sleep(min(step, POLL))
            return step

    def sent(self, place: SentRequest) -> None:
        """Start the minute of a request that has been sent, or never will be; the first call counts."""
        window = self._window
        with window.lock:
            if place in window.unsent:
                window.unsent.remove(place)
                place.sent = self._clock()
                window.sent.append(place)

    def correct(self, place: SentRequest, tokens: int) -> None:
        """Replace the expected tokens of a request by those that it used."""
        with self._window.lock:
            if self._window.holds(place):
                self._window.tokens += tokens - place.tokens
                place.tokens = float(tokens)

    def pause(self, seconds: float) -> None:
        """Let nothing pass for so many seconds."""
        with self._window.lock:
            self._window.quiet_until = max(self._window.quiet_until, self._clock() + seconds)

    def _enter(self, tokens: int) -> SentRequest | float:
        """A place, or the seconds after which there may be one."""
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
