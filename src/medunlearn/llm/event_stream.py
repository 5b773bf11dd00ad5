"""Streamed answers: server-sent events, put together to the JSON of an answer that comes whole.

Source: WHATWG HTML, Section 9.2 (event streams); the chunks are those of OpenAI's API reference.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")
_ABOUT = ("id", "model", "system_fingerprint", "usage")
_DONE = b"[DONE]"


class StreamError(Exception):
    """The server reported an error within the stream."""


class EventStream:
    """Reader of one streamed answer.

    Attributes:
        size: bytes of the answer's texts so far.
    """

    def __init__(self) -> None:
        self.size = 0
        self._line = bytearray()
        self._about: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        self._tools: set[int] = set()
        self._chat = False
        self._finish = ""
        self._begun = self._done = False

    def feed(self, part: bytes) -> None:
        """Read further bytes.

        Raises:
            StreamError: the server's error, in its words.
            KeyError, TypeError, AttributeError, ValueError: an event is no part of an answer.
        """
        self._line += part
        *lines, rest = self._line.split(b"\n")
        self._line = bytearray(rest)
        for line in lines:
            self._read(bytes(line))

    def answer(self) -> dict[str, Any] | None:
        """The whole answer; None if the stream ended before it was complete."""
        self._read(bytes(self._line))
        self._line.clear()
        if not self._begun or not (self._finish or self._done):
            return None
        texts = {name: "".join(parts) for name, parts in self._texts.items()}
        choice: dict[str, Any] = {"finish_reason": self._finish or None}
        if self._chat:
            message: dict[str, Any] = {"content": None, **texts, "tool_calls": sorted(self._tools)}
            choice["message"] = message
        else:
            choice["text"] = texts.get("text", "")
        return {**self._about, "choices": [choice]}

    def _read(self, line: bytes) -> None:
        if not line.startswith(b"data:"):
            return
        data = line[5:].strip()
        if data == _DONE:
            self._done = True
        elif data:
            self._event(json.loads(data))

    def _event(self, event: Mapping[str, Any]) -> None:
        if event.get("error"):
            raise StreamError(json.dumps({"error": event["error"]}))
        self._about |= {name: event[name] for name in _ABOUT if event.get(name)}
        for choice in event.get("choices") or ():
            if choice.get("index", 0):
                continue
            self._begun = True
            self._finish = str(choice.get("finish_reason") or self._finish)
            if "delta" in choice or "message" in choice:
                self._chat = True
                self._delta(choice.get("delta") or choice.get("message") or {})
            else:
                self._add("text", choice.get("text") or "")

    def _delta(self, delta: Mapping[str, Any]) -> None:
        for name in _TEXTS:
            if isinstance(delta.get(name), str):
                self._add(name, delta[name])
        tools = delta.get("tool_calls") or ([{}] if delta.get("function_call") else [])
        self._tools |= {int(tool.get("index") or 0) + 1 for tool in tools}

    def _add(self, name: str, text: str) -> None:
        self._texts.setdefault(name, []).append(text)
        self.size += len(text.encode("utf-8", "surrogatepass"))
