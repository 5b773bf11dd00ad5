"""Chats with a schema, for tests of the client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from medunlearn.llm import Message, Request

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
