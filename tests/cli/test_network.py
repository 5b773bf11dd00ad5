"""Commands go nowhere but to the server that they name. `benchmarks_perf/network_trace.py` tries every command."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import network_log
import pytest
from fake_server import FakeServer
from forking import Forked

from medunlearn.cli.verbs import verbs

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks_perf"))
import network_trace

Watched = Callable[..., list[tuple[str, str]]]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    """``watched("inspect", bench)``: what a command does on the network; a function stands for a command."""

    def run(*words: object) -> list[tuple[str, str]]:
        log = tmp_path / "network.jsonl"
        log.unlink(missing_ok=True)

        def work() -> None:
            from medunlearn.cli.main import app

            network_log.watch(log)
            words[0]() if callable(words[0]) else app([str(word) for word in words])

        process = Forked(work)
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        return network_log.read(log)

    return run


def test_whatever_a_process_does_is_seen(watched: Watched) -> None:
    def away() -> None:
        with suppress(OSError):
            socket.getaddrinfo("telemetry.invalid", 443)
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as other, suppress(OSError):
            other.sendto(b"x", ("::1", 9))
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", 9))

    events = set(watched(away))
    assert events >= {
        ("look-up", "telemetry.invalid"), ("socket", "AF_INET6"), ("sendto", "::1:9"), ("connect", "127.0.0.1:9"),
    }  # fmt: skip


def test_commands_without_a_server_open_no_socket(
    watched: Watched, bench: Path, target: Path, tmp_path: Path
) -> None:
    forget = ("--split", "random_10", "--method", "graddiff", "--out", tmp_path / "g", "--epochs=1")
    for words in (
        ("build", "lume", "--synthetic", 4, "--nonmembers", 4, "--out", tmp_path / "lume"),
        ("inspect", bench, "--tables"),
        ("unlearn", target, bench, *forget, "--precision=fp32"),
        ("export", target, "--out", tmp_path / "hf"),
    ):
        assert watched(*words) == []


def test_a_command_connects_to_its_server_alone(watched: Watched, notes: Path, tmp_path: Path, canned: Any) -> None:
    with FakeServer(answer=canned) as server:
        words = ("--llm", server.base_url.replace("127.0.0.1", "localhost"), "--llm.model", "m")
        events = watched("build", "amnesia", notes, *words, "--out", tmp_path / "b")
        address = server.base_url.removeprefix("http://").removesuffix("/v1")
    assert {of for what, of in events if what == "connect"} == {address}
    assert {what for what, _ in events} == {"socket", "connect"}
    assert server.count == sum(what == "connect" for what, _ in events) > 12


def test_nothing_is_sent_when_a_command_starts(tmp_path: Path, bench: Path) -> None:
    environment = network_log.in_every_process(tmp_path / "site", tmp_path / "log")
    words = [sys.executable, "-m", "medunlearn", "inspect", str(bench)]
    subprocess.run(words, env=os.environ | environment, check=True, capture_output=True)
    assert network_log.read(tmp_path / "log") == []
    code = "import socket; socket.create_server(('127.0.0.1', 0)).close()"
    subprocess.run([sys.executable, "-c", code], env=os.environ | environment, check=True)
    assert network_log.read(tmp_path / "log") == [("socket", "AF_INET"), ("bind", "127.0.0.1:0")]


def test_every_command_is_traced() -> None:
    traced = {network_trace.verb_of(line) for line in network_trace.COMMANDS.splitlines()}
    assert set(verbs()) <= traced


def test_system_calls_are_read_as_events_are() -> None:
    text = """7 socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, IPPROTO_TCP) = 6
7 connect(6, {sa_family=AF_INET, sin_port=htons(8000), sin_addr=inet_addr("127.0.0.1")}, 16) = -1 EINPROGRESS
8 socket(AF_UNIX, SOCK_STREAM, 0) = 3
8 connect(3, {sa_family=AF_UNIX, sun_path="/var/run/nscd/socket"}, 110) = -1 ENOENT
7 sendto(5, "x", 1, 0, {sa_family=AF_INET6, sin6_port=htons(53), sin6_flowinfo=htonl(0), \
inet_pton(AF_INET6, "::1", &sin6_addr), sin6_scope_id=0}, 28 <unfinished ...>
"""
    assert list(network_trace.calls_in(text)) == [
        ("socket", "AF_INET"), ("connect", "127.0.0.1:8000"), ("connect", "/var/run/nscd/socket"),
        ("sendto", "::1:53"),
    ]  # fmt: skip
