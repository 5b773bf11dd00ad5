"""A command in two processes: one voice, the right exit codes, and nobody left waiting."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from forking import Forked, command, together

from medunlearn.errors import InputError, ProcessError
from medunlearn.results.runs import Run
from medunlearn.training.processes import join, leave

TINY = ("--model=tiny", "--tiny-width=32", "--tiny-layers=2", "--epochs=4", "--precision=fp32")


def end(both: list[Forked]) -> tuple[list[int | None], list[str]]:
    """Exit codes, and what each said on either stream as one line."""
    try:
        result = [" ".join("".join(process.communicate()).split()) for process in both]
    finally:
        for process in both:
            process.kill()
            process.wait()
    return [process.returncode for process in both], result


def stop_one(bench: Path, out: Path, how: signal.Signals) -> tuple[list[int | None], list[str]]:
    """Signal the second of two processes that train, once they have trained a little."""
    both = together(command("train", bench, "--out", out, *TINY, "--checkpoint-seconds=0"))
    both[0].wait_until(lambda: any(out.glob("checkpoints/finetune/step-*/state.json")))
    both[1].send_signal(how)
    return end(both)


def test_what_is_wrong_is_said_once(bench: Path, tmp_path: Path) -> None:
    wrong = command("train", bench, "--model", "tiny", "--out", tmp_path / "r", "--epoch=1")
    codes, result = end(together(wrong))
    assert codes == [2, 2]
    assert "Did you mean --epochs?" in result[0]
    # Of ours; torch's own log may miss the process that ended first.
    assert "Did you mean" not in result[1]


def test_an_interrupt_of_one_stops_both_and_the_run_goes_on_in_one(
    medunlearn: Callable[..., object], bench: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    codes, result = stop_one(bench, out, signal.SIGINT)
    assert codes == [130, 130]
    assert "interrupted. What was done is kept" in result[0]
    # Of ours; torch's own log may miss the process that ended first.
    assert "interrupted" not in result[1]
    assert json.loads((out / "run.json").read_text())["status"] == "interrupted"
    steps = json.loads(next(out.glob("checkpoints/finetune/*/state.json")).read_text())["history"]
    medunlearn("train", bench, "--out", out, *TINY)
    run = Run.open(out)
    assert run.info["hardware"]["processes"] == 1
    assert run.history()["seconds"].tolist()[: len(steps)] == [row["seconds"] for row in steps]


def test_a_process_that_is_killed_ends_the_run_with_a_message(bench: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    codes, result = stop_one(bench, out, signal.SIGKILL)
    assert codes == [1, -signal.SIGKILL]
    assert "error: Another process of this run was lost" in result[0]
    assert "Traceback" not in result[0]
    assert json.loads((out / "run.json").read_text())["status"] == "failed"


def alone_in_error() -> None:
    processes, ended = join(), None
    try:
        if not processes.main:
            raise InputError("there is no folder here")
        with processes.barrier():
            pass
    except (InputError, ProcessError) as error:
        ended = error
    leave(ended, print)


def test_the_main_process_says_what_another_one_met_by_itself() -> None:
    codes, result = end(together(alone_in_error))
    assert codes == [0, 0]
    assert "Process 1: there is no folder here" in result[0]
    # Of ours; torch's own log may miss the process that ended first.
    assert "there is no folder" not in result[1]


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_verb_for_one_process_refuses_several(
    medunlearn: Callable[..., object], bench: Path, rank: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"WORLD_SIZE": "2", "RANK": rank, "MASTER_ADDR": "x", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    result = medunlearn("inspect", bench, code=2)
    assert ("`inspect` runs in one process" in result.text) == (rank == "0")  # type: ignore[attr-defined]
