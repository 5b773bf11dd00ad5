"""The installed command as its own process: what it prints where, and what signals do to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forking import Forked, assert_light, command

from medunlearn.results.runs import Run

COMMAND = Path(sys.executable).parent / "medunlearn"
SMALL = ("--model=tiny", "--tiny-width=32", "--tiny-layers=2", "--precision=fp32")
# Three steps an epoch.
TINY = (*SMALL, "--epochs=6", "--train-on=records", "--checkpoint-seconds=0")
STEPS = 18
PATIENCE = 60.0


def environment() -> dict[str, str]:
    # One thread, as in this process: sums in another order are other numbers.
    return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "COLUMNS": "80"}


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *(str(word) for word in words)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
        check=False,
    )


def stop_when(ready: Callable[[], bool], how: signal.Signals, *words: object) -> tuple[int, str]:
    """Start the command, signal it as soon as something is there, and give its exit code and what it said."""
    process = Forked(command(*words))
    try:
        process.wait_until(ready)
        process.send_signal(how)
        output = "".join(process.communicate())
    finally:
        process.kill()
        code = process.wait()
    return code, output


def status(folder: Path) -> str:
    return str(json.loads((folder / "run.json").read_text())["status"])


def weights(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def uninterrupted(medunlearn: Callable[..., Any], bench: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    medunlearn("train", bench, *TINY, "--out", out, "--checkpoint-seconds=60")
    return out


@pytest.mark.parametrize(
    ("how", "code", "last_status"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGKILL, -signal.SIGKILL, "running")],
)
def test_training_that_is_stopped_ends_where_it_would_have(
    medunlearn: Callable[..., Any],
    bench: Path,
    uninterrupted: Path,
    tmp_path: Path,
    how: signal.Signals,
    code: int,
    last_status: str,
) -> None:
    out = tmp_path / "run"
    checkpoints = out / "checkpoints" / "finetune"

    def trained_a_little() -> bool:
        return any(int(path.parent.name[5:]) >= 3 for path in checkpoints.glob("step-*/state.json"))

    words = ("train", bench, *TINY, "--out", out)
    ended, output = stop_when(trained_a_little, how, *words)
    assert ended == code
    assert "Traceback" not in output
    assert ("give the same command again" in " ".join(output.split())) == (how == signal.SIGINT)
    assert status(out) == last_status
    assert not (out / "model").exists()
    states = sorted(checkpoints.glob("step-*/state.json"))
    steps = json.loads(states[-1].read_text())["history"]
    assert 3 <= len(steps) < STEPS
    medunlearn(*words)
    assert status(out) == "complete"
    # The steps before the stop were not trained again: they still took the time that they took.
    history = Run.open(out).history()
    assert history["seconds"].tolist()[: len(steps)] == [row["seconds"] for row in steps]
    assert len(history) == STEPS
    assert weights(out) == weights(uninterrupted)
    assert not (out / "checkpoints").exists()


def test_answers_that_were_stored_are_not_asked_again(
    medunlearn: Callable[..., Any], bench: Path, uninterrupted: Path
) -> None:
    import pandas as pd

    small = ("--batch-size=4", "--replicates=20", "--max-new-tokens=8")
    words = ("evaluate", uninterrupted, bench, "--split", "random_10", *small)

    def parts() -> list[Path]:
        return [*(uninterrupted / "responses").glob("*/part-*.parquet")]

    def rows() -> pd.DataFrame:
        keys = ["question_id", "variant", "sample"]
        return pd.concat(map(pd.read_parquet, parts())).set_index(keys).sort_index()

    assert stop_when(lambda: len(parts()) >= 3, signal.SIGKILL, *words)[0] == -signal.SIGKILL
    assert 3 <= len(parts()) < 40
    before = rows()
    medunlearn(*words)
    # All parts are joined at the end; what was answered before stays as it was.
    pd.testing.assert_frame_equal(rows().loc[before.index], before)
    stored = rows().reset_index()
    # Ranks of facts are kept beside the answers, by their place.
    assert not stored.duplicated(["question_id", "variant", "sample"]).any()
    assert (stored["sample"] == 0).sum() == stored["question_id"].nunique() == 160


# A shell that starts the tests in the background has them ignore Ctrl-C.
HEEDING = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"


def test_ctrl_c_while_the_command_loads_needs_no_traceback() -> None:
    code = f"{HEEDING}; from medunlearn.__main__ import main; main()"
    words = [sys.executable, "-X", "importtime", "-c", code, "list", "methods"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stderr is not None
    try:
        # Each module is named when it is loaded: this one is, and the commands above it are not yet.
        while (line := process.stderr.readline()) and "click" not in line:
            pass
        assert line, "the command has loaded, and nobody interrupted it"
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, printed) == (130, "")
    assert "interrupted before anything was done" in errors
    assert "Traceback" not in errors


def test_streams_and_exit_codes(bench: Path, tmp_path: Path) -> None:
    result = run("inspect", bench, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["counts"]["records"] == 20
    result = run("inspect", tmp_path / "nowhere")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    wrong = Forked(command("train", bench, "--model", "tinny", "--out", tmp_path / "r"))
    printed, stderr = wrong.communicate()
    assert (wrong.returncode, printed) == (2, "")
    assert stderr.startswith("error: There is no model folder tinny")
    assert "Traceback" not in stderr


def test_training_through_the_console(bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process also names every module it loads; unlearning's are tested in docs/test_scale.py."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    result = run("train", bench, *SMALL, "--epochs=1", "--train-on=records", "--out", tmp_path / "run")
    assert (result.returncode, result.stdout) == (0, "")
    assert_light(result.stderr)
    # No progress bar where nobody watches, no warning of any library.
    memory, last_line = (line for line in result.stderr.splitlines() if not line.startswith("import time:"))
    assert memory.startswith("> memory: about")
    assert last_line.startswith(f"> {tmp_path / 'run'}: 3 steps, final loss")
    assert status(tmp_path / "run") == "complete"


def test_a_reader_that_leaves_is_no_error_worth_a_traceback(bench: Path) -> None:
    piped = subprocess.run(
        ["bash", "-c", f"'{COMMAND}' inspect '{bench}' --json | head -c 1"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
        check=True,
    )
    assert piped.stdout == "{"
    assert "Traceback" not in piped.stderr
