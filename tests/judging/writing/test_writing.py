"""Sources in, results and rejects out: nothing lost, nothing twice, free the second time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from fake_server import FakeServer, share_of_faults

from medunlearn.errors import InputError
from medunlearn.judging.writing import Source, estimate_task, reasons, save_rejects, task_class, write
from medunlearn.llm import Store, decide
from medunlearn.papers.lume.prompts import verify

LABEL = task_class("disease_label")()
WORDS = ("tumor", "sepsis", "infarction", "odd")


def titles(count: int) -> list[Source]:
    return [Source(f"t{n}", {"title": f"{WORDS[n % 4]} case {n}"}, ()) for n in range(count)]


def test_every_source_ends_as_a_result_or_a_reject(
    connect: Callable[..., Any], canned: Any, tmp_path: Path
) -> None:
    """A tenth of the server's answers go wrong, and the model never manages note 3 and refuses none."""

    def answer(body: dict[str, Any]) -> str:
        return "I would rather not." if "case 3\n" in body["messages"][1]["content"] else str(canned(body))

    faults = share_of_faults(0.2, kinds=("busy", "error_500", "reset", "not_json", "prose_only", "wrong_schema"))
    sources = titles(40)
    with Store(tmp_path) as store:
        server, client = connect(server=FakeServer(faults, answer=answer), store=store, retries=8, corrections=6)
        before = estimate_task(LABEL, sources, client.settings, store)
        output = write(LABEL, sources, client)
        assert before.requests == 40
        assert list(output.results) == [f"t{n}" for n in range(40) if n != 3]
        (reject,) = output.rejects
        assert (reject.task, reject.id, reject.status) == ("disease_label@1", "t3", "invalid")
        assert (reject.requests, reject.model) == (store.get(reject.key).usage.requests, "m")  # type: ignore[union-attr]
        assert output.to_ask_again == ()
        sent = server.count
        assert write(LABEL, sources, client) == output
        assert server.count == sent
        assert estimate_task(LABEL, sources, client.settings, store).requests == 0


def test_a_dead_server_is_no_reason_against_a_source(connect: Callable[..., Any]) -> None:
    _, client = connect("error_500", retries=0, give_up_after=3, concurrency=1)
    output = write(LABEL, titles(6), client)
    assert not output.results
    assert {reject.status for reject in output.to_ask_again} == {"failed", "not_sent"}
    assert len(output.to_ask_again) == 6
    assert sum(int(line.split(" x ")[0]) for line in reasons(output.rejects)) == 6


def test_two_sources_with_one_id_are_refused(connect: Callable[..., Any]) -> None:
    server, client = connect()
    with pytest.raises(InputError, match="1 sources have duplicate ids: t0"):
        write(LABEL, [*titles(2), *titles(1)], client)
    assert server.count == 0


def test_the_table_of_rejects(connect: Callable[..., Any], tmp_path: Path) -> None:
    _, client = connect("prose_only", corrections=0, prices={"m": [1.0, 1.0]})
    output = write(LABEL, titles(1), client)
    save_rejects(tmp_path / "rejects.parquet", output.rejects)
    (row,) = pq.read_table(tmp_path / "rejects.parquet").to_pylist()
    assert (row["id"], row["status"], row["task"]) == ("t0", "invalid", "disease_label@1")
    assert row["tokens"] > 0
    assert row["money"] == pytest.approx(row["tokens"] / 1e6)
    save_rejects(tmp_path / "none.parquet", ())
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def test_reasons_are_counted() -> None:
    from medunlearn.judging.writing import Reject

    rejects = [Reject("t@1", str(n), "excluded", f"reason {n % 3}") for n in range(7)]
    assert list(reasons(rejects, most=2)) == [
        "3 x t@1: excluded: reason 0",
        "2 x t@1: excluded: reason 1",
        "and 1 further reasons",
    ]


CLAIMS = [
    Source("right", {"document": "Marten kept Sorrel Head.", "question": "What did Marten keep?"}, ()),
    Source("two", {"document": "Petra found a key and a map.", "question": "What did Petra find?"}, ()),
    Source("wrong", {"document": "Ada sold it to a baker.", "question": "To whom did Ada sell it?"}, ()),
    Source("absent", {"document": "Ada slept.", "question": "Where did Ada sleep?"}, ()),
]
ANSWERS = {"right": "Sorrel Head", "two": "a key", "wrong": "a butcher", "absent": "Isk"}
FOUND = {"Marten": ["the Sorrel Head."], "Petra": ["a key", "a map"], "sold": ["a baker"], "slept": []}


def verifier(body: dict[str, Any]) -> str:
    text = body["messages"][1]["content"]
    return json.dumps({"answers": next(answers for word, answers in FOUND.items() if word in text)})


def test_a_question_stays_if_every_verifier_finds_its_one_answer(connect: Callable[..., Any]) -> None:
    first, first_client = connect(server=FakeServer(answer=verifier))
    second, second_client = connect(server=FakeServer(answer=verifier), model="second")
    output = verify(CLAIMS, ANSWERS, {"one": first_client, "two": second_client})
    assert output.results == {"right": {"answer": "Sorrel Head", "verified_by": ["one", "two"]}}
    assert {reject.id: reject.reason for reject in output.rejects} == {
        "two": "one finds 2 answers in the text",
        "wrong": "one finds another answer",
        "absent": "one finds no answer in the text",
    }
    # The second is asked about what the first confirmed, and nobody is shown the answer.
    assert (first.count, second.count) == (4, 1)
    assert not any("butcher" in json.dumps(body) for body, _ in first.seen)


def test_a_verifier_that_is_down_says_nothing_against_a_question(connect: Callable[..., Any]) -> None:
    _, first_client = connect(server=FakeServer(answer=verifier))
    _, second_client = connect("error_500", retries=0)
    output = verify(CLAIMS[:1], ANSWERS, {"one": first_client, "two": second_client})
    assert [(reject.id, reject.status) for reject in output.to_ask_again] == [("right", "failed")]


def test_known_identifiers_stay_on_this_machine(connect: Callable[..., Any]) -> None:
    """The task hands the guard what is known of a record; the guard has the last look at the prompt."""
    decision = decide("https://llm.example.com/v1", data_use="open")
    with_name = LABEL.request(Source("s", {"title": "The fever of Ann Lee"}, ("Ann Lee",)))
    assert "known identifier" in decision.why_not(with_name.text, with_name.identifiers)
    without = LABEL.request(Source("s", {"title": "A fever"}, ("Ann Lee",)))
    assert decision.why_not(without.text, without.identifiers) == ""
