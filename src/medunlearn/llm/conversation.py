"""How a request with a schema or a check is put to a model, and how it is told that its answer cannot be used."""

from __future__ import annotations

import json
from typing import Any

from medunlearn.llm.attempt import Reply
from medunlearn.llm.requests import Message, Request
from medunlearn.llm.structured import UnusableError, read

QUOTED = 2000  # characters of an unusable answer that the model is shown again


def opening(request: Request) -> tuple[Message, ...]:
    """The messages of a chat, with the schema said in words to every server: some ignore the field for it."""
    if isinstance(request.prompt, str):
        return ()
    if request.schema is None:
        return request.prompt
    schema = json.dumps(request.schema, ensure_ascii=False, separators=(",", ":"))
    words = f"\n\nAnswer with one JSON value and nothing around it. It must match this JSON schema:\n{schema}"
    *before, last = request.prompt
    return (*before, Message(last.role, last.content + words))


def corrected(messages: tuple[Message, ...], reply: Reply, reason: str) -> tuple[Message, ...]:
    """The conversation with an unusable answer and the reason at its end.

    An unusable text to go on from has no conversation; it is asked again as it was.
    """
    if not messages:
        return ()
    ask = f"This answer cannot be used: {reason}. Give the whole answer again, corrected, in the form asked for."
    return (*messages, Message("assistant", reply.text[:QUOTED] or "(nothing)"), Message("user", ask))


def accept(request: Request, text: str, finish_reason: str) -> Any:
    """The value of an answer: parsed where there is a schema, else None; checked either way.

    Raises:
        UnusableError: why it is no answer.
    """
    if request.schema is None:
        if not isinstance(request.prompt, str) and not text.strip():
            raise UnusableError("it is empty")
        _check(request, text)
        return None
    try:
        value = read(text, request.schema)
    except UnusableError as error:
        if finish_reason == "length":
            raise UnusableError(f"it was cut off at {request.max_tokens} tokens, so be shorter ({error})") from None
        raise
    _check(request, value)
    return value


def _check(request: Request, value: Any) -> None:
    reason = request.check(value) if request.check else None
    if reason:
        raise UnusableError(reason)
