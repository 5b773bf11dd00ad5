"""Nothing goes where it should not: environment, proxies, redirects, headers, logs, files."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from fake_server import FakeServer

from medunlearn.llm import Store

Make = Callable[..., Any]
PROXIES = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy")
SECRET = "sk-very-secret-4711"


@pytest.fixture
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """A port, and what anybody sends to it."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as ear:

        def listen() -> None:
            while True:
                try:
                    connection, _ = ear.accept()
                except OSError:
                    return
                heard.append(connection.recv(100))
                connection.close()

        threading.Thread(target=listen, daemon=True).start()
        yield ear.getsockname()[1], heard
        ear.shutdown(socket.SHUT_RDWR)


def test_proxies_of_the_environment_carry_nothing_away(
    connect: Make, label: Make, listener: tuple[int, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, heard = listener
    for name in PROXIES:
        monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    # A proxy in the settings is for servers away; this one is here.
    server, client = connect(proxy=f"http://127.0.0.1:{port}")
    assert client.ask(label()).status == "answered"
    assert (server.count, heard) == (1, [])


def test_redirects_are_not_followed(connect: Make, label: Make, listener: tuple[int, list[bytes]]) -> None:
    import server_faults

    port, heard = listener
    away = server_faults.http(307, b"", {"Location": f"http://127.0.0.1:{port}/v1/chat/completions"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(server_faults._WHOLE, "elsewhere", lambda body, answer: away)
        _, client = connect("elsewhere")
        outcome = client.ask(label())
    assert outcome.status == "failed"
    assert "Redirects are not followed" in outcome.reason
    assert heard == []


def test_localhost_asks_no_resolver(connect: Make, label: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts: list[str] = []
    resolve = socket.getaddrinfo

    def lying(host: Any, *rest: Any, **more: Any) -> Any:
        hosts.append(str(host))
        return resolve("198.51.100.7" if host == "localhost" else host, *rest, **more)

    with FakeServer() as there:
        monkeypatch.setattr(socket, "getaddrinfo", lying)
        address = there.base_url.replace("127.0.0.1", "localhost")
        _, client = connect(base_url=address)
        assert client.ask(label()).status == "answered"
        assert there.seen[0][1]["host"].startswith("localhost:")
    assert "localhost" not in hosts


def test_localhost_is_also_looked_for_on_ipv6(connect: Make, label: Make) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("there is no IPv6 loopback here")
    with FakeServer(host="::1") as there:
        for host in ("localhost", "[::1]"):
            _, client = connect(base_url=there.base_url.replace("[::1]", host))
            assert client.ask(label()).status == "answered"


def test_headers_are_few_and_the_environment_adds_none(
    connect: Make, label: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-server")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Ward: 7\nAuthorization: Bearer sk-custom")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://198.51.100.7/v1")
    headers = {"host", "content-type", "content-length", "accept", "accept-encoding", "user-agent", "connection"}
    server, client = connect()
    client.ask(label())
    assert set(server.seen[0][1]) <= headers
    monkeypatch.setenv("MY_KEY", SECRET)
    server, client = connect(api_key_env="MY_KEY")
    client.ask(label())
    assert set(server.seen[0][1]) <= {*headers, "authorization"}
    assert server.seen[0][1]["authorization"] == f"Bearer {SECRET}"


def test_no_log_holds_a_prompt_an_answer_or_the_key(
    connect: Make, label: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    with caplog.at_level(logging.DEBUG), Store(tmp_path) as store:
        _, client = connect("error_500", "not_json", "well", "parrot", api_key_env="MY_KEY", store=store)
        outcomes = [client.ask(label(n)) for n in range(2)]
    assert "httpcore" in {record.name.partition(".")[0] for record in caplog.records}
    assert [outcome.status for outcome in outcomes] == ["answered", "failed"]
    record = caplog.text + repr(outcomes) + repr(label()) + json.dumps(client.facts()) + repr(client.settings)
    for private in ("chest pain", outcomes[0].value["reason"], SECRET):
        assert private not in record
    for file in tmp_path.iterdir():
        assert SECRET.encode() not in file.read_bytes()
        assert b"chest pain" not in file.read_bytes()


def test_what_a_run_records(connect: Make, label: Make) -> None:
    _, client = connect("no_usage")
    client.ask(label())
    facts = client.facts()
    assert facts["guard"]["on_this_machine"] is True
    assert facts["guard"]["data_use"] == "credentialed"
    assert facts["settings"]["model"] == "m"
    assert facts["estimated_tokens"] == facts["prompt_tokens"] + facts["answer_tokens"] > 0
    assert json.loads(json.dumps(facts)) == facts


def test_a_request_counts_from_when_it_was_sent(
    connect: Make, label: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not from when it was let through, nor from when it was answered; and what never was sent holds no place."""
    dial = anyio.connect_tcp

    async def slowly(*where: Any, **how: Any) -> Any:
        await asyncio.sleep(0.3)
        return await dial(*where, **how)

    monkeypatch.setattr("anyio.connect_tcp", slowly)
    _, client = connect(server=FakeServer(delay=0.3), retries=0)
    limiter = client._dispatcher.limiter
    start = time.monotonic()
    assert client.ask(label()).status == "answered"
    (place,) = limiter._window.sent
    assert start + 0.3 <= place.sent < time.monotonic() - 0.3
    _, client = connect(base_url="http://127.0.0.1:9/v1", retries=0)
    assert client.ask(label()).status == "failed"
    assert not client._dispatcher.limiter._window.unsent


def test_clients_of_one_server_and_key_share_their_minute(connect: Make, label: Make) -> None:
    server, first = connect(requests_per_minute=3)
    second = connect(server=None, base_url=server.base_url)[1]
    assert [first.ask(label(n)).status for n in range(2)] == ["answered"] * 2
    stream = second.stream(label(n) for n in range(2, 5))
    assert next(stream).status == "answered"
    time.sleep(0.2)
    assert server.count == 3
    stream.close()


def test_certificates_are_read_once(connect: Make, label: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    connect()
    monkeypatch.setattr("ssl.create_default_context", lambda: pytest.fail("they were read again"))
    _, client = connect()
    assert client.ask(label()).status == "answered"


def test_asking_needs_no_torch() -> None:
    code = "import sys, medunlearn.llm; print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"
