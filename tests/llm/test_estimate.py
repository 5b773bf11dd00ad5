"""A dry run: what it says beforehand holds afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from medunlearn.llm import Store, estimate

Make = Callable[..., Any]


def test_the_bounds_hold_and_nothing_is_sent(connect: Make, label: Make, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        server, client = connect(store=store, prices={"m": [1.0, 2.0]})
        requests = [label(n, prompt_version="label@1") for n in range(10)]
        before = estimate(iter(requests), client.settings, store)
        assert server.count == 0
        assert (before.requests, before.stored) == (10, 0)
        assert before.likely.answer_tokens == 10 * 100
        list(client.stream(requests))
        spent = client.spent
        assert spent.tokens <= before.likely.tokens <= before.most.tokens
        assert spent.money <= before.likely.money <= before.most.money
        assert spent.requests == before.requests
        # Now it is known how long answers to this prompt are.
        more = [label(n, prompt_version="label@1") for n in range(20)]
        after = estimate(more, client.settings, store)
        assert (after.requests, after.stored) == (10, 10)
        assert after.likely.answer_tokens == 10 * round(spent.answer_tokens / 10)
        assert after.most.answer_tokens == 10 * 100
        assert estimate([replace(more[-1], max_tokens=2)], client.settings, store).likely.answer_tokens == 2


def test_what_is_asked_again_is_counted(connect: Make, label: Make, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        _, client = connect("prose_only", store=store, corrections=0)
        assert client.ask(label(0)).status == "invalid"
        _, client = connect("well", store=store)
        client.ask(label(1))
        stored = [label(0), label(1)]
        assert estimate(stored, client.settings, store).requests == 0
        assert estimate(stored, client.settings, store, again=True).requests == 1
        stricter = label(1, check=lambda value: "no longer good enough")
        assert estimate([stricter], client.settings, store).requests == 1


def test_what_asks_the_same_is_counted_once(connect: Make, label: Make) -> None:
    _, client = connect()
    cost = estimate([label(0), replace(label(0), id="other"), label(1)], client.settings)
    assert (cost.requests, cost.stored) == (2, 1)
    assert "2 requests to send, 1 need none" in str(cost)
    assert "money" not in str(cost)
    assert json.loads(json.dumps(cost.to_json()))["most"]["requests"] == 2
