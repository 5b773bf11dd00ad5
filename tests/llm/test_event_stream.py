"""Streamed answers become the JSON of whole ones, however their bytes are divided."""

from __future__ import annotations

import json
from typing import Any

import pytest

from medunlearn.llm.event_stream import EventStream, StreamError
from medunlearn.llm.reply import read_reply


def lines(*events: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\r\n\r\n" for event in events)


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


CHAT = lines(
    chunk(role="assistant", content=""),
    chunk(reasoning_content="Let me "),
    chunk(reasoning_content="see."),
    chunk(content="Été"),
    chunk(content=" chaud"),
    {"model": "m", "choices": [{"index": 1, "delta": {"content": "another"}}]},
    chunk("stop"),
    {"model": "m", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}},
)


@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_a_chat_is_put_together(size: int) -> None:
    stream, content = EventStream(), b": ping\n\n" + CHAT + b"data: [DONE]\n\n"
    for at in range(0, len(content), size):
        stream.feed(content[at : at + size])
    answer = stream.answer()
    assert answer is not None
    reply = read_reply(answer, {"messages": []}, None, streamed=True)
    assert (reply.text, reply.finish_reason, reply.served_model) == ("Été chaud", "stop", "m")
    assert (reply.details.reasoning, reply.details.content) == ("Let me see.", "text")
    assert (reply.details.prompt_tokens, reply.usage.answer_tokens) == (7, 5)


def test_a_completion_a_tool_and_nothing() -> None:
    stream = EventStream()
    stream.feed(lines({"choices": [{"text": "a "}]}, {"choices": [{"text": "b", "finish_reason": "length"}]}))
    assert stream.answer() == {"choices": [{"finish_reason": "length", "text": "a b"}]}
    stream = EventStream()
    tool = {"index": 0, "function": {"name": "f"}}
    stream.feed(lines(chunk(tool_calls=[tool]), chunk(tool_calls=[tool]), chunk("tool_calls")))
    reply = read_reply(stream.answer() or {}, {"messages": []}, None)
    assert (reply.details.tool_calls, reply.details.content, reply.text) == (1, "null", "")
    stream = EventStream()
    stream.feed(lines(chunk(content="half")))
    assert stream.answer() is None


def test_an_error_in_the_stream_is_the_servers() -> None:
    with pytest.raises(StreamError, match="out of memory"):
        EventStream().feed(lines(chunk(content="a"), {"error": {"message": "out of memory"}}))
