"""A server's reply: its text, why it ended, and all else that the server says of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medunlearn.llm.requests import LogProbs, ReplyDetails
from medunlearn.llm.usage import Usage, likely_tokens, texts_of, usage_of

_TEXT_PARTS = ("text", "output_text")
_UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")
_FEW_WORDS, _LEAST_SHARE = 16, 0.6
_FILTERED = "content_filter"


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply to one attempt; ``refusal``: the model or the server's filter declined."""

    text: str = field(repr=False)
    finish_reason: str
    refusal: bool
    usage: Usage
    served_model: str
    system_fingerprint: str
    log_probs: LogProbs | None = None
    details: ReplyDetails = field(default_factory=ReplyDetails)
    streamed: bool = False


def read_reply(
    answer: Mapping[str, Any], body: Mapping[str, Any], price: tuple[float, float] | None, *, streamed: bool = False
) -> Reply:
    """The reply in the JSON of an answer.

    Args:
        body: the request's.
        price: per million prompt tokens and per million answer tokens.

    Raises:
        KeyError, IndexError, TypeError, AttributeError, ValueError: it is no answer.
    """
    choice, chat = answer["choices"][0], "messages" in body
    finish = str(choice.get("finish_reason") or "")
    message = choice["message"] if "message" in choice else {"content": choice["text"]}
    text, content = _text_of(message.get("content"))
    refusal = _words(message.get("refusal"))
    counts = answer.get("usage") or {}
    prompt, completion = (_count(counts.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    return Reply(
        text=text,
        finish_reason=finish,
        refusal=finish == _FILTERED or bool(refusal),
        usage=_usage(prompt, completion, text, body, price),
        served_model=str(answer.get("model") or ""),
        system_fingerprint=str(answer.get("system_fingerprint") or ""),
        log_probs=_log_probs(choice.get("logprobs"), chat),
        details=ReplyDetails(
            content=content,
            reasoning=_words(message.get("reasoning_content") or message.get("reasoning")),
            refusal=refusal,
            tool_calls=len(message.get("tool_calls") or ()) + bool(message.get("function_call")),
            # Zero stands for a count that the server does not make.
            prompt_tokens=prompt or None,
            completion_tokens=completion,
        ),
        streamed=streamed,
    )


def shortened(counted: int | None, texts: Sequence[str]) -> str:
    """Sign that a prompt did not arrive whole: far fewer tokens by the server than words; empty if it may have.

    A word takes at least a token, and four letters of a script without spaces at least one.

    Args:
        counted: tokens of the prompt by the server; None if it does not count.
    """
    least = sum(len(text.split()) + len(_UNSPACED.findall(text)) // 4 for text in texts)
    if counted is None or least < _FEW_WORDS or counted >= _LEAST_SHARE * least:
        return ""
    return (
        f"The prompt did not arrive whole: it has {least} words, and the server counted {counted} tokens of it. "
        "Raise the server's context (llama.cpp: --ctx-size, divided by --parallel; Ollama: num_ctx; vLLM: "
        "--max-model-len), or send shorter prompts."
    )


def why_no_text(reply: Reply, limit_name: str, limit: int) -> str:
    """Reason for which a reply has no text, with a fix where there is one; empty if nothing says it."""
    details = reply.details
    if details.tool_calls:
        return "the server sent a call of a tool instead of an answer"
    if details.reasoning and reply.finish_reason == "length":
        return f"reasoning alone came before the limit of {limit} tokens: raise {limit_name}"
    if details.reasoning:
        return "the server sent reasoning alone, and no answer"
    return "its text is null" if details.content == "null" else ""


def _words(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _text_of(content: object) -> tuple[str, str]:
    """Text of a message's content, and its form (:class:`~medunlearn.llm.requests.ReplyDetails`)."""
    if content is None:
        return "", "null"
    if isinstance(content, list):
        content = "".join(str(part["text"]) for part in content if part.get("type") in _TEXT_PARTS)
    if not isinstance(content, str):
        raise TypeError("content is not a text")
    content.encode()  # half a surrogate pair cannot be stored; UnicodeEncodeError is a ValueError
    return content, "text" if content.strip() else "empty"


def _usage(
    prompt: int | None,
    completion: int | None,
    text: str,
    body: Mapping[str, Any],
    price: tuple[float, float] | None,
) -> Usage:
    """Usage as counted by the server; else estimated and marked as such."""
    estimated = 0
    if prompt is None:
        prompt = likely_tokens(texts_of(body))
        estimated += prompt
    if completion is None:
        completion = likely_tokens([text])
        estimated += completion
    return usage_of(price, prompt, completion, estimated)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


def _log_probs(content: Any, chat: bool) -> LogProbs | None:
    if not content:
        return None
    if chat:
        pairs = [(str(token["token"]), float(token["logprob"])) for token in content.get("content") or []]
        return LogProbs(tuple(token for token, _ in pairs), tuple(value for _, value in pairs))
    values = tuple(None if value is None else float(value) for value in content["token_logprobs"])
    tokens = tuple(str(token) for token in content["tokens"])
    if len(tokens) != len(values):
        raise ValueError("tokens and log-probabilities differ in number")
    return LogProbs(tokens, values, tuple(int(offset) for offset in content.get("text_offset") or ()))
