"""No sixty seconds hold more than the limits, whatever the clock and the load."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medunlearn.llm.rate_limiter import RateLimiter, TooLargeError


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        await asyncio.sleep(0)


def times(requests: int | None, tokens: int | None, asked: list[int]) -> list[float]:
    clock = Clock()

    async def run() -> list[float]:
        limiter = RateLimiter(requests, tokens, clock=clock, sleep=clock.sleep)

        async def one(count: int) -> float:
            await limiter.acquire(count)
            return clock.now

        return list(await asyncio.gather(*(one(count) for count in asked)))

    return asyncio.run(run())


@settings(deadline=None, max_examples=50)
@given(
    requests=st.none() | st.integers(1, 5),
    tokens=st.none() | st.integers(50, 200),
    asked=st.lists(st.integers(1, 50), min_size=1, max_size=25),
)
def test_no_minute_holds_more(requests: int | None, tokens: int | None, asked: list[int]) -> None:
    passed = times(requests, tokens, asked)
    assert passed == sorted(passed)  # first come, first served
    for start in passed:
        inside = [count for when, count in zip(passed, asked, strict=True) if start <= when < start + 60]
        assert requests is None or len(inside) <= requests
        assert tokens is None or sum(inside) <= tokens


def test_the_wait_is_no_longer_than_needed() -> None:
    assert times(2, None, [1] * 5) == [1000, 1000, 1060, 1060, 1120]
    assert times(None, 100, [60, 30, 30, 100]) == [1000, 1000, 1060, 1120]
    assert times(None, None, [10**9] * 3) == [1000] * 3


def test_true_usage_makes_room_or_takes_it() -> None:
    clock = Clock()

    async def run() -> list[float]:
        limiter = RateLimiter(None, 100, clock=clock, sleep=clock.sleep)
        limiter.correct(await limiter.acquire(100), 10)
        second = await limiter.acquire(90)
        moments = [clock.now]
        limiter.correct(second, 95)
        await limiter.acquire(1)
        return [*moments, clock.now]

    assert asyncio.run(run()) == [1000, 1060]


def test_a_pause_holds_for_everybody() -> None:
    clock = Clock()

    async def run() -> float:
        limiter = RateLimiter(None, None, clock=clock, sleep=clock.sleep)
        limiter.pause(7)
        limiter.pause(3)
        await limiter.acquire(1)
        return clock.now

    assert asyncio.run(run()) == 1007


def test_what_never_fits_is_said_at_once() -> None:
    with pytest.raises(TooLargeError, match="up to 101 tokens, and tokens_per_minute is 100"):
        times(None, 100, [101])
