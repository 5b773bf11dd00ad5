"""The client against a real server on loopback that behaves well: what is sent, kept, bounded and counted."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer

from medunlearn.errors import InputError
from medunlearn.judging.rehearsal import drawn_value
from medunlearn.llm import Message, Request, Store, decide
from medunlearn.llm.client import AHEAD

Make = Callable[..., Any]


def test_a_chat_with_a_schema(connect: Make, label: Make) -> None:
    server, client = connect("well")
    outcome = client.ask(label(3, seed=5, temperature=0.2, prompt_version="label@1"))
    body, headers = server.seen[0]
    prompt = body["messages"][1]["content"]
    assert (outcome.id, outcome.status, outcome.reason, outcome.stored) == ("r3", "answered", "", False)
    assert outcome.value == drawn_value(label().schema, prompt)
    assert (body["model"], body["seed"], body["temperature"], body["max_tokens"]) == ("m", 5, 0.2, 100)
    assert body["response_format"]["json_schema"]["schema"] == label().schema
    assert json.dumps(label().schema, separators=(",", ":")) in prompt
    assert (outcome.usage.requests, outcome.usage.estimated_tokens) == (1, 0)
    assert "authorization" not in headers


def test_a_text_to_go_on_from_with_log_probs(connect: Make, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        server, client = connect("well", store=store)
        request = Request("c", "the patient was", log_probs=1, echo=True, max_tokens=0, stop=("\n",), top_p=0.9)
        first, again = client.ask(request), client.ask(request)
    body = server.seen[0][0]
    assert (body["prompt"], body["echo"], body["logprobs"], body["stop"]) == ("the patient was", True, 1, ["\n"])
    assert "messages" not in body
    assert first.log_probs.tokens[:3] == ("the", "patient", "was")
    assert first.log_probs.values[:3] == (None, -0.25, -0.5)
    assert first.log_probs.offsets[:3] == (0, 4, 12)
    assert replace(again, stored=False) == first
    assert server.count == 1


def test_a_second_run_sends_nothing(connect: Make, label: Make, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        _, client = connect(store=store)
        first = {outcome.id: outcome for outcome in client.stream(label(n) for n in range(20))}
        # Elsewhere, under another name: the model's own name counts, not the server's.
        server, client = connect(store=store, model="/models/m", model_name="m")
        second = {outcome.id: outcome for outcome in client.stream(label(n) for n in range(20))}
    assert server.count == 0
    assert {name: replace(outcome, stored=False) for name, outcome in second.items()} == first
    assert client.spent.requests == 0


def test_whatever_determines_an_answer_is_in_its_key(label: Make) -> None:
    request = label()
    changes: list[dict[str, Any]] = [
        {"temperature": 0.5}, {"temperature": None}, {"max_tokens": 101}, {"top_p": 0.5}, {"stop": ("a",)},
        {"seed": 1}, {"sample": 1}, {"log_probs": 1}, {"schema": None}, {"schema": {"type": "object"}},
        {"prompt_version": "2"}, {"prompt": (Message("user", request.text),)},
    ]  # fmt: skip
    others = [
        label(1),
        Request("r0", request.text, max_tokens=100),
        *(replace(request, **change) for change in changes),
    ]
    keys = {other.key("m", {}) for other in (request, *others)}
    keys |= {request.key("n", {}), request.key("m", {"think": False})}
    assert len(keys) == len(others) + 3
    same = label(check=lambda value: None, identifiers=("x",))
    assert replace(same, id="other").key("m", {}) == request.key("m", {})


def test_samples_have_seeds_of_their_own(label: Make) -> None:
    seeds = [label(seed=7, sample=n).sent_seed for n in range(20)]
    assert seeds[0] == 7
    assert len(set(seeds)) == 20
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert label(sample=3).sent_seed is None


def test_the_same_question_twice_is_asked_once(connect: Make, label: Make, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        server, client = connect(server=FakeServer(delay=0.05), store=store, concurrency=8)
        outcomes = list(client.stream(replace(label(n % 2), id=str(n)) for n in range(16)))
    assert sorted(int(outcome.id) for outcome in outcomes) == list(range(16))
    assert server.count == 2


def test_a_check_of_the_callers_own(connect: Make, label: Make, tmp_path: Path) -> None:
    def strict(value: dict[str, str]) -> str | None:
        return None if value["reason"] == "good" else "the reason is not good"

    replies = iter(["bad", "good"])
    answer = {"label": "Other"}
    server = FakeServer(answer=lambda body: json.dumps({**answer, "reason": next(replies, "good")}))
    with Store(tmp_path) as store:
        server, client = connect(server=server, store=store)
        assert client.ask(label()).value["reason"] == "bad"
        # Stored when nobody minded; now it does not pass, so it is asked again and replaced.
        assert client.ask(label(check=strict)).value["reason"] == "good"
        assert client.ask(label(check=strict)).stored
        assert server.count == 2
        server, client = connect(server=FakeServer(answer=lambda body: '{"label": "Other", "reason": "bad"}'))
        outcome = client.ask(label(check=strict))
    assert (outcome.status, outcome.value) == ("invalid", None)
    assert "the reason is not good" in outcome.reason
    assert "the reason is not good" in server.seen[1][0]["messages"][-1]["content"]


def test_requests_in_flight_are_bounded_and_requests_are_taken_as_needed(connect: Make, label: Make) -> None:
    started = 0

    def source() -> Iterator[Request]:
        nonlocal started
        for number in range(60):
            started += 1
            yield label(number)

    server, client = connect(server=FakeServer(delay=0.01), concurrency=4)
    finished = 0
    for _ in client.stream(source()):
        finished += 1
        assert started - finished <= AHEAD * 4
    assert (finished, started, server.count) == (60, 60, 60)
    assert 2 <= server.most_at_once <= 4


@pytest.mark.parametrize("budget", [{"budget_requests": 7}, {"budget_tokens": 2000}])
def test_the_budget_stops_the_run_before_it_is_passed(connect: Make, label: Make, budget: dict[str, int]) -> None:
    server, client = connect("well", "error_500", "prose_only", "well", concurrency=3, **budget)
    outcomes = list(client.stream(label(n) for n in range(40)))
    assert len({outcome.id for outcome in outcomes}) == 40
    counts = Counter(outcome.status for outcome in outcomes)
    assert counts["answered"] >= 3
    assert counts["not_sent"] >= 20
    assert "budget" in client.halted
    assert client.spent.requests == server.count <= budget.get("budget_requests", 40)
    assert client.spent.tokens <= budget.get("budget_tokens", 10**9)


def test_money_is_counted(connect: Make, label: Make) -> None:
    _, client = connect(prices={"m": [1.0, 3.0]}, budget_money=0.003)
    list(client.stream(label(n) for n in range(40)))
    spent = client.spent
    assert spent.money == pytest.approx((spent.prompt_tokens + 3 * spent.answer_tokens) / 1e6)
    assert spent.money <= 0.003
    assert "0.003 of money" in client.halted


def test_rates_are_kept(connect: Make, label: Make) -> None:
    server, client = connect(requests_per_minute=3, tokens_per_minute=10**6)
    stream = client.stream(label(n) for n in range(9))
    assert [next(stream).status for _ in range(3)] == ["answered"] * 3
    time.sleep(0.3)
    assert server.count == 3  # the fourth waits for the minute to pass
    stream.close()
    # What a request was expected to use gives way to what it used.
    _, client = connect(tokens_per_minute=1800)
    start = time.monotonic()
    assert [client.ask(label(n, max_tokens=1000)).status for n in range(3)] == ["answered"] * 3
    assert time.monotonic() - start < 5
    _, client = connect(tokens_per_minute=50)
    assert "tokens_per_minute is 50" in client.ask(label()).reason


def test_what_the_guard_keeps_back_is_reported_and_not_sent(connect: Make, label: Make) -> None:
    server, client = connect()
    decision = replace(decide(client.settings.base_url, data_use="open"), on_this_machine=False)
    client._dispatcher._decision = decision
    status = [client.ask(label(identifiers=names)).status for names in (None, ("chest  PAIN",), ("Ana",), ())]
    assert status == ["not_sent", "not_sent", "answered", "answered"]
    assert server.count == 2


def test_mistakes_in_the_callers_code_are_raised(connect: Make, label: Make) -> None:
    _, client = connect()
    with pytest.raises(ZeroDivisionError):
        client.ask(label(check=lambda value: str(1 // 0)))
    with pytest.raises(InputError, match="JSON schema is not one"):
        client.ask(label(schema={"type": "objekt"}))
    assert client.ask(label()).status == "answered"
    for bad in ({"prompt": ""}, {"prompt": "a", "schema": {}}, {"prompt": (Message("user", "a"),), "echo": True}):
        with pytest.raises(InputError):
            Request("r", **bad)
    with pytest.raises(InputError, match="max_tokens"):
        Request("r", "a", max_tokens=0)


def test_it_works_where_a_loop_runs_already(connect: Make, label: Make) -> None:
    import asyncio

    _, client = connect()

    async def notebook() -> str:
        status: str = client.ask(label()).status
        return status

    assert asyncio.run(notebook()) == "answered"
