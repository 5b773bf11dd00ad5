"""Trackers hear a run's numbers, nothing of data that must stay, and never end a run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from medunlearn.errors import InputError
from medunlearn.training import trackers
from medunlearn.training.trackers import TRACKERS, Tool, Tracking, check_tracker

ROW = {"step": 3, "epoch": 1, "loss": 0.5, "loss/forget": float("nan"), "note": "a patient", "lr": 1e-3}


class Listener:
    def __init__(self) -> None:
        self.heard: list[tuple[dict[str, float], int]] = []
        self.closed = False

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        self.heard.append((dict(numbers), step))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Listener:
    listener = Listener()
    monkeypatch.setattr(trackers, "TRACKERS", {"wandb": Tool("json", lambda folder, name: listener)})
    return listener


def test_numbers_are_told_by_phase_and_epoch(listener: Listener, tmp_path: Path) -> None:
    tracking = Tracking("wandb", tmp_path, "npo-1234")
    tracking.step("unlearn", ROW)
    tracking.epoch({"forget/train/rouge_l": 0.25, "reason": "no text"}, 2)
    tracking.close()
    assert listener.heard == [
        ({"unlearn/epoch": 1.0, "unlearn/loss": 0.5, "unlearn/lr": 1e-3}, 3),
        ({"epoch/forget/train/rouge_l": 0.25}, 2),
    ]
    assert listener.closed


def test_without_one_nothing_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(trackers, "TRACKERS", {})
    tracking = Tracking("none", tmp_path, "npo")
    tracking.step("unlearn", ROW)
    tracking.close()


def test_a_failure_is_said_once_and_ends_no_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    starts = []

    def start(folder: Path, name: str) -> Any:
        starts.append(name)
        raise OSError("no route to host")

    monkeypatch.setattr(trackers, "TRACKERS", {"wandb": Tool("json", start)})
    tracking = Tracking("wandb", tmp_path, "npo")
    for _ in range(3):
        tracking.step("unlearn", ROW)
    tracking.close()
    assert starts == ["npo"]
    assert capsys.readouterr().err.count("wandb failed, and is told nothing more: no route to host") == 1


@pytest.mark.parametrize(("use", "why"), [("credentialed", "is credentialed"), (None, "nobody says")])
def test_data_that_must_stay_needs_the_flag(listener: Listener, use: Any, why: str) -> None:
    with pytest.raises(InputError, match=rf"{why}.*--allow-tracking"):
        check_tracker("wandb", use, permitted=False)
    check_tracker("wandb", use, permitted=True)
    check_tracker("wandb", "open", permitted=False)
    check_tracker("none", use, permitted=False)


def test_one_that_is_not_installed_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "find_spec", lambda package: None)
    for name in TRACKERS:
        extra = "trackio" if name == "trackio" else rf"'medunlearn\[{name}\]'"
        with pytest.raises(InputError, match=f"--tracker {name} is not installed: pip install {extra}$"):
            check_tracker(name, "open", permitted=False)


def test_tensorboard_has_the_numbers(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tracking = Tracking("tensorboard", tmp_path, "npo-1234")
    tracking.step("unlearn", ROW)
    tracking.close()
    events = EventAccumulator(str(tmp_path / trackers.FOLDER / "npo-1234"))
    events.Reload()
    (event,) = events.Scalars("unlearn/loss")
    assert (event.step, event.value) == (3, 0.5)


def test_mlflow_has_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(tmp_path.as_uri())
    tracking = Tracking("mlflow", tmp_path, "npo-1234")
    tracking.step("unlearn", ROW)
    tracking.epoch({"forget/H(1-rouge_l, 1-em)": 0.75}, 1)
    (run,) = mlflow.search_runs(experiment_names=[trackers.PROJECT], output_format="list")
    tracking.close()
    assert str(Path(__file__).parents[2]) not in str(run.data.tags)
    told = {"unlearn/epoch": 1.0, "unlearn/loss": 0.5, "unlearn/lr": 1e-3}
    assert run.data.metrics == {**told, "epoch/forget/H_1-rouge_l_ 1-em_": 0.75}


def test_wandb_leaves_out_no_step_and_hears_of_no_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """W&B leaves out what comes at a smaller step than the last: the first epoch ends at step 3."""
    logged, axes = list[dict[str, float]](), dict[str, str]()
    run = SimpleNamespace(
        define_metric=lambda pattern, step_metric: axes.update({pattern: step_metric}),
        log=logged.append,  # a step of its own would be an error here
        finish=lambda: None,
    )
    begun = dict[str, Any]()

    def init(**values: Any) -> SimpleNamespace:
        begun.update(values)
        return run

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init, Settings=dict))
    tracking = Tracking("wandb", tmp_path, "npo-1234")
    tracking.step("unlearn", ROW)
    tracking.epoch({"forget/train/em": 0.25}, 1)
    tracking.close()
    assert axes == {"*": "step", "epoch/*": "epoch"}
    # W&B's metadata holds the command line, which names a split; its console log what the terminal shows.
    assert (begun["settings"]["x_disable_meta"], begun["settings"]["console"]) == (True, "off")
    assert logged == [
        {"unlearn/epoch": 1.0, "unlearn/loss": 0.5, "unlearn/lr": 1e-3, "step": 3},
        {"epoch/forget/train/em": 0.25, "epoch": 1},
    ]
