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


def body_of(
    request: Request, messages: tuple[Message, ...], settings: ServerSettings, *, enforce: bool
) -> dict[str, Any]:
    """JSON body of a request.

    Args:
        messages: the conversation so far; empty for a text completion.
        enforce: let the server enforce the schema.
    """
    body: dict[str, Any] = {"model": settings.model, settings.limit_name: request.max_tokens, **settings.extra}
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
            "accept": "application/json",
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
            limit = f"connect_seconds is {self._settings.connect_seconds:g}"
            raise AttemptError(f"The server takes no connection in time ({limit}).", again=True) from None
        except (httpx.TimeoutException, TimeoutError) as error:
            name = "read_seconds" if isinstance(error, httpx.ReadTimeout) and self._settings.read_seconds else ""
            limit = f"{name or 'total_seconds'} is {getattr(self._settings, name or 'total_seconds'):g}"
            reason = (
                f"The server did not answer in time ({limit}). If it is slow, raise that, or lower concurrency "
                f"({self._settings.concurrency})."
            )
            raise AttemptError(reason, again=True, maybe_charged=True) from None
        except httpx.ConnectError:
            reason = "The server cannot be reached: is it running, and is base_url right?"
            raise AttemptError(reason, again=True) from None
        except httpx.RequestError as error:
            reason = f"Connection closed before the response was complete ({type(error).__name__})."
            raise AttemptError(reason, again=True, maybe_charged=True) from None
        if not 200 <= status < 300:
            words = clean_words(_json_or_text(content), "\n".join(texts_of(body)), self._secret)
            raise fault_of_status(status, headers, words, self._settings.model)
        return self._reply(content, body)

    async def _post(
        self, url: httpx.URL, content: bytes, sent: Callable[[], None]
    ) -> tuple[int, httpx.Headers, bytes]:
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

    async def _content(self, response: httpx.Response) -> bytes:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise _unread_error("it is compressed, though that was not asked for")
        content, most = bytearray(), self._settings.largest_answer_bytes
        async for part in response.aiter_raw():
            content += part
            if len(content) > most:
                raise _unread_error(f"it has more than {most} bytes (largest_answer_bytes)")
        return bytes(content)

    def _reply(self, content: bytes, body: Mapping[str, Any]) -> Reply:
        try:
            return read_reply(json.loads(content), body, self._settings.price)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError):
            reason = "The server answered 200 with a body that is no answer (not JSON, or without choices)."
            raise AttemptError(reason, again=True, maybe_charged=True) from None


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
