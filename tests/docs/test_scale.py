"""The commands of docs/scale.md run as they stand but for the size of the training."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from forking import assert_light, torchrun
from pages import Page, run_line

from medunlearn.results.runs import Run

PAGE = Page.read("hardware.md", "Several processes", "Less memory")
SMALL = {
    "train": ["--epochs=1", "--train-on=records", "--tiny-width=32", "--tiny-layers=2"],
    "unlearn": ["--epochs=1"],
}


def run(line: str) -> None:
    words = shlex.split(line)
    more = next((more for verb, more in SMALL.items() if verb in words), [])
    if words[0] == "torchrun":
        torchrun([*words[1:], *more])
    else:
        run_line(line, more)


def test_commands_run_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = PAGE.commands
    assert len(lines) == 5
    for line in lines:
        run(line)
    processes = {
        name: Run.open(f"runs/{name}").info["hardware"]["processes"] for name in ("npo", "graddiff", "simnpo")
    }
    assert processes == {"npo": 2, "graddiff": 2, "simnpo": 1}


@pytest.mark.nightly
def test_torchrun_itself_starts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its processes loads torch, which takes longer than their work."""
    monkeypatch.chdir(tmp_path)
    *made, started = PAGE.commands[:3]
    for line in made:
        run(line)
    command = [sys.executable, "-m", "torch.distributed.run", *shlex.split(started)[1:], *SMALL["unlearn"]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert_light(done.stderr)
    assert Run.open("runs/npo").info["hardware"]["processes"] == 2


def test_every_setting_that_the_page_names_is_one() -> None:
    from medunlearn.config import TrainSettings, UnlearnSettings

    named = PAGE.flags - {"plan"}
    assert named <= {*TrainSettings.model_fields, *UnlearnSettings.model_fields}
    assert {"offload", "optimizer", "gradient_checkpointing"} <= named
