"""The way to the server: what is sent, where it may go, and how much of an answer is read.

Underneath is the ``openai`` client with its own retries off. It speaks through a transport of ours, which is the
one place that

- sends the few headers it knows (no organisation, project or custom header from the environment, no telemetry),
- connects ``localhost`` to 127.0.0.1 or ::1 by number, asking no resolver,
- takes no proxy from the environment and follows no redirect,
- stops reading an answer that is too large or compressed.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from functools import lru_cache
from typing import Any

import certifi
import httpx

from medunlearn.llm.settings import ServerSettings

HEADERS = ("host", "content-type", "content-length", "transfer-encoding", "accept")
LOCALHOST = ("127.0.0.1", "::1")
_ONE = httpx.Limits(max_connections=1, max_keepalive_connections=1)


class TooMuchError(httpx.TransportError):
    """A body that is larger than the settings allow, or compressed, so that its size cannot be told."""


class Transport(httpx.AsyncBaseTransport):
    """Carries a request as described at the head of this file.

    Args:
        settings: of the server.
        on_this_machine: what the guard found; a proxy is used only where it is False.
        secret: the key, or None.
    """

    def __init__(self, settings: ServerSettings, *, on_this_machine: bool, secret: str | None) -> None:
        self._here = on_this_machine
        self._secret = secret
        self._most = settings.largest_answer_bytes
        self._context = _trusted(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        self._proxy = None if on_this_machine else settings.proxy
        # One connection each: a pool of many looks through all of them for every request.
        self._all: list[httpx.AsyncHTTPTransport] = []
        self._idle: list[httpx.AsyncHTTPTransport] = []

    def _line(self) -> httpx.AsyncHTTPTransport:
        if not self._idle:
            line = httpx.AsyncHTTPTransport(verify=self._context, trust_env=False, proxy=self._proxy, limits=_ONE)
            self._all.append(line)
            self._idle.append(line)
        return self._idle.pop()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        kept = {name: request.headers[name] for name in HEADERS if name in request.headers}
        kept |= {"accept-encoding": "identity", "user-agent": "medunlearn"}
        if self._secret is not None:
            kept["authorization"] = f"Bearer {self._secret}"
        line = self._line()
        try:
            response = await self._carry(line, request, kept)
            assert isinstance(response.stream, httpx.AsyncByteStream)
            stream = _Counted(response.stream, self._most, lambda: self._idle.append(line))
        except BaseException:
            self._idle.append(line)
            raise
        if response.headers.get("content-encoding", "identity") != "identity":
            await stream.aclose()
            raise TooMuchError("it is compressed, though that was not asked for")
        return httpx.Response(response.status_code, headers=response.headers, stream=stream)

    async def _carry(
        self, line: httpx.AsyncHTTPTransport, request: httpx.Request, headers: Mapping[str, str]
    ) -> httpx.Response:
        hosts = LOCALHOST if self._here and request.url.host == "localhost" else (request.url.host,)
        for host in hosts:
            # The certificate of https://localhost is for that name, not for the number.
            extensions = {**request.extensions, "sni_hostname": request.url.host}
            url = request.url.copy_with(host=host)
            # A fresh stream for each try: the first host refused the connection before it was touched.
            sent = httpx.Request(request.method, url, headers=headers, stream=request.stream, extensions=extensions)
            try:
                return await line.handle_async_request(sent)
            except httpx.ConnectError:
                if host == hosts[-1]:
                    raise
        raise AssertionError("there is always a host")

    async def aclose(self) -> None:
        for line in self._all:
            await line.aclose()


@lru_cache(maxsize=4)
def _trusted(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Whose certificates are believed: one for all clients, since reading them takes longer than an answer may.

    Args:
        file, folder: OpenSSL's own variables, which it reads when the context is made.
    """
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


class _Counted(httpx.AsyncByteStream):
    """A body that ends in an error when it grows too large, and gives its line back when it is closed."""

    def __init__(self, stream: httpx.AsyncByteStream, most: int, give_back: Callable[[], None]) -> None:
        self._stream, self._most = stream, most
        self._give_back: Callable[[], None] | None = give_back

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for part in self._stream:
            read += len(part)
            if read > self._most:
                raise TooMuchError(f"it has more than {self._most} bytes (largest_answer_bytes)")
            yield part

    async def aclose(self) -> None:
        give_back, self._give_back = self._give_back, None
        try:
            await self._stream.aclose()
        finally:
            if give_back is not None:
                give_back()


def openai_client(settings: ServerSettings, *, on_this_machine: bool, secret: str | None) -> Any:
    """An ``openai.AsyncOpenAI`` that speaks through :class:`Transport`; made inside the event loop that uses it."""
    # Imported here: it takes half a second, and most commands ask no language model.
    import openai

    _keep_prompts_out_of_logs()
    timeout = httpx.Timeout(settings.read_seconds, connect=settings.connect_seconds, pool=None)
    transport = Transport(settings, on_this_machine=on_this_machine, secret=secret)
    return openai.AsyncOpenAI(
        base_url=settings.base_url,
        # The transport sends the true one; the library never sees it, so it cannot log it.
        api_key="none",
        max_retries=0,
        timeout=timeout,
        http_client=httpx.AsyncClient(
            transport=transport, trust_env=False, follow_redirects=False, timeout=timeout
        ),
    )


def _keep_prompts_out_of_logs() -> None:
    # At level DEBUG the library logs whole requests, and OPENAI_LOG or a root logger may have set that level.
    logger = logging.getLogger("openai._base_client")
    if _above_debug not in logger.filters:
        logger.addFilter(_above_debug)


def _above_debug(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG
