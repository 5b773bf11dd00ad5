"""Rate limiter: requests and tokens per minute, honouring Retry-After."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

WINDOW = 60.0  # seconds


class TooLargeError(Exception):
    """One request needs more tokens than a whole minute has."""


class RateLimiter:
    """First come, first served; no 60 seconds hold more requests or tokens than the limits (None: no limit).

    ``clock`` (seconds that only grow) and ``sleep`` are for tests.
    """

    def __init__(
        self,
        requests: int | None,
        tokens: int | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._requests, self._tokens = requests, tokens
        self._clock, self._sleep = clock, sleep
        self._turn = asyncio.Lock()
        self._quiet_until = 0.0
        self._passed: deque[list[float]] = deque()  # [when, tokens] of the last minute, oldest first
        self._held = 0.0  # tokens in it

    async def acquire(self, tokens: int) -> list[float]:
        """Wait for room for the tokens that a request is expected to use; returns an entry for :meth:`correct`.

        Raises:
            TooLargeError: it will never have room.
        """
        if self._tokens is not None and tokens > self._tokens:
            raise TooLargeError(f"it needs up to {tokens} tokens, and tokens_per_minute is {self._tokens}")
        async with self._turn:
            while (wait := self._wait(tokens)) > 0:
                await self._sleep(wait)
            entry = [self._clock(), float(tokens)]
            if self._requests is not None or self._tokens is not None:
                self._passed.append(entry)
                self._held += tokens
            return entry

    def correct(self, entry: list[float], tokens: int) -> None:
        """Replace the expected tokens of a request by those that it used."""
        if self._passed and entry[0] >= self._passed[0][0]:
            self._held += tokens - entry[1]
            entry[1] = float(tokens)

    def pause(self, seconds: float) -> None:
        """Let nothing pass for so many seconds."""
        self._quiet_until = max(self._quiet_until, self._clock() + seconds)

    def _wait(self, tokens: int) -> float:
        now = self._clock()
        while self._passed and self._passed[0][0] <= now - WINDOW:
            self._held -= self._passed.popleft()[1]
        wait = self._quiet_until - now
        full = self._requests is not None and len(self._passed) >= self._requests
        heavy = self._tokens is not None and self._held + tokens > self._tokens
        if full or heavy:
            wait = max(wait, self._passed[0][0] + WINDOW - now) if self._passed else wait
        return wait
