"""Ctrl-C and SIGKILL: what came back is stored, and a second run ends as if nothing had been."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from fake_server import FakeServer, share_of_faults
from forking import PATIENCE, Forked
from server_faults import TWICE

from medunlearn.llm import Client, Message, Request, ServerSettings, Store, decide
from medunlearn.llm.store import FILE

COUNT = 60


def ask(url: str, folder: Path) -> None:
    settings = ServerSettings(base_url=url, model="m", concurrency=4, backoff_seconds=0.01, retries=12)
    requests = (Request(f"r{n}", (Message("user", f"note {n}"),), max_tokens=9) for n in range(COUNT))
    with Store(folder) as store, Client(settings, decide(url, data_use="credentialed"), store=store) as client:
        for outcome in client.stream(requests):
            print(outcome.id, outcome.status, outcome.text, outcome.stored, flush=True)


def start(url: str, folder: Path) -> Forked:
    return Forked(lambda: ask(url, folder))


def stored(folder: Path) -> int:
    with Store(folder) as store:
        return len(store)


def table(folder: Path) -> Any:
    with Store(folder) as store:
        return store.table()[["key", "status", "reason", "text"]]


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGKILL])
def test_a_run_cut_off_goes_on_where_it_stopped(tmp_path: Path, which: signal.Signals) -> None:
    # Slow while the run is to be met in its middle, however late the signal is sent.
    server = FakeServer(share_of_faults(0.15, kinds=("busy", "error_500", "reset", "not_json")), delay=0.3)
    with server:
        running = start(server.base_url, tmp_path / "cut")
        until = time.monotonic() + PATIENCE
        while not (tmp_path / "cut").exists() or stored(tmp_path / "cut") < 16:
            assert time.monotonic() < until, "nothing came"
            time.sleep(0.02)
        running.send_signal(which)
        lines, errors = running.communicate()
        server.delay = 0.0
        assert running.returncode in (-which, 130, 1)
        handed_out = {line.split()[0] for line in lines.splitlines()}
        before = stored(tmp_path / "cut")
        # Whatever was handed out is on the disk, and at most what was in flight is missing of what came in.
        assert 0 < len(handed_out) <= before < COUNT
        if which == signal.SIGINT:
            assert "KeyboardInterrupt" in errors.splitlines()[-1]
            assert "Task was destroyed" not in errors
        resumed = start(server.base_url, tmp_path / "cut").communicate()[0].splitlines()
        whole = start(server.base_url, tmp_path / "whole").communicate()[0].splitlines()
        sent = server.count
        again = start(server.base_url, tmp_path / "cut").communicate()[0].splitlines()
    assert len(resumed) == len({line.split()[0] for line in resumed}) == COUNT
    assert sum(line.endswith("True") for line in resumed) == before
    assert table(tmp_path / "cut").equals(table(tmp_path / "whole"))
    assert sorted(line.rpartition(" ")[0] for line in resumed) == sorted(line.rpartition(" ")[0] for line in whole)
    assert server.count == sent
    assert sum(line.endswith("True") for line in again) == COUNT


def killed_at_write(url: str, folder: Path, number: int, *, after: bool) -> Forked:
    """A run that is killed just before, or just after, it stores its answer of this number."""
    store_response, writes = Store.put, count(1)

    def deadly(store: Store, response: Any, **how: Any) -> Any:
        last = next(writes) == number
        if last and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        response = store_response(store, response, **how)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return response

    def work() -> None:
        with mock.patch.object(Store, "put", deadly):
            ask(url, folder)

    return Forked(work)


def test_killed_at_placed_moments_again_and_again(tmp_path: Path) -> None:
    """Twelve kills at writes of the store, on a server that answers some requests twice: none lost or doubled."""
    moments = [(number, after) for number in (1, 2, 7, 3, 1, 9) for after in (False, True)]
    with FakeServer(share_of_faults(0.2, kinds=TWICE)) as server:
        stored_before = 0
        for number, after in moments:
            process = killed_at_write(server.base_url, tmp_path / "cut", number, after=after)
            process.communicate()
            assert process.returncode == -signal.SIGKILL
            # A process writes its answers one after the other, and each is on the disk when its write returns.
            assert stored(tmp_path / "cut") == stored_before + number - (not after)
            stored_before = stored(tmp_path / "cut")
        lines = start(server.base_url, tmp_path / "cut").communicate()[0].splitlines()
        # What was in flight is all that was asked twice.
        assert COUNT <= server.count <= COUNT + 4 * len(moments)
        start(server.base_url, tmp_path / "whole").communicate()
    assert sorted(line.split()[0] for line in lines) == sorted(f"r{n}" for n in range(COUNT))
    assert sum(line.endswith("True") for line in lines) == stored_before
    assert table(tmp_path / "cut").equals(table(tmp_path / "whole"))
    with closing(sqlite3.connect(tmp_path / "cut" / FILE)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_caller_who_stops_early_leaves_nothing_behind(
    connect: Callable[..., Any], label: Any, tmp_path: Path
) -> None:
    with Store(tmp_path) as store:
        server, client = connect(server=FakeServer(delay=0.3), store=store, concurrency=4)
        stream = client.stream(label(n) for n in range(100))
        assert next(stream).status == "answered"
        stream.close()
        time.sleep(0.6)
        # The first four came back together; the four that had been sent after them were dropped.
        assert 1 <= len(store) <= 4
        assert server.count <= 8
        assert client.ask(label(200)).status == "answered"
