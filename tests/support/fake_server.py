"""Fake OpenAI-compatible server over real HTTP on the loopback interface.

It misbehaves on demand: :mod:`server_faults` names how.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from server_faults import CLOSE, FAULTS, HANG, Answer, respond

from medunlearn.judging.rehearsal import drawn_value, rehearse, schema_of
from medunlearn.seeds import generator

Choose = Callable[[dict[str, Any], int], "str | Answer"]


def drawn_answer(body: dict[str, Any]) -> str:
    """An answer that depends on the first user message (or the prompt) and the schema alone."""
    schema = None if "prompt" in body else schema_of(body)
    if schema is None:
        return rehearse(body)
    first = next(message["content"] for message in body["messages"] if message["role"] == "user")
    return json.dumps(drawn_value(schema, first))


def share_of_faults(share: float, seed: int = 0, kinds: Sequence[str] = FAULTS) -> Choose:
    """Misbehave in a share of requests, drawn by what is asked and how often it was asked before."""

    def choose(body: dict[str, Any], nth: int) -> str | Answer:
        draw = generator("pretend", seed, json.dumps(body, sort_keys=True), nth)
        return str(draw.choice(list(kinds))) if draw.random() < share else "well"

    return choose


class FakeServer:
    """The server, in a thread of its own; use it in a ``with`` block.

    Args:
        behave: what to do with each request in turn (names of :mod:`server_faults`, the last one for
            all that follow), or a function of the body and how often the same body came before to a name
            or the answer itself.
        answer: the model: a request's body to what it says.
        delay: seconds before each answer.
        keep: remember bodies and headers (``seen``).
        port: 0 for any free one.
        host: the loopback address, ``127.0.0.1`` or ``::1``.
        tls: certificate and key, for https.

    Attributes:
        seen: (body, headers) of requests, in their order.
        delay: seconds before each answer; may be set while it runs.
        count: requests that came in; most_at_once: how many were open together at most.
        connections: that were made.
    """

    def __init__(
        self,
        behave: Sequence[str] | Choose = ("well",),
        *,
        answer: Callable[[dict[str, Any]], str] = drawn_answer,
        delay: float = 0.0,
        keep: bool = True,
        port: int = 0,
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._behave, self._answer, self.delay, self._keep, self._port = behave, answer, delay, keep, port
        self._host, self._tls = host, tls
        self.seen: list[tuple[dict[str, Any], dict[str, str]]] = []
        self.count = self.most_at_once = self.connections = self._open = 0
        self._times: Counter[bytes] = Counter()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> FakeServer:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        self._socket = socket.create_server((self._host, self._port), family=family)
        self._port = self._socket.getsockname()[1]
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the fake server did not start")
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def base_url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http{'s' if self._tls else ''}://{host}:{self._port}/v1"

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connection, sock=self._socket, ssl=self._tls)
        self._ready.set()
        await self._stop.wait()
        server.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        owed = bytearray()  # what is sent before the answer to the next request
        try:
            while await self._one(reader, writer, owed):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, owed: bytearray) -> bool:
        """One request of a connection; whether the connection goes on."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        content = await reader.readexactly(int(headers.get("content-length", 0)))
        writer.write(bytes(owed))
        owed.clear()
        self.count += 1
        self._open += 1
        self.most_at_once = max(self.most_at_once, self._open)
        try:
            answer = self._answer_to(content, headers)
            await asyncio.sleep(3600 if answer is HANG else self.delay)
            if answer.stalls:
                writer.write(answer.content)
                await writer.drain()
                await asyncio.sleep(3600)
            if answer is CLOSE:
                return False
            if answer.surplus_after is None:
                owed += answer.surplus
            elif answer.surplus_after > 0:
                asyncio.get_running_loop().call_later(answer.surplus_after, _write, writer, answer.surplus)
            writer.write(answer.content + (answer.surplus if answer.surplus_after == 0 else b""))
            await writer.drain()
        finally:
            self._open -= 1
        return answer.stays_open

    def _answer_to(self, content: bytes, headers: dict[str, str]) -> Answer:
        body = json.loads(content or b"{}")
        if self._keep:
            self.seen.append((body, headers))
        if callable(self._behave):
            mark = hashlib.sha256(content).digest()
            behaviour: str | Answer = self._behave(body, self._times[mark])
            self._times[mark] += 1
        else:
            behaviour = self._behave[min(self.count, len(self._behave)) - 1]
        return behaviour if isinstance(behaviour, Answer) else respond(behaviour, body, self._answer(body))


def _write(writer: asyncio.StreamWriter, content: bytes) -> None:
    if not writer.is_closing():
        writer.write(content)
