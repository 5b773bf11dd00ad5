"""``build amnesia NOTES`` after Ctrl-C and after SIGKILL: it goes on, and ends where it would have."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer, share_of_faults
from forking import Forked, command
from row_files import write_csv

from medunlearn.data.benchmark import Benchmark

Medunlearn = Callable[..., Any]
FAST = "--llm.backoff-seconds=0.01"


COUNT = 10


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGKILL])
def test_a_build_cut_off_goes_on_where_it_stopped(
    server_flags: Any,
    medunlearn: Medunlearn,
    own_notes: Any,
    canned: Any,
    tmp_path: Path,
    which: signal.Signals,
) -> None:
    file = write_csv(tmp_path / "n.csv", own_notes(COUNT))
    faults = share_of_faults(0.15, kinds=("busy", "error_500", "reset", "not_json"))

    def words(server: FakeServer, out: str) -> list[str]:
        settings = (FAST, "--llm.retries=12", "--llm.concurrency=2")
        return ["build", "amnesia", str(file), *server_flags(server), "--out", str(tmp_path / out), *settings]

    with FakeServer(faults, answer=canned, delay=0.03) as server:
        running = Forked(command(*words(server, "cut")))
        wait_for(lambda: stored(tmp_path / "cut") >= COUNT + 4 or running.poll() is not None)
        running.send_signal(which)
        _, errors = running.communicate()
        if which == signal.SIGINT:
            assert running.returncode == 130
            assert "it goes on from there" in " ".join(errors.split())
        before = stored(tmp_path / "cut")
        assert COUNT < before < 2 * COUNT
        assert not (tmp_path / "cut" / "benchmark.yaml").exists()
        medunlearn(*words(server, "cut"))
        medunlearn(*words(server, "whole"))
        sent = server.count
        medunlearn(*words(server, "cut"))
        assert server.count == sent
    cut, whole = Benchmark.load(tmp_path / "cut"), Benchmark.load(tmp_path / "whole")
    assert cut.fingerprint == whole.fingerprint
    for name in ("rejects", "labels", "evidence"):
        tables = [(tmp_path / folder / f"{name}.parquet").read_bytes() for folder in ("cut", "whole")]
        assert tables[0] == tables[1]


def stored(out: Path) -> int:
    path = out / "llm" / "responses.sqlite"
    if not path.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            return int(database.execute("SELECT count(*) FROM responses").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def wait_for(there: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)
