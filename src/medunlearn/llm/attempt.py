"""One attempt: a request's body to the server, and what came back as a reply or a fault."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from medunlearn.llm.faults import AttemptError, clean_words, fault_of_status
from medunlearn.llm.requests import LogProbs, Message, Request
from medunlearn.llm.settings import ServerSettings
from medunlearn.llm.usage import Usage, likely_tokens, priced, texts_of
from medunlearn.llm.wire import TooMuchError, openai_client


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said.

    Attributes:
        text: the answer; empty where there is none.
        refusal: the model, or the server's filter, said no.
        usage: of this attempt.
    """

    text: str = field(repr=False)
    finish_reason: str
    refusal: bool
    usage: Usage
    served_model: str
    system_fingerprint: str
    log_probs: LogProbs | None = None


def body_of(
    request: Request, messages: tuple[Message, ...], settings: ServerSettings, *, enforce: bool
) -> dict[str, Any]:
    """What is sent.

    Args:
        messages: the conversation so far; empty for a text to go on from.
        enforce: ask the server to enforce the schema.
    """
    body: dict[str, Any] = {"model": settings.model, settings.limit_name: request.max_tokens, **settings.extra}
    sampling = {"temperature": request.temperature, "top_p": request.top_p, "seed": request.sent_seed}
    body |= {name: value for name, value in sampling.items() if value is not None}
    if request.stop:
        body["stop"] = list(request.stop)
    if isinstance(request.prompt, str):
        asked = {"logprobs": request.log_probs, "echo": request.echo or None}
        return (
            body | {name: value for name, value in asked.items() if value is not None} | {"prompt": request.prompt}
        )
    if request.log_probs is not None:
        body |= {"logprobs": True, "top_logprobs": request.log_probs}
    if request.schema is not None and enforce:
        body["response_format"] = _response_format(request.schema, settings.structured)
    return body | {"messages": [{"role": message.role, "content": message.content} for message in messages]}


def _response_format(schema: Mapping[str, Any], way: str) -> dict[str, Any]:
    if way == "json_object":
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema), "strict": True}}


class Server:
    """A connection to one server; lives in the event loop that made it.

    Args:
        settings: of the server.
        on_this_machine: what the guard found.
    """

    def __init__(self, settings: ServerSettings, *, on_this_machine: bool) -> None:
        self._settings = settings
        self._secret = settings.api_key()
        self._client = openai_client(settings, on_this_machine=on_this_machine, secret=self._secret)

    async def close(self) -> None:
        await self._client.close()

    async def send(self, body: Mapping[str, Any]) -> Reply:
        """One attempt.

        Raises:
            AttemptError: it brought no answer.
        """
        import httpx
        import openai

        path = "/chat/completions" if "messages" in body else "/completions"
        try:
            async with asyncio.timeout(self._settings.total_seconds):
                # The library's general call: its typed ones rewrite each message, and servers know more fields.
                answer = await self._client.post(path, body=dict(body), cast_to=httpx.Response)
        except openai.APIStatusError as error:
            raise self._status(error, body) from None
        except (openai.APITimeoutError, TimeoutError):
            raise AttemptError("The server did not answer in time.", again=True, maybe_charged=True) from None
        except openai.APIConnectionError as error:
            raise _connection(error.__cause__) from None
        return self._reply(answer.content, body)

    def _status(self, error: Any, body: Mapping[str, Any]) -> AttemptError:
        words = clean_words(error.body, "\n".join(texts_of(body)), self._secret)
        return fault_of_status(error.status_code, error.response.headers, words, self._settings.model)

    def _reply(self, content: bytes, body: Mapping[str, Any]) -> Reply:
        try:
            answer = json.loads(content)
            usage = self._usage(answer, body)
            return _read(answer, "messages" in body, usage)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError):
            reason = "The server answered 200 with a body that is no answer (not JSON, or without choices)."
            raise AttemptError(reason, again=True, maybe_charged=True) from None

    def _usage(self, answer: Mapping[str, Any], body: Mapping[str, Any]) -> Usage:
        """As the server counted; where it did not, estimated and marked so."""
        counted = answer.get("usage") or {}
        prompt, said = (_count(counted.get(name)) for name in ("prompt_tokens", "completion_tokens"))
        estimated = 0
        if prompt is None:
            prompt = likely_tokens(texts_of(body))
            estimated += prompt
        if said is None:
            said = likely_tokens([_text_of(answer["choices"][0])])
            estimated += said
        return priced(self._settings.price, prompt, said, estimated)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**40 else None


def _connection(cause: BaseException | None) -> AttemptError:
    import httpx

    if isinstance(cause, TooMuchError):
        return AttemptError(f"The answer was not read: {cause}.", again=True, maybe_charged=True)
    if isinstance(cause, httpx.ConnectError):
        return AttemptError("The server cannot be reached: is it running, and is base_url right?", again=True)
    kind = type(cause).__name__ if cause else "unknown"
    return AttemptError(
        f"The connection broke before the answer was whole ({kind}).", again=True, maybe_charged=True
    )


def _text_of(choice: Mapping[str, Any]) -> str:
    text = choice["message"].get("content") if "message" in choice else choice["text"]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise TypeError("content is not a text")
    text.encode()  # half a surrogate pair cannot be stored; UnicodeEncodeError is a ValueError
    return text


def _read(answer: Mapping[str, Any], chat: bool, usage: Usage) -> Reply:
    choice = answer["choices"][0]
    finish = str(choice.get("finish_reason") or "")
    return Reply(
        text=_text_of(choice),
        finish_reason=finish,
        refusal=finish == "content_filter" or bool(chat and choice["message"].get("refusal")),
        usage=usage,
        served_model=str(answer.get("model") or ""),
        system_fingerprint=str(answer.get("system_fingerprint") or ""),
        log_probs=_log_probs(choice.get("logprobs"), chat),
    )


def _log_probs(found: Any, chat: bool) -> LogProbs | None:
    if not found:
        return None
    if chat:
        tokens = found.get("content") or []
        return LogProbs(tuple(str(one["token"]) for one in tokens), tuple(float(one["logprob"]) for one in tokens))
    values = tuple(None if value is None else float(value) for value in found["token_logprobs"])
    tokens = tuple(str(token) for token in found["tokens"])
    if len(tokens) != len(values):
        raise ValueError("tokens and log-probabilities differ in number")
    return LogProbs(tokens, values, tuple(int(offset) for offset in found.get("text_offset") or ()))
