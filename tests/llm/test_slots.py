"""Places for requests in flight: halved once for all that were in flight together, and given back slowly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fake_server import FakeServer

from medunlearn.llm.slots import Slots

Make = Callable[..., Any]


def test_one_overload_halves_once_and_answers_give_places_back() -> None:
    async def work() -> list[int]:
        slots, limits = Slots(8), []
        async with slots.place() as first, slots.place() as second:
            for began in (first, second):
                slots.give_way(began)
                limits.append(slots.limit)
        async with slots.place() as later:
            slots.give_way(later)
            limits.append(slots.limit)
        for _ in range(2 + 3):
            slots.answered()
            limits.append(slots.limit)
        assert slots.fewest == 2
        return limits

    assert asyncio.run(work()) == [4, 4, 2, 2, 3, 3, 3, 4]


def test_there_is_always_one_place() -> None:
    async def work() -> int:
        slots = Slots(1)
        for _ in range(3):
            async with slots.place() as began:
                slots.give_way(began)
        return slots.limit

    assert asyncio.run(work()) == 1


def test_fewer_requests_are_in_flight_after_an_overload(connect: Make, label: Make) -> None:
    behave = ["error_503"] * 8 + ["well"]
    server, client = connect(server=FakeServer(behave, delay=0.02), concurrency=8)
    outcomes = list(client.stream(label(n) for n in range(12)))
    assert [outcome.status for outcome in outcomes] == ["answered"] * 12
    assert client.facts()["fewest_in_flight"] <= 4
    assert server.most_at_once == 8
