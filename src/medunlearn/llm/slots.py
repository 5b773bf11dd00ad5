"""Requests in flight: fewer while the server is overloaded, and one more after each round that it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Slots:
    """Places for requests in flight in one event loop.

    The number of places halves on overload and grows by one after as many answers as there are places: additive
    increase, multiplicative decrease (Chiu & Jain 1989, Computer Networks 17(1)).

    Args:
        most: number of places at first, and at most.

    Attributes:
        limit: number of places now; ``fewest``: the smallest so far.
    """

    def __init__(self, most: int) -> None:
        self.limit = self.fewest = self._most = most
        self._in_use = self._answers = self._round = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[int]:
        """Wait for a place; yields the round that :meth:`give_way` takes."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._in_use < self.limit)
            self._in_use += 1
        try:
            yield self._round
        finally:
            self._in_use -= 1
            await asyncio.shield(self._notify())

    def give_way(self, began: int) -> None:
        """Halve the places, once for all requests that were in flight together.

        Args:
            began: round in which the request got its place.
        """
        if began != self._round:
            return
        self._round += 1
        self._answers = 0
        self.limit = max(1, self.limit // 2)
        self.fewest = min(self.fewest, self.limit)

    def answered(self) -> None:
        """Count an answer; after a round of answers there is one more place."""
        self._answers += 1
        if self._answers >= self.limit and self.limit < self._most:
            self._answers = 0
            self.limit += 1

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
