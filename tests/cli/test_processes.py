"""A command in two processes: one voice, the right exit codes, and nobody left waiting."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from medunlearn.experiments.runs import Run

PATIENCE = 60.0
LONG = ("--model", "tiny", "tiny_width=32", "tiny_layers=2", "epochs=8", "precision=fp32", "checkpoint_seconds=0")


def start(*words: object) -> list[subprocess.Popen[str]]:
    """Python with these words, twice, as torchrun would; apart from it each one's exit code can be seen."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    return [
        subprocess.Popen(
            [sys.executable, *(str(word) for word in words)],
            env={**shared, "MASTER_PORT": str(port), "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]


def end(both: list[subprocess.Popen[str]]) -> tuple[list[int], list[str]]:
    """Exit codes, and what each said on either stream as one line."""
    try:
        said = [" ".join("".join(process.communicate(timeout=PATIENCE)).split()) for process in both]
    finally:
        for process in both:
            process.kill()
            process.wait()
    return [process.returncode for process in both], said


def stop_one(bench: Path, out: Path, how: signal.Signals) -> tuple[list[int], list[str]]:
    """Signal the second of two processes that train, once they have trained a little."""
    both = start("-m", "medunlearn", "train", bench, "--out", out, *LONG)
    until = time.monotonic() + PATIENCE
    while not any(out.glob("checkpoints/finetune/step-*/state.json")):
        assert both[0].poll() is None, end(both)
        assert time.monotonic() < until, "nothing came"
        time.sleep(0.01)
    both[1].send_signal(how)
    return end(both)


def test_what_is_wrong_is_said_once(bench: Path, tmp_path: Path) -> None:
    codes, said = end(
        start("-m", "medunlearn", "train", bench, "--model", "tiny", "--out", tmp_path / "r", "epoch=1")
    )
    assert codes == [2, 2]
    assert "Did you mean 'epochs'?" in said[0]
    assert not said[1]


def test_an_interrupt_of_one_stops_both_and_the_run_goes_on_in_one(
    medunlearn: Callable[..., object], bench: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    codes, said = stop_one(bench, out, signal.SIGINT)
    assert codes == [130, 130]
    assert "interrupted. What was done is kept" in said[0]
    assert not said[1]
    assert json.loads((out / "run.json").read_text())["status"] == "interrupted"
    done = json.loads(next(out.glob("checkpoints/finetune/*/state.json")).read_text())["history"]
    medunlearn("train", bench, "--out", out, *LONG[:-1])
    run = Run.open(out)
    assert run.info["hardware"]["processes"] == 1
    assert run.history()["seconds"].tolist()[: len(done)] == [row["seconds"] for row in done]


def test_a_process_that_is_killed_ends_the_run_with_a_message(bench: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    codes, said = stop_one(bench, out, signal.SIGKILL)
    assert codes == [1, -signal.SIGKILL]
    assert "error: Another process of this run was lost" in said[0]
    assert "Traceback" not in said[0]
    assert json.loads((out / "run.json").read_text())["status"] == "failed"


ALONE_IN_ERROR = """
from medunlearn.errors import InputError, ProcessError
from medunlearn.training.processes import join, leave
processes, ended = join(), None
try:
    if not processes.main:
        raise InputError("there is no folder here")
    processes.each(lambda: None)
except (InputError, ProcessError) as error:
    ended = error
leave(ended, print)
"""


def test_the_main_process_says_what_another_one_met_by_itself() -> None:
    codes, said = end(start("-c", ALONE_IN_ERROR))
    assert codes == [0, 0]
    assert said == ["Process 1: there is no folder here", ""]


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_verb_for_one_process_refuses_several(
    medunlearn: Callable[..., object], bench: Path, rank: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"WORLD_SIZE": "2", "RANK": rank, "MASTER_ADDR": "x", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    said = medunlearn("inspect", bench, code=2)
    assert ("`inspect` runs in one process" in said.text) == (rank == "0")  # type: ignore[attr-defined]
