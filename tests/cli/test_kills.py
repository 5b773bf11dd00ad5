"""A few kills inside the work; ``benchmarks_perf/kills.py`` does many, of every command."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forking import PATIENCE, Forked
from kills import Case, content, differences, try_case

from medunlearn.config import TrainSettings
from medunlearn.data.folder_lock import lock_folder, patient
from medunlearn.errors import InputError
from medunlearn.results.runs import Recording

UNLEARN = ("--method=npo", "--precision=fp32", "--epochs=2", "--batch-size=8", "--checkpoint-seconds=0")
EPOCHS = ("--evaluate-every=1", "--select=best", "--evaluate.limit=1", "--evaluate.max-new-tokens=2")


def hold(folder: Path) -> None:
    with lock_folder(folder, "train"):
        (folder / "held").touch()
        time.sleep(PATIENCE)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_killed_command_ends_where_it_would_have(bench: Path, target: Path, tmp_path: Path, seed: int) -> None:
    def words(folder: Path) -> list[object]:
        # Its first evaluation is kept in the target's folder.
        shutil.copytree(target, folder / "target", ignore=shutil.ignore_patterns("evaluations", "responses"))
        return ["unlearn", "target", bench, "--split=random_10", *UNLEARN, *EPOCHS, "--out=out", "--quiet"]

    tally = try_case(Case("unlearn", words), 3, tmp_path, seed)
    assert tally.different == ()
    assert tally.killed == 3
    assert tally.events > 30


def test_a_second_writer_is_refused_and_told_the_first(
    medunlearn: Callable[..., Any], bench: Path, target: Path, tmp_path: Path
) -> None:
    run = tmp_path / "target"
    shutil.copytree(target, run)
    words = (
        "evaluate",
        run,
        bench,
        "--split=random_10",
        "--replicates=21",
        "--limit=1",
        "--max-new-tokens=2",
        "--allow-broken",
    )
    medunlearn(*words)
    (evaluation,) = [path.parent for path in run.glob("evaluations/*/run.json") if ": 21" in path.read_text()]
    record = json.loads((evaluation / "run.json").read_text())
    (evaluation / "run.json").write_text(json.dumps({**record, "status": "running"}))
    new = tmp_path / "new"
    for folder, command in ((new, ("build", "amnesia", "--synthetic=20", "--out", new)), (evaluation, words)):
        holder = Forked(lambda folder=folder: hold(folder))
        while not (folder / "held").exists():
            assert holder.poll() is None, holder.communicate()
            time.sleep(0.01)
        (folder / "held").unlink()
        assert f"process {holder.pid} on" in medunlearn(*command, code=2).text
        holder.kill()
        holder.wait()
        medunlearn(*command)
        assert not (folder / ".lock").exists()


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
    (other / ".lock").touch()
    (whole / "gone").touch()
    assert list(differences(content(whole), content(other))) == [
        ".lock is too much",
        "gone is missing",
        "run.json differs at results at n: 1 became 2",
    ]
