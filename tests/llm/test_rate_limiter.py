"""No sixty seconds of the server's hold more than the limits, whatever the clock, the load and the network."""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medunlearn.llm.rate_limiter import TRANSIT, WINDOW, RateLimiter, TooLargeError, Window, window_of

MINUTE = WINDOW + TRANSIT


class Jump(selectors.SelectSelector):
    """Lets time pass at once where nothing is to be done."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "everybody waits for ever"
        self.now += max(timeout, 0.0)
        return super().select(0)


def in_virtual_time(work: Callable[[Callable[[], float]], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine function of a clock; sleeping takes no time, and the clock shows that it did."""
    jump = Jump()
    loop = asyncio.SelectorEventLoop(jump)
    clock = loop.time = lambda: jump.now  # type: ignore[method-assign]
    try:
        loop.run_until_complete(work(clock))
    finally:
        loop.close()


def arrivals(
    requests: int | None,
    tokens: int | None,
    counts: list[int],
    *,
    connect: float = 0.0,
    transit: float = 0.0,
    clients: int = 1,
    seed: int = 0,
) -> list[tuple[float, int]]:
    """Time at which the server sees each request, and its tokens.

    Requests come at any time. Connecting takes up to so many seconds and fails in a tenth of cases, after which it
    is tried again as a request of its own; what is sent arrives after up to ``transit`` seconds.
    """
    draw, times, window = random.Random(seed), list[tuple[float, int]](), Window()

    async def run(clock: Callable[[], float]) -> None:
        limiters = [
            RateLimiter(requests if not n else None, tokens if not n else None, window=window, clock=clock)
            for n in range(clients)
        ]
        for limiter in limiters:  # everybody's limits hold once it is in use
            if clients > 1:
                limiter.sent(await limiter.acquire(0))
        if clients > 1:
            await asyncio.sleep(2 * MINUTE)

        async def one(count: int) -> None:
            limiter = draw.choice(limiters)
            if connect:
                await asyncio.sleep(draw.uniform(0, 100))
            while True:
                place = await limiter.acquire(count)
                if connect:
                    await asyncio.sleep(draw.choice([0.0, draw.uniform(0, connect)]))
                limiter.sent(place)
                if draw.random() < 0.9 or not connect:
                    break
            await asyncio.sleep(draw.uniform(0, transit))
            times.append((clock(), count))

        await asyncio.gather(*(one(count) for count in counts))

    in_virtual_time(run)
    return sorted(times)


def most_in_a_minute(times: list[tuple[float, int]]) -> tuple[int, int]:
    """The most requests and the most tokens that some 60 seconds hold."""
    inside = [[count for when, count in times if start <= when < start + WINDOW] for start, _ in times]
    return max(len(counts) for counts in inside), max(sum(counts) for counts in inside)


@settings(deadline=None, max_examples=40)
@given(
    requests=st.none() | st.integers(1, 5),
    tokens=st.none() | st.integers(50, 200),
    counts=st.lists(st.integers(1, 50), min_size=1, max_size=20),
    connect=st.sampled_from([0.0, 3.0, 40.0]),
    clients=st.integers(1, 3),
    seed=st.integers(0, 100),
)
def test_no_minute_of_the_server_holds_more(
    requests: int | None, tokens: int | None, counts: list[int], connect: float, clients: int, seed: int
) -> None:
    times = arrivals(requests, tokens, counts, connect=connect, transit=TRANSIT, clients=clients, seed=seed)
    assert sorted(count for _, count in times) == sorted(counts)
    most_requests, most_tokens = most_in_a_minute(times)
    assert requests is None or most_requests <= requests
    assert tokens is None or most_tokens <= tokens


def test_sixty_a_minute_and_slow_connections() -> None:
    """Counted from when they were let through, requests of two minutes would meet on the server: 120 of them."""
    times: list[tuple[float, int]] = []

    async def run(clock: Callable[[], float]) -> None:
        limiter = RateLimiter(60, None, clock=clock)

        async def one() -> None:
            place = await limiter.acquire(1)
            await asyncio.sleep(10 if clock() < 30 else 0)
            limiter.sent(place)
            times.append((clock(), 1))

        await asyncio.gather(*(one() for _ in range(200)))

    in_virtual_time(run)
    assert most_in_a_minute(times)[0] == 60
    assert times[-1][0] < 10 + 3 * MINUTE + 1  # the pace is kept, too


def test_the_wait_is_no_longer_than_needed() -> None:
    def times(*how: Any) -> list[float]:
        return [pytest.approx(when, abs=0.01) for when, _ in arrivals(*how)]

    assert times(2, None, [1] * 5) == [0, 0, MINUTE, MINUTE, 2 * MINUTE]
    assert times(None, 100, [60, 30, 30, 100]) == [0, 0, MINUTE, 2 * MINUTE]
    assert times(None, None, [10**9] * 3) == [0] * 3


def test_who_comes_first_is_served_first() -> None:
    order: list[int] = []

    async def run(clock: Callable[[], float]) -> None:
        limiter = RateLimiter(2, None, clock=clock)

        async def one(number: int) -> None:
            limiter.sent(await limiter.acquire(1))
            order.append(number)

        await asyncio.gather(*map(one, range(7)))

    in_virtual_time(run)
    assert order == list(range(7))


def test_true_usage_makes_room_or_takes_it() -> None:
    moments: list[float] = []

    async def run(clock: Callable[[], float]) -> None:
        limiter = RateLimiter(None, 100, clock=clock)
        limiter.sent(first := await limiter.acquire(100))
        limiter.correct(first, 10)
        limiter.sent(second := await limiter.acquire(90))
        moments.append(clock())
        limiter.correct(second, 95)
        limiter.sent(third := await limiter.acquire(1))
        moments.append(clock())
        # Room that is made while somebody waits is used at once, not a minute later.
        limiter.correct(third, 100)
        waiting = asyncio.ensure_future(limiter.acquire(50))
        await asyncio.sleep(10)
        limiter.correct(third, 20)
        await waiting
        moments.append(clock())

    in_virtual_time(run)
    assert moments[:2] == [0, pytest.approx(MINUTE, abs=0.01)]
    assert moments[2] == pytest.approx(MINUTE + 10, abs=0.6)


def test_a_pause_holds_for_everybody() -> None:
    async def run(clock: Callable[[], float]) -> None:
        account = window_of("pause")
        limiter, other = (RateLimiter(None, None, window=account, clock=clock) for _ in range(2))
        limiter.pause(7)
        limiter.pause(3)
        await other.acquire(1)
        assert clock() == 7

    in_virtual_time(run)
    assert window_of("pause") is not window_of("another")


def test_a_closed_client_limits_nobody() -> None:
    async def run(clock: Callable[[], float]) -> None:
        account = Window()
        strict, free = (RateLimiter(limit, None, window=account, clock=clock) for limit in (1, None))
        strict.sent(await strict.acquire(1))
        strict.close()
        free.sent(await free.acquire(1))
        assert clock() == 0
        # What it sent is still counted.
        later = RateLimiter(2, None, window=account, clock=clock)
        await later.acquire(1)
        assert clock() == pytest.approx(MINUTE, abs=0.01)

    in_virtual_time(run)


def test_what_never_fits_is_said_at_once() -> None:
    with pytest.raises(TooLargeError, match="up to 101 tokens, and tokens_per_minute is 100"):
        arrivals(None, 100, [101])
