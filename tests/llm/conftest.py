"""A client of a pretended server, quick to give up and quick to retry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from fake_server import FakeServer

from medunlearn.config import check
from medunlearn.llm import Client, Message, Request, ServerSettings, decide

SCHEMA = {
    "type": "object",
    "properties": {"label": {"enum": ["Cancer", "Cardiovascular", "Other"]}, "reason": {"type": "string"}},
    "required": ["label", "reason"],
    "additionalProperties": False,
}


@pytest.fixture
def label() -> Callable[..., Request]:
    """``label(3)``: a chat about note 3 with a schema; keywords are passed on."""

    def make(number: int = 0, **more: Any) -> Request:
        prompt = (Message("system", "You label notes."), Message("user", f"Note {number}: chest pain."))
        return Request(f"r{number}", prompt, **{"schema": SCHEMA, "max_tokens": 100, **more})

    return make


@pytest.fixture
def connect() -> Iterator[Callable[..., tuple[FakeServer, Client]]]:
    """``connect("busy", "well", retries=2)``: a server that behaves so, and an open client of it."""
    with ExitStack() as stack:

        def make(
            *behave: str,
            server: FakeServer | None = None,
            store: Any = None,
            again: bool = False,
            **settings: Any,
        ) -> tuple[FakeServer, Client]:
            served = stack.enter_context(server or FakeServer(behave or ("well",)))
            given = {"base_url": served.base_url, "model": "m", "backoff_seconds": 0.01, **settings}
            chosen = check(ServerSettings, given)
            decision = decide(chosen.base_url, data_use="credentialed")
            return served, stack.enter_context(Client(chosen, decision, store=store, again=again))

        yield make
