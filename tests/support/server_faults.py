"""Ways in which a server, the network or a model goes wrong, by name."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any


@dataclass(frozen=True)
class Answer:
    """Bytes for the wire, whether the connection goes on after them, and a second response that nobody asked for.

    The surplus is sent so many seconds after the content (0: in one packet with it), or just before the answer to
    the connection's next request (None).
    """

    content: bytes
    stays_open: bool = True
    surplus: bytes = b""
    surplus_after: float | None = 0.0
    stalls: bool = False  # nothing comes after the content, and the connection stays open


HANG, CLOSE = Answer(b""), Answer(b"", stays_open=False)

# What `share_of_faults` draws from: everything that a repeat can mend, but for hanging, which takes its time.
FAULTS = (
    "busy", "error_500", "error_503", "reset", "half_closed", "not_json", "no_choices", "truncated", "wrong_schema",
    "duplicate_keys", "prose_only", "prose_around", "fence", "thinking", "no_usage", "empty", "error_in_200",
    "half_surrogate", "two_values", "cut_off", "twice", "twice_soon", "twice_late", "twice_next",
)  # fmt: skip


def respond(behaviour: str, body: dict[str, Any], said: str) -> Answer:
    """Response to a request.

    Args:
        behaviour: ``well``, or a name below.
        body: the request's.
        said: what the model would say.
    """
    if behaviour in _WHOLE:
        return _WHOLE[behaviour](body, said)
    change = _TEXT[behaviour]
    return http(200, completion(body, change(said)))


def completion(body: dict[str, Any], text: str | None, finish: str = "stop", **more: Any) -> dict[str, Any]:
    """A well-formed answer; a token is four characters here."""
    prompt = (
        str(body["prompt"]) if "prompt" in body else "".join(message["content"] for message in body["messages"])
    )
    counts = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text or "") // 4}
    said = {"text": text} if "prompt" in body else {"message": {"role": "assistant", "content": text}}
    choice = {"index": 0, "finish_reason": finish, **said, **_log_probs(body, prompt, text or "")}
    usage = counts | {"total_tokens": sum(counts.values())}
    return {
        "id": "pretend",
        "model": body["model"],
        "system_fingerprint": "pretend-1",
        "choices": [choice],
        "usage": usage,
        **more,
    }


def _log_probs(body: dict[str, Any], prompt: str, text: str) -> dict[str, Any]:
    if body.get("logprobs") is None:
        return {}
    if "prompt" not in body:
        return {"logprobs": {"content": [{"token": word, "logprob": -0.5} for word in text.split()]}}
    tokens = ((prompt + text) if body.get("echo") else text).split(" ")
    offsets = [sum(len(token) + 1 for token in tokens[:place]) for place in range(len(tokens))]
    values = [None if body.get("echo") and not place else -0.25 * place for place in range(len(tokens))]
    return {"logprobs": {"tokens": tokens, "token_logprobs": values, "text_offset": offsets}}


def http(status: int, body: Any, headers: dict[str, str] | None = None) -> Answer:
    """An HTTP/1.1 answer; ``body`` is JSON, or bytes as they are."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"Content-Type": "application/json", "Content-Length": str(len(content)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return Answer(f"HTTP/1.1 {status} -\r\n{head}\r\n".encode() + content)


def events(
    body: dict[str, Any], text: str, finish: str | None = "stop", *, usage: bool = True, **how: Any
) -> Answer:
    """A streamed answer in chunks of seven characters.

    Args:
        finish: None leaves the end out, as a connection that breaks does.
        how: ``error`` (the server's words, sent instead of the end), ``stalls`` (nothing comes after the chunks).
    """
    chat = "messages" in body
    pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
    chunks = [{"delta": {"content": piece}} if chat else {"text": piece} for piece in pieces]
    if finish is not None:
        chunks.append({"finish_reason": finish, **({"delta": {}} if chat else {"text": ""})})
    lines = [{"model": body["model"], "choices": [{"index": 0, **chunk}]} for chunk in chunks]
    if finish is not None and usage:
        lines.append({"choices": [], "usage": completion(body, text)["usage"]})
    if how.get("error"):
        lines.append({"error": {"message": how["error"]}})
    content = "".join(f"data: {json.dumps(line)}\n\n" for line in lines)
    content += "" if finish is None else "data: [DONE]\n\n"
    head = "HTTP/1.1 200 -\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    return Answer((head + content).encode(), stays_open=False, stalls=bool(how.get("stalls")))


def _error(status: int, message: str, headers: dict[str, str] | None = None, **more: str) -> Callable[..., Answer]:
    return lambda body, said: http(status, {"error": {"message": message, **more}}, headers)


def _half_closed(body: dict[str, Any], said: str) -> Answer:
    whole = http(200, completion(body, said)).content
    return Answer(whole[: len(whole) - 20], stays_open=False)


def _date(body: dict[str, Any], said: str) -> Answer:
    when = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    return http(429, {"error": {"message": "slow down"}}, {"Retry-After": when})


def _gzip(body: dict[str, Any], said: str) -> Answer:
    content = gzip.compress(json.dumps(completion(body, "a" * 10_000_000)).encode())
    return http(200, content, {"Content-Encoding": "gzip"})


def _twice(after: float | None) -> Callable[..., Answer]:
    def answer(body: dict[str, Any], said: str) -> Answer:
        content = http(200, completion(body, said)).content
        return Answer(content, surplus=content, surplus_after=after)

    return answer


def _no_usage(body: dict[str, Any], said: str) -> Answer:
    whole = completion(body, said)
    del whole["usage"]
    return http(200, whole)


def _no_schema(body: dict[str, Any], said: str) -> Answer:
    if "response_format" in body:
        return http(400, {"error": {"message": "response_format is not supported by this model"}})
    return http(200, completion(body, said))


def _no_schema_500(body: dict[str, Any], said: str) -> Answer:
    """llama-cpp-python's refusal."""
    if "response_format" in body:
        return http(500, {"error": {"message": "[{'loc': ('body', 'response_format', 'type')}]"}})
    return http(200, completion(body, said))


def _parrot(body: dict[str, Any], said: str) -> Answer:
    return http(400, {"error": {"message": f"cannot make sense of: {body['messages'][-1]['content']}"}})


_LONG = "This model's maximum context length is 4096 tokens."
TWICE = ("twice", "twice_soon", "twice_late", "twice_next")
_WHOLE: dict[str, Callable[[dict[str, Any], str], Answer]] = {
    "busy": _error(429, "slow down", {"retry-after-ms": "20"}),
    "busy_1s": _error(429, "slow down", {"Retry-After": "1"}),
    "busy_date": _date,
    "busy_hours": _error(429, "come back tomorrow", {"Retry-After": "36000"}),
    "no_money": _error(429, "You exceeded your quota.", code="insufficient_quota"),
    "error_500": _error(500, "internal error"),
    "error_503": _error(503, "overloaded"),
    "unauthorized": _error(401, "bad key"),
    "no_model": _error(404, "no such model"),
    "context_length": _error(400, _LONG),
    "bad_request": _error(400, "temperature is not supported"),
    "elsewhere": lambda body, said: http(307, b"", {"Location": "http://198.51.100.7/v1/chat/completions"}),
    "error_in_200": lambda body, said: http(200, {"error": {"message": "the engine died"}}),
    "parrot": _parrot,
    "no_schema": _no_schema,
    "no_schema_500": _no_schema_500,
    "hang": lambda body, said: HANG,
    "reset": lambda body, said: CLOSE,
    "half_closed": _half_closed,
    "not_json": lambda body, said: http(200, b"<html>gateway</html>"),
    "no_choices": lambda body, said: http(200, {"choices": []}),
    "huge": lambda body, said: http(200, completion(body, "a" * 10_000_000)),
    "gzip": _gzip,
    "no_usage": _no_usage,
    "odd_usage": lambda body, said: http(
        200, completion(body, said, usage={"prompt_tokens": -5, "completion_tokens": "7"})
    ),
    "half_surrogate": lambda body, said: http(200, completion(body, said + "\ud800")),
    "cut_off": lambda body, said: http(200, completion(body, said[: len(said) // 2], "length")),
    "twice": _twice(0.0),
    "twice_soon": _twice(0.001),
    "twice_late": _twice(0.02),
    "twice_next": _twice(None),
    "refusal": lambda body, said: http(200, completion(body, None, "content_filter")),
}
_TEXT: dict[str, Callable[[str], str]] = {
    "well": lambda said: said,
    "empty": lambda said: "",
    "truncated": lambda said: said[: max(len(said) // 2, 1)],
    "wrong_schema": lambda said: '{"something": "else"}',
    "duplicate_keys": lambda said: (
        "{" + ", ".join(['"again": 1, "again": 2', *([said[1:-1]] if said[:1] == "{" else [])]) + "}"
    ),
    "prose_only": lambda said: "I would say that it is cardiovascular.",
    "prose_around": lambda said: f"Sure! Here is the JSON [1]:\n{said}\nLet me know if {{you}} need more.",
    "two_values": lambda said: f"{said}\nor perhaps\n{said}",
    "fence": lambda said: f"Here:\n```json\n{said}\n```",
    "thinking": lambda said: f'<think>maybe {{"a": 1}}?</think>\n{said}',
    "constant": lambda said: '{"score": NaN}',
    "deep": lambda said: '{"a":' * 20_000,
}
