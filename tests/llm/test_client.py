"""The client against a real server on loopback that behaves well, or not."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medunlearn.errors import InputError
from medunlearn.llm import Message, Request, Store, decide
from medunlearn.llm.client import AHEAD
from medunlearn.llm.pretend import PretendServer, pretend_value, share_of_faults

Make = Callable[..., Any]
MENDED = (
    "busy",
    "error_500",
    "error_503",
    "reset",
    "half_closed",
    "not_json",
    "no_choices",
    "error_in_200",
    "half_surrogate",
)
UNUSABLE = (
    "truncated",
    "wrong_schema",
    "duplicate_keys",
    "prose_only",
    "two_values",
    "constant",
    "deep",
    "empty",
    "cut_off",
)


def test_a_chat_with_a_schema(connect: Make, label: Make) -> None:
    server, client = connect("well")
    outcome = client.ask(label(3, seed=5, temperature=0.2, prompt_version="label@1"))
    body, headers = server.seen[0]
    said = body["messages"][1]["content"]
    assert (outcome.id, outcome.status, outcome.reason, outcome.stored) == ("r3", "answered", "", False)
    assert outcome.value == pretend_value(label().schema, said)
    assert (body["model"], body["seed"], body["temperature"], body["max_tokens"]) == ("m", 5, 0.2, 100)
    assert body["response_format"]["json_schema"]["schema"] == label().schema
    assert json.dumps(label().schema, separators=(",", ":")) in said
    assert (outcome.usage.requests, outcome.usage.estimated_tokens) == (1, 0)
    assert "authorization" not in headers


def test_a_text_to_go_on_from_with_log_probs(connect: Make, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        server, client = connect("well", store=store)
        asked = Request("c", "the patient was", log_probs=1, echo=True, max_tokens=0, stop=("\n",), top_p=0.9)
        first, again = client.ask(asked), client.ask(asked)
    body = server.seen[0][0]
    assert (body["prompt"], body["echo"], body["logprobs"], body["stop"]) == ("the patient was", True, 1, ["\n"])
    assert "messages" not in body
    assert first.log_probs.tokens[:3] == ("the", "patient", "was")
    assert first.log_probs.values[:3] == (None, -0.25, -0.5)
    assert first.log_probs.offsets[:3] == (0, 4, 12)
    assert replace(again, stored=False) == first
    assert server.count == 1


@pytest.mark.parametrize("behaviour", MENDED)
def test_what_a_repeat_mends(connect: Make, label: Make, behaviour: str) -> None:
    server, client = connect(behaviour, behaviour, "well")
    outcome = client.ask(label())
    assert (outcome.status, outcome.usage.requests, server.count) == ("answered", 3, 3)
    assert server.seen[0][0] == server.seen[2][0]


@pytest.mark.parametrize("behaviour", MENDED)
def test_what_no_repeat_mends_is_reported(connect: Make, label: Make, behaviour: str) -> None:
    server, client = connect(behaviour, retries=1)
    outcome = client.ask(label())
    assert (outcome.status, outcome.value, server.count) == ("failed", None, 2)
    assert outcome.reason


@pytest.mark.parametrize("behaviour", UNUSABLE)
def test_a_model_is_told_why_its_answer_cannot_be_used(connect: Make, label: Make, behaviour: str) -> None:
    server, client = connect(behaviour, "well")
    assert client.ask(label()).status == "answered"
    first, second = (body["messages"] for body, _ in server.seen)
    assert second[: len(first)] == first
    assert [message["role"] for message in second[len(first) :]] == ["assistant", "user"]
    assert second[-1]["content"].startswith("This answer cannot be used: ")
    assert len(second[-2]["content"]) <= 2000


@pytest.mark.parametrize("behaviour", UNUSABLE)
def test_an_answer_that_stays_unusable_has_no_value(
    connect: Make, label: Make, behaviour: str, tmp_path: Path
) -> None:
    with Store(tmp_path) as store:
        server, client = connect(behaviour, store=store, corrections=2)
        outcome = client.ask(label())
        assert (outcome.status, outcome.value, server.count) == ("invalid", None, 3)
        assert outcome.reason.startswith("No usable answer: ")
        # What the model said was paid for: a second run reports it without asking, unless it is told to.
        assert replace(client.ask(label()), stored=False) == outcome
        assert server.count == 3
        server, client = connect("well", store=store, again=True)
        assert client.ask(label()).status == "answered"
        assert client.ask(label()).stored
        assert server.count == 1


@pytest.mark.parametrize("behaviour", ["prose_around", "fence", "thinking"])
def test_json_in_wrappings_is_taken_at_once(connect: Make, label: Make, behaviour: str) -> None:
    server, client = connect(behaviour)
    assert client.ask(label()).status == "answered"
    assert server.count == 1


def test_a_server_that_refuses_schemas_is_asked_in_words(connect: Make, label: Make) -> None:
    answer = json.dumps({"label": "Other", "reason": "none"})
    server, client = connect(server=PretendServer(["no_schema"], answer=lambda body: answer), concurrency=1)
    outcomes = list(client.stream([label(n) for n in range(3)]))
    assert [outcome.value for outcome in outcomes] == [json.loads(answer)] * 3
    assert ["response_format" in body for body, _ in server.seen] == [True, False, False, False]


def test_refusals_are_neither_answers_nor_repeated(connect: Make, label: Make) -> None:
    server, client = connect("refusal")
    assert client.ask(label()).status == "refused"
    assert server.count == 1


@pytest.mark.parametrize("behaviour", ["unauthorized", "no_model", "elsewhere", "no_money", "busy_hours"])
def test_what_meets_every_request_stops_the_run(connect: Make, label: Make, behaviour: str) -> None:
    server, client = connect(behaviour, concurrency=2)
    outcomes = list(client.stream(label(n) for n in range(50)))
    assert sorted(outcome.id for outcome in outcomes) == sorted(f"r{n}" for n in range(50))
    assert {outcome.status for outcome in outcomes} == {"failed", "not_sent"}
    assert server.count <= 2
    assert client.halted
    assert all(outcome.reason for outcome in outcomes)


def test_a_server_that_is_not_there_stops_the_run(connect: Make, label: Make) -> None:
    _, client = connect(base_url="http://127.0.0.1:9/v1", retries=1, give_up_after=3, concurrency=1)
    outcomes = list(client.stream(label(n) for n in range(9)))
    assert Counter(outcome.status for outcome in outcomes) == {"failed": 3, "not_sent": 6}
    assert "3 requests in a row failed" in client.halted
    assert "is it running" in client.halted


def test_notes_that_are_too_long_do_not_stop_the_run(connect: Make, label: Make) -> None:
    server, client = connect("context_length", give_up_after=2, concurrency=1)
    outcomes = list(client.stream(label(n) for n in range(6)))
    assert [outcome.status for outcome in outcomes] == ["failed"] * 6
    assert "too long" in outcomes[0].reason
    assert server.count == 6


@pytest.mark.parametrize("limit", [{"read_seconds": 0.2}, {"total_seconds": 0.2}])
def test_a_server_that_hangs(connect: Make, label: Make, limit: dict[str, float]) -> None:
    _, client = connect("hang", "well", **limit)
    start = time.perf_counter()
    outcome = client.ask(label())
    assert outcome.status == "answered"
    assert 0.2 <= time.perf_counter() - start < 2
    # It may be billed: its worst case is counted, and marked as an estimate.
    assert outcome.usage.estimated_tokens > 100


@pytest.mark.parametrize("behaviour", ["huge", "gzip"])
def test_ten_megabytes_are_not_read(connect: Make, label: Make, behaviour: str) -> None:
    _, client = connect(behaviour, "well", largest_answer_bytes=100_000)
    assert client.ask(label()).status == "answered"
    _, client = connect(behaviour, largest_answer_bytes=100_000, retries=0)
    outcome = client.ask(label())
    assert outcome.status == "failed"
    assert "not read" in outcome.reason
    assert not outcome.text


@pytest.mark.parametrize(("behaviour", "least"), [("busy_1s", 1.0), ("busy_date", 0.9)])
def test_retry_after_is_kept_to_by_everybody(connect: Make, label: Make, behaviour: str, least: float) -> None:
    server, client = connect(behaviour, "well", concurrency=2)
    outcomes, start = [], time.perf_counter()
    for outcome in client.stream(label(n) for n in range(4)):
        outcomes.append((time.perf_counter() - start, outcome))
    assert [outcome.status for _, outcome in outcomes] == ["answered"] * 4
    # One was in flight when the server asked for silence; the others waited.
    assert sum(moment >= least for moment, _ in outcomes) >= 3
    assert server.count == 5


def test_missing_and_odd_usage_is_estimated_and_marked(connect: Make, label: Make) -> None:
    for behaviour in ("no_usage", "odd_usage"):
        _, client = connect(behaviour)
        usage = client.ask(label()).usage
        assert usage.estimated_tokens == usage.tokens > 0


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
    asked = label()
    others = [
        label(1),
        label(temperature=0.5),
        label(temperature=None),
        label(max_tokens=101),
        label(top_p=0.5),
        label(stop=("a",)),
        label(seed=1),
        label(sample=1),
        label(log_probs=1),
        label(schema=None),
        label(schema={"type": "object"}),
        label(prompt_version="2"),
        replace(asked, prompt=(Message("user", asked.text),)),
        Request("r0", asked.text, max_tokens=100),
    ]
    keys = {one.key("m", {}) for one in (asked, *others)} | {asked.key("n", {}), asked.key("m", {"think": False})}
    assert len(keys) == len(others) + 3
    same = label(check=lambda value: None, identifiers=("x",))
    assert replace(same, id="other").key("m", {}) == asked.key("m", {})


def test_samples_have_seeds_of_their_own(label: Make) -> None:
    seeds = [label(seed=7, sample=n).sent_seed for n in range(20)]
    assert seeds[0] == 7
    assert len(set(seeds)) == 20
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert label(sample=3).sent_seed is None


def test_the_same_question_twice_is_asked_once(connect: Make, label: Make, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        server, client = connect(server=PretendServer(delay=0.05), store=store, concurrency=8)
        outcomes = list(client.stream(replace(label(n % 2), id=str(n)) for n in range(16)))
    assert sorted(int(outcome.id) for outcome in outcomes) == list(range(16))
    assert server.count == 2


def test_a_check_of_the_callers_own(connect: Make, label: Make, tmp_path: Path) -> None:
    def strict(value: dict[str, str]) -> str | None:
        return None if value["reason"] == "good" else "the reason is not good"

    said = iter(["bad", "good"])
    answer = {"label": "Other"}
    server = PretendServer(answer=lambda body: json.dumps({**answer, "reason": next(said, "good")}))
    with Store(tmp_path) as store:
        server, client = connect(server=server, store=store)
        assert client.ask(label()).value["reason"] == "bad"
        # Stored when nobody minded; now it does not pass, so it is asked again and replaced.
        assert client.ask(label(check=strict)).value["reason"] == "good"
        assert client.ask(label(check=strict)).stored
        assert server.count == 2
        server, client = connect(server=PretendServer(answer=lambda body: '{"label": "Other", "reason": "bad"}'))
        outcome = client.ask(label(check=strict))
    assert (outcome.status, outcome.value) == ("invalid", None)
    assert "the reason is not good" in outcome.reason
    assert "the reason is not good" in server.seen[1][0]["messages"][-1]["content"]


def test_requests_in_flight_are_bounded_and_requests_are_taken_as_needed(connect: Make, label: Make) -> None:
    taken = 0

    def source() -> Iterator[Request]:
        nonlocal taken
        for number in range(60):
            taken += 1
            yield label(number)

    server, client = connect(server=PretendServer(delay=0.01), concurrency=4)
    given = 0
    for _ in client.stream(source()):
        given += 1
        assert taken - given <= AHEAD * 4
    assert (given, taken, server.count) == (60, 60, 60)
    assert 2 <= server.most_at_once <= 4


@pytest.mark.parametrize("budget", [{"budget_requests": 7}, {"budget_tokens": 2000}])
def test_the_budget_stops_the_run_before_it_is_passed(connect: Make, label: Make, budget: dict[str, int]) -> None:
    server, client = connect("well", "error_500", "prose_only", "well", concurrency=3, **budget)
    outcomes = list(client.stream(label(n) for n in range(40)))
    assert len({outcome.id for outcome in outcomes}) == 40
    counted = Counter(outcome.status for outcome in outcomes)
    assert counted["answered"] >= 3
    assert counted["not_sent"] >= 20
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
    _, client = connect(tokens_per_minute=50)
    assert "tokens_per_minute is 50" in client.ask(label()).reason


def test_what_the_guard_keeps_back_is_reported_and_not_sent(connect: Make, label: Make) -> None:
    server, client = connect()
    decision = replace(decide(client.settings.base_url, data_use="open"), on_this_machine=False)
    client._asker._decision = decision
    status = [client.ask(label(identifiers=names)).status for names in (None, ("chest  PAIN",), ("Ana",), ())]
    assert status == ["not_sent", "not_sent", "answered", "answered"]
    assert server.count == 2


def test_log_probs_that_a_server_leaves_out_are_missed(connect: Make) -> None:
    def deaf(body: dict[str, Any], nth: int) -> str:
        del body["logprobs"]
        return "well"

    _, client = connect(server=PretendServer(deaf))
    outcome = client.ask(Request("c", "the patient", log_probs=1))
    assert outcome.status == "failed"
    assert "no log-probabilities" in outcome.reason


def test_a_fifth_of_faults_and_every_record_has_one_outcome(connect: Make, label: Make, tmp_path: Path) -> None:
    server = PretendServer(share_of_faults(0.2, seed=3))
    with Store(tmp_path) as store:
        server, client = connect(server=server, store=store, concurrency=16)
        outcomes = list(client.stream(label(n) for n in range(150)))
        table = store.table()
    assert sorted(outcome.id for outcome in outcomes) == sorted(f"r{n}" for n in range(150))
    assert server.count == client.spent.requests > 165
    kept = {outcome.key for outcome in outcomes if outcome.status in ("answered", "invalid", "refused")}
    assert kept == set(table.key)
    assert Counter(outcome.status for outcome in outcomes)["answered"] >= 148


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
