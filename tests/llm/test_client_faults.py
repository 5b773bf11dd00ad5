"""The client against a real server on loopback that misbehaves, or whose model does."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer, share_of_faults
from server_faults import FAULTS, TWICE

from medunlearn.llm import Message, Request, Store, Usage

Make = Callable[..., Any]
MENDED = "busy error_500 error_503 reset half_closed not_json no_choices error_in_200 half_surrogate"
UNUSABLE = "truncated wrong_schema duplicate_keys prose_only two_values constant deep empty cut_off"


@pytest.mark.parametrize("behaviour", MENDED.split())
def test_faults_are_sent_again_and_then_reported(connect: Make, label: Make, behaviour: str) -> None:
    server, client = connect(behaviour, behaviour, "well")
    outcome = client.ask(label())
    assert (outcome.status, outcome.usage.requests, server.count) == ("answered", 3, 3)
    assert server.seen[0][0] == server.seen[2][0]
    server, client = connect(behaviour, retries=1)
    outcome = client.ask(label())
    assert (outcome.status, outcome.value, server.count) == ("failed", None, 2)
    assert outcome.reason


@pytest.mark.parametrize("behaviour", UNUSABLE.split())
def test_an_unusable_answer_goes_back_with_the_reason(
    connect: Make, label: Make, behaviour: str, tmp_path: Path
) -> None:
    server, client = connect(behaviour, "well")
    assert client.ask(label()).status == "answered"
    first, second = (body["messages"] for body, _ in server.seen)
    assert second[: len(first)] == first
    assert [message["role"] for message in second[len(first) :]] == ["assistant", "user"]
    assert second[-1]["content"].startswith("This answer cannot be used: ")
    assert len(second[-2]["content"]) <= 2000
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


@pytest.mark.parametrize("behaviour", ["no_schema", "no_schema_500"])
def test_a_server_that_refuses_schemas_is_asked_in_words(connect: Make, label: Make, behaviour: str) -> None:
    answer = json.dumps({"label": "Other", "reason": "none"})
    server, client = connect(server=FakeServer([behaviour], answer=lambda body: answer), concurrency=1)
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


def test_failures_with_answers_between_them_do_not_stop_the_run(connect: Make, label: Make) -> None:
    faults = [name for _ in range(4) for name in ("error_500", "well")]
    _, client = connect(*faults, retries=0, give_up_after=2, concurrency=1)
    outcomes = list(client.stream(label(n) for n in range(8)))
    assert [outcome.status for outcome in outcomes] == ["failed", "answered"] * 4
    assert not client.halted


def test_what_a_server_has_not_worked_on_costs_no_tokens(connect: Make, label: Make) -> None:
    _, client = connect("error_500", retries=1, prices={"m": [1.0, 1.0]})
    assert client.ask(label()).usage == Usage(requests=2)


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
    _, client = connect("hang", retries=0, **limit)
    assert f"{next(iter(limit))} is 0.2" in client.ask(label()).reason


def test_a_slow_answer_has_the_whole_time(connect: Make, label: Make) -> None:
    """Answers come whole, so that the wait for the first byte is the wait for the answer."""
    _, client = connect("hang", retries=0, total_seconds=0.2)
    assert client.settings.read_seconds is None
    assert "total_seconds is 0.2" in client.ask(label()).reason


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


def test_log_probs_that_a_server_leaves_out_are_missed(connect: Make) -> None:
    def deaf(body: dict[str, Any], nth: int) -> str:
        del body["logprobs"]
        return "well"

    _, client = connect(server=FakeServer(deaf))
    outcome = client.ask(Request("c", "the patient", log_probs=1))
    assert outcome.status == "failed"
    assert "no log-probabilities" in outcome.reason


def test_a_fifth_of_faults_and_every_record_has_one_outcome(connect: Make, label: Make, tmp_path: Path) -> None:
    server = FakeServer(share_of_faults(0.2, seed=3))
    with Store(tmp_path) as store:
        server, client = connect(server=server, store=store, concurrency=16)
        outcomes = list(client.stream(label(n) for n in range(150)))
        table = store.table()
    assert sorted(outcome.id for outcome in outcomes) == sorted(f"r{n}" for n in range(150))
    assert server.count == client.spent.requests > 165
    lasting = {outcome.key for outcome in outcomes if outcome.status in ("answered", "invalid", "refused")}
    assert lasting == set(table.key)
    assert Counter(outcome.status for outcome in outcomes)["answered"] >= 148


@pytest.mark.parametrize("kind", TWICE)
def test_a_second_response_is_nobodys_answer(connect: Make, kind: str) -> None:
    """It comes in the same packet, soon, late, or when the next request of the connection has come."""
    server = FakeServer([kind], answer=lambda body: body["messages"][0]["content"])
    server, client = connect(server=server, concurrency=4)
    requests = [Request(f"r{n}", (Message("user", f"Say r{n}."),), max_tokens=9) for n in range(120)]
    outcomes = {outcome.id: outcome.text for outcome in client.stream(requests)}
    assert outcomes == {f"r{n}": f"Say r{n}." for n in range(120)}
    assert server.count == client.spent.requests == 120


def test_every_request_has_a_connection_of_its_own(connect: Make, label: Make) -> None:
    server, client = connect("well", "error_500", "prose_only", "well", concurrency=2)
    list(client.stream(label(n) for n in range(10)))
    assert server.connections == server.count > 10
    assert {headers["connection"] for _, headers in server.seen} == {"close"}


def test_there_are_24_kinds_of_faults() -> None:
    assert len(set(FAULTS)) == len(FAULTS) == 24
