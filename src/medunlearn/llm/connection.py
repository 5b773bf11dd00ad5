"""HTTP connection to an OpenAI-compatible server: one attempt gives a reply or a fault.

- Sends only the headers set here: nothing from the environment (no organisation, project, proxy), no telemetry.
- Connects ``localhost`` to 127.0.0.1 or ::1 by number, without name resolution.
- Follows no redirect, and stops reading an answer that is too large or compressed.
- Opens one connection per request. HTTP/1.1 matches answers to requests only by order: on a reused connection, a
  second response to one request would be taken for the answer to the next.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from functools import lru_cache
from typing import Any

import certifi
import httpx

from medunlearn.llm.event_stream import EventStream, StreamError
from medunlearn.llm.faults import AttemptError, clean_words, fault_of_status
from medunlearn.llm.reply import Reply, read_reply
from medunlearn.llm.requests import Message, Request
from medunlearn.llm.server_settings import ServerSettings
from medunlearn.llm.usage import texts_of
from medunlearn.registry import load

LOCALHOST = ("127.0.0.1", "::1")
NOWHERE = "http://127.0.0.1:1/v1"
"""Stands for a server's address in a rehearsal, which opens no connection."""
REHEARSAL_TRANSPORT = "medunlearn.judging.rehearsal:RehearsalTransport"
"""Loaded only for a rehearsal: it draws on the invented texts of :mod:`medunlearn.synthetic`."""
EVENTS, EVENT_BYTES = "text/event-stream", 64
"""Type of a streamed answer; a token of it may take so many times its bytes."""
LONGEST_GAP = 120.0
"""Seconds between two parts of a streamed answer, unless ``read_seconds`` says otherwise."""
NO_ANSWER = "The server answered 200 with a body that is no answer (not JSON, or without choices)."
MID_STREAM = "The server broke off its answer."
_CHARGED: dict[str, Any] = {"again": True, "maybe_charged": True}


class _GapError(httpx.ReadTimeout):
    """A streamed answer that began and did not go on in time."""


def body_of(
    request: Request,
    messages: tuple[Message, ...],
    settings: ServerSettings,
    *,
    enforce: bool,
    refused: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """JSON body of a request.

    Args:
        messages: the conversation so far; empty for a text completion.
        enforce: let the server enforce the schema.
        refused: field of the request -> number of its values that the server refused.
    """
    body: dict[str, Any] = {"model": settings.model, settings.limit_name: request.max_tokens, **settings.extra}
    for name, values in request.fields.items():
        if left := values[(refused or {}).get(name, 0) :]:
            body[name] = left[0]
    optional: dict[str, Any] = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.sent_seed,
        "stop": list(request.stop) or None,
    }
    if isinstance(request.prompt, str):
        optional |= {"logprobs": request.log_probs, "echo": request.echo or None, "prompt": request.prompt}
    else:
        optional["messages"] = [{"role": message.role, "content": message.content} for message in messages]
        if request.log_probs is not None:
            optional |= {"logprobs": True, "top_logprobs": request.log_probs}
        if request.schema is not None and enforce:
            schema = {"name": "answer", "schema": dict(request.schema), "strict": True}
            named_schema = {"json_schema": schema} if settings.structured != "json_object" else {}
            optional["response_format"] = {"type": settings.structured, **named_schema}
    return body | {name: value for name, value in optional.items() if value is not None}


class Connection:
    """Connections to one server in one event loop; a proxy is used only for servers off this machine.

    Raises:
        ConfigError: the variable with the key is not set.
    """

    def __init__(self, settings: ServerSettings, *, on_this_machine: bool) -> None:
        self._settings, self._here = settings, on_this_machine
        self._secret = settings.api_key()
        headers = {
            "accept": f"application/json, {EVENTS}",
            "accept-encoding": "identity",
            "user-agent": "medunlearn",
            "connection": "close",
        }
        if self._secret is not None:
            headers["authorization"] = f"Bearer {self._secret}"
        self._client = httpx.AsyncClient(
            headers=headers,
            verify=_ssl_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
            proxy=None if on_this_machine else settings.proxy,
            trust_env=False,
            follow_redirects=False,
            transport=load(REHEARSAL_TRANSPORT)() if settings.rehearsed else None,
            timeout=httpx.Timeout(
                settings.read_seconds or settings.total_seconds, connect=settings.connect_seconds, pool=None
            ),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def send(self, body: Mapping[str, Any], sent: Callable[[], None] = lambda: None) -> Reply:
        """Make one attempt; raises AttemptError without an answer. ``sent`` is called once the request is sent."""
        url = httpx.URL(NOWHERE if self._settings.rehearsed else self._settings.base_url)
        end = "/chat/completions" if "messages" in body else "/completions"
        url = url.copy_with(path=url.path.rstrip("/") + end)
        try:
            async with asyncio.timeout(self._settings.total_seconds):
                status, headers, content = await self._post(url, json.dumps(body).encode(), sent)
        except httpx.ConnectTimeout:
            limit = f"llm.connect_seconds is {self._settings.connect_seconds:g}"
            reason = f"The server takes no connection in time ({limit})."
            raise AttemptError(reason, again=True, overload=True) from None
        except (httpx.TimeoutException, TimeoutError) as error:
            raise self._late(error) from None
        except httpx.ConnectError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                reason = (
                    "The server's certificate is not trusted. Name the file of its authority in the environment "
                    "variable SSL_CERT_FILE."
                )
                raise AttemptError(reason, ends_run=True, permanent=True) from None
            reason = "The server cannot be reached: is it running, and is base_url right?"
            raise AttemptError(reason, again=True) from None
        except httpx.RequestError as error:
            reason = f"Connection closed before the response was complete ({type(error).__name__})."
            raise AttemptError(reason, again=True, maybe_charged=True) from None
        if not 200 <= status < 300:
            assert isinstance(content, bytes)  # only a success is streamed
            words = clean_words(_json_or_text(content), "\n".join(texts_of(body)), self._secret)
            raise fault_of_status(status, headers, words, self._settings.model)
        return self._reply(content, body)

    def _late(self, error: Exception) -> AttemptError:
        """The fault of an answer that did not come in time; names the setting."""
        settings, name, seconds = self._settings, "total_seconds", self._settings.total_seconds
        if isinstance(error, httpx.ReadTimeout) and (settings.read_seconds or isinstance(error, _GapError)):
            name, seconds = "read_seconds", settings.read_seconds or LONGEST_GAP
        what = "go on with its answer" if isinstance(error, _GapError) else "answer"
        reason = (
            f"The server did not {what} in time (llm.{name} is {seconds:g}). If it is slow, raise that, or lower "
            f"llm.concurrency ({settings.concurrency})."
        )
        return AttemptError(reason, again=True, maybe_charged=True, overload=True)

    async def _post(
        self, url: httpx.URL, content: bytes, sent: Callable[[], None]
    ) -> tuple[int, httpx.Headers, bytes | EventStream]:
        hosts = LOCALHOST if self._here and url.host == "localhost" else (url.host,)
        for host in hosts:
            # Host and certificate of https://localhost are those of the name, not of the number.
            request = self._client.build_request(
                "POST",
                url.copy_with(host=host),
                content=_body_stream(content, sent),
                headers={
                    "content-type": "application/json",
                    "content-length": str(len(content)),
                    "host": url.netloc.decode(),
                },
                extensions={"sni_hostname": url.host},
            )
            try:
                response = await self._client.send(request, stream=True)
            except httpx.ConnectError:
                if host == hosts[-1]:
                    raise
                continue
            try:
                return response.status_code, response.headers, await self._content(response)
            finally:
                await response.aclose()
        raise AssertionError("there is always a host")

    async def _content(self, response: httpx.Response) -> bytes | EventStream:
        """The whole body; of a streamed answer its reader."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise _unread_error("it is compressed, though that was not asked for")
        most = self._settings.largest_answer_bytes
        if response.is_success and response.headers.get("content-type", "").startswith(EVENTS):
            return await self._events(response, most)
        content = bytearray()
        async for part in response.aiter_raw():
            content += part
            if len(content) > most:
                raise _unread_error(f"it has more than {most} bytes (llm.largest_answer_bytes)")
        return bytes(content)

    async def _events(self, response: httpx.Response, most: int) -> EventStream:
        events, raw, parts = EventStream(), 0, response.aiter_raw()
        gap = self._settings.read_seconds or LONGEST_GAP
        while True:
            try:
                async with asyncio.timeout(gap):
                    part = await anext(parts, None)
            except (TimeoutError, httpx.ReadTimeout):
                raise _GapError("no event in time") from None
            if part is None:
                return events
            raw += len(part)
            try:
                events.feed(part)
            except StreamError as error:
                words = clean_words(_json_or_text(str(error).encode()), "", self._secret)
                raise AttemptError(f'{MID_STREAM} The server says: "{words}"', **_CHARGED) from None
            except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
                raise AttemptError(NO_ANSWER, **_CHARGED) from None
            if max(events.size, raw // EVENT_BYTES) > most:
                raise _unread_error(f"it has more than {most} bytes (llm.largest_answer_bytes)")

    def _reply(self, content: bytes | EventStream, body: Mapping[str, Any]) -> Reply:
        streamed = isinstance(content, EventStream)
        try:
            answer = content.answer() if isinstance(content, EventStream) else json.loads(content)
            if answer is None:
                raise AttemptError("The stream of the answer ended before it was complete.", **_CHARGED)
            return read_reply(answer, body, self._settings.price, streamed=streamed)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError):
            raise AttemptError(NO_ANSWER, **_CHARGED) from None


async def _body_stream(content: bytes, sent: Callable[[], None]) -> AsyncIterator[bytes]:
    """Body of a request; httpx asks for the next part once one is written, and then ``sent`` is called."""
    yield content
    sent()


@lru_cache(maxsize=4)
def _ssl_context(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Trusted certificates, one context for all clients, since loading them is slow.

    OpenSSL reads the environment variables ``file`` and ``folder`` when the context is created.
    """
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def _unread_error(why: str) -> AttemptError:
    return AttemptError(f"The answer was not read: {why}.", again=True, maybe_charged=True)


def _json_or_text(content: bytes) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content.decode(errors="replace")
