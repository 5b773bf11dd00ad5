"""``--llm rehearsal``: no connection, answers that are known as drawn, and stores that do not mix them up."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_server import FakeServer

from medunlearn.config import check
from medunlearn.judging.judges import judges_of
from medunlearn.judging.rehearsal import serve
from medunlearn.llm import Client, Message, Outcome, Request, ServerSettings, Store, decide
from medunlearn.papers.llm_build import server_of

SCHEMA = {
    "type": "object",
    "properties": {"rating": {"type": "integer", "minimum": 1, "maximum": 10}},
    "required": ["rating"],
    "additionalProperties": False,
}


def ask(settings: ServerSettings, store: Store | None = None) -> tuple[Outcome, Client]:
    request = Request("one", (Message("user", "Rate this."),), schema=SCHEMA, prompt_version="task@1")
    with Client(settings, decide(settings.base_url, data_use="credentialed"), store=store) as client:
        return client.ask(request), client


@pytest.fixture
def server() -> Iterator[str]:
    started = serve()
    yield f"http://127.0.0.1:{started.server_port}/v1"
    started.shutdown()
    started.server_close()


def test_a_rehearsal_opens_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("a connection was opened")

    settings = check(ServerSettings, {"base_url": "rehearsal"})
    monkeypatch.setattr(socket.socket, "connect", refuse)
    outcome, client = ask(settings)
    assert (outcome.status, outcome.drawn, settings.name) == ("answered", True, "rehearsal")
    origin = client.provenance("ratings", "task@1", "abc")
    assert (origin.drawn, origin.server, origin.model, origin.date) == (
        True,
        "rehearsal",
        "rehearsal",
        outcome.created[:10],
    )
    # Of another prompt it gave no answer, and would still draw it.
    assert client.provenance("ratings", "other@1", "").drawn


def test_a_rehearsed_model_is_not_the_model(tmp_path: Path, server: str) -> None:
    """Answers of a rehearsal under a real model's name are never taken for the model's."""
    rehearsed = check(ServerSettings, {"base_url": "rehearsal", "model": "judge-7b"})
    named = check(ServerSettings, {"base_url": server, "model": "judge-7b"})
    request = Request("one", (Message("user", "Rate this."),))
    assert request.key(rehearsed.name, {}) != request.key(named.name, {})
    with Store(tmp_path) as store:
        outcome, client = ask(named, store)
        # Whoever answers with the rehearsal's fingerprint is known for it, now and out of the store.
        assert outcome.drawn
        assert client.provenance("ratings", "task@1", "").drawn
        # The model itself is asked, although there is a drawn answer under its name; its own answer stays.
        with FakeServer(answer=lambda body: json.dumps({"rating": 7})) as real:
            settings = named.model_copy(update={"base_url": real.base_url})
            answers = [ask(settings, store)[0] for _ in range(2)]
        assert [(one.value, one.drawn, one.stored) for one in answers] == [
            ({"rating": 7}, False, False),
            ({"rating": 7}, False, True),
        ]
        again, client = ask(rehearsed, store)
        assert (again.stored, again.drawn) == (False, True)
        again, client = ask(rehearsed, store)
        assert (again.stored, again.drawn, client.provenance("x", "task@1", "").drawn) == (True, True, True)


def test_every_way_to_name_a_server_takes_it() -> None:
    assert server_of({"base_url": "rehearsal"}).rehearsed
    assert [judge.settings.rehearsed for judge in judges_of("rehearsal")] == [True]
    assert [judge.settings.rehearsed for judge in judges_of([{"base_url": "rehearsal"}])] == [True]
    assert decide("rehearsal", data_use="credentialed").on_this_machine
