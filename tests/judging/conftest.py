"""Judges with opinions that a test sets, on real servers on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from fake_server import FakeServer

from medunlearn.judging.judges import Judge, panel_of
from medunlearn.judging.tasks import JudgingCase

Opinion = Callable[[str, str], Any]


@pytest.fixture
def cases() -> list[JudgingCase]:
    """Six titles of three subjects in two categories."""
    return [
        JudgingCase(
            f"t{n}", f"s{n % 3}", group, {"title": f"Title {n}: a mass in the lung.", "category": group}, ()
        )
        for n, group in enumerate(["Cancer", "Cardiovascular"] * 3)
    ]


def label(verdict: str, category: str) -> dict[str, str]:
    return {"reasoning": "It says so.", "verdict": verdict, "correct_category": category}


def supported(model: str, text: str) -> dict[str, str]:
    """The opinion of a judge that supports everything."""
    return label("Supported", text.partition("<assigned_category>\n")[2].partition("\n")[0])


@pytest.fixture
def bench() -> Iterator[Callable[..., tuple[FakeServer, list[Judge]]]]:
    """``bench(opinion, "a", "b", behave=("busy", "well"))``: a server, and judges of these names on it.

    An opinion takes the model and the first user message, and returns the reply: a text, or a value as JSON.
    """
    with ExitStack() as stack:

        def make(
            opinion: Opinion, *names: str, behave: Any = ("well",), **settings: Any
        ) -> tuple[FakeServer, list[Judge]]:
            def answer(body: dict[str, Any]) -> str:
                first = next(message["content"] for message in body["messages"] if message["role"] == "user")
                reply = opinion(body["model"], first)
                return reply if isinstance(reply, str) else json.dumps(reply)

            server = stack.enter_context(FakeServer(behave, answer=answer))
            quick = {"base_url": server.base_url, "backoff_seconds": 0.01, "retries": 1, **settings}
            return server, panel_of([{"model": name, **quick} for name in names])

        yield make
