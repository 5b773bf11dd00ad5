"""A few kills inside the work; ``benchmarks_perf/kills.py`` does many, of every command."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer, share_of_faults
from forking import PATIENCE, Forked, command
from kill_trials import Case, content, differences, try_case
from row_files import write_csv

from medunlearn.config import TrainSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.folder_lock import lock_folder, patient
from medunlearn.data.leftovers import LOCK
from medunlearn.errors import InputError
from medunlearn.results.runs import Recording

NOTES = 10
"""Notes of a build that is cut off."""
UNLEARN = ("--method=npo", "--precision=fp32", "--epochs=2", "--batch-size=8", "--checkpoint-seconds=0")
EPOCHS = ("--evaluate-every=1", "--select=best", "--evaluate.limit=1", "--evaluate.max-new-tokens=2")


def hold(folder: Path) -> None:
    with lock_folder(folder, "train"):
        (folder / "held").touch()
        time.sleep(PATIENCE)


def test_a_killed_command_ends_where_it_would_have(bench: Path, target: Path, tmp_path: Path) -> None:
    def words(folder: Path) -> list[object]:
        # Its first evaluation is kept in the target's folder.
        shutil.copytree(target, folder / "target", ignore=shutil.ignore_patterns("evaluations", "responses"))
        return ["unlearn", "target", bench, "--split=random_10", *UNLEARN, *EPOCHS, "--out=out", "--quiet"]

    tally = try_case(Case("unlearn", words), 3, tmp_path, seed=0)
    assert tally.different == ()
    assert tally.killed == 3
    assert tally.events > 30


def test_a_second_writer_is_refused_and_told_the_first(
    medunlearn: Callable[..., Any], bench: Path, target: Path, tmp_path: Path
) -> None:
    run = tmp_path / "target"
    shutil.copytree(target, run)
    quick = ("--replicates=21", "--limit=1", "--max-new-tokens=2", "--allow-broken")
    words = ("evaluate", run, bench, "--split=random_10", *quick)
    medunlearn(*words)
    (evaluation,) = [path.parent for path in run.glob("evaluations/*/run.json") if ": 21" in path.read_text()]
    record = json.loads((evaluation / "run.json").read_text())
    (evaluation / "run.json").write_text(json.dumps({**record, "status": "running"}))
    new = tmp_path / "new"
    for folder, words_again in ((new, ("build", "amnesia", "--synthetic=20", "--out", new)), (evaluation, words)):
        holder = Forked(lambda folder=folder: hold(folder))
        holder.wait_until((folder / "held").exists)
        (folder / "held").unlink()
        assert f"process {holder.pid} on" in medunlearn(*words_again, code=2).text
        holder.kill()
        holder.wait()
        medunlearn(*words_again)
        assert not (folder / LOCK).exists()


def test_a_run_that_another_process_ends_meanwhile_is_taken_as_it_is(tmp_path: Path) -> None:
    out = tmp_path / "run"
    settings = TrainSettings(model="tiny")
    record = Recording(out, "train", "target", settings, {}, data_use="open")

    def end_soon() -> None:
        with record.running():
            (out / "held").touch()
            time.sleep(0.3)

    other = Forked(end_soon)
    while not (out / "held").exists():
        assert other.poll() is None, other.communicate()
        time.sleep(0.01)
    late = Recording(out, "train", "target", settings, {}, data_use="open")
    with patient(30):
        assert Recording(out, "train", "target", settings, {}, data_use="open").done
    assert other.wait() == 0
    with pytest.raises(InputError, match="Another process has completed"), late.running():
        pass


def test_the_comparison_sees_what_differs(tmp_path: Path) -> None:
    whole, other = tmp_path / "whole", tmp_path / "other"
    for folder in (whole, other):
        folder.mkdir()
        (folder / "run.json").write_text('{"results": {"n": 1}, "seconds": 3}')
        (folder / "text").write_text(str(folder / "x"))
    assert list(differences(content(whole), content(other))) == []
    (other / "run.json").write_text('{"results": {"n": 2}, "seconds": 4}')
    (other / LOCK).touch()
    (whole / "gone").touch()
    assert list(differences(content(whole), content(other))) == [
        f"{LOCK} is too much",
        "gone is missing",
        "run.json differs at results at n: 1 became 2",
    ]


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_build_cut_off_goes_on_where_it_stopped(
    server_flags: Any,
    medunlearn: Callable[..., Any],
    own_notes: Any,
    canned: Any,
    tmp_path: Path,
    which: signal.Signals,
) -> None:
    file = write_csv(tmp_path / "n.csv", own_notes(NOTES))
    faults = share_of_faults(0.15, kinds=("busy", "error_500", "reset", "not_json"))

    def words(server: FakeServer, out: str) -> list[str]:
        settings = ("--llm.backoff-seconds=0.01", "--llm.retries=12", "--llm.concurrency=2")
        return ["build", "amnesia", str(file), *server_flags(server), "--out", str(tmp_path / out), *settings]

    with FakeServer(faults, answer=canned, delay=0.1) as server:
        running = Forked(command(*words(server, "cut")))
        running.wait_until(lambda: stored(tmp_path / "cut") >= NOTES + 4)
        running.send_signal(which)
        _, errors = running.communicate()
        server.delay = 0.0
        if which != signal.SIGKILL:
            assert running.returncode == 130
            assert "it goes on from there" in " ".join(errors.split())
        before = stored(tmp_path / "cut")
        assert NOTES < before < 2 * NOTES
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
