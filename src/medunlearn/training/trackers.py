"""Experiment trackers: TensorBoard, trackio, Weights & Biases or MLflow get a run's numbers during training.

None is enabled by default. A tracker gets losses, rates and measures by step and epoch, with the name of the run's
folder and its key, but no settings, paths, splits or text. Some send data to another machine, so numbers on
credentialed or unrecorded data need ``--allow-tracking``.

A new tracker is a function from a folder and a name to a :class:`Tracker`, in :data:`TRACKERS`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from medunlearn.data.data_use import DataUse
from medunlearn.errors import InputError, first_line
from medunlearn.progress import remark

FOLDER = "tracking"
PROJECT = "medunlearn"
FLAG = "--allow-tracking"
EPOCH = "epoch"
"""First part of the names of an epoch's measures."""


class Tracker(NamedTuple):
    """A tracker: a function for the numbers of a step or an epoch, and one that closes it.

    Failures of either do not end the run.
    """

    log: Callable[[dict[str, float], int], Any]
    close: Callable[[], Any]


class Tool(NamedTuple):
    """A tracker's package by import name, its start function (folder of the run, its name), and its extra.

    Trackio has no extra, since it needs an older Pillow than the lock file.
    """

    package: str
    start: Callable[[Path, str], Tracker]
    extra: str = ""


def _tensorboard(folder: Path, name: str) -> Tracker:
    from torch.utils.tensorboard import SummaryWriter

    writer: Any = SummaryWriter(log_dir=str(folder / FOLDER / name))

    def log(numbers: dict[str, float], step: int) -> None:
        for key, value in numbers.items():
            writer.add_scalar(key, value, step)

    return Tracker(log, writer.close)


def _trackio(folder: Path, name: str) -> Tracker:
    run: Any = import_module("trackio").init(project=PROJECT, name=name, embed=False)
    return Tracker(lambda numbers, step: run.log(numbers, step=step), run.finish)


def _wandb(folder: Path, name: str) -> Tracker:
    import wandb

    # By itself it also sends the command line (a patient's id may be a split), the terminal's output, host and git.
    silent = wandb.Settings(
        console="off",
        disable_code=True,
        disable_git=True,
        host="",
        program="medunlearn",
        save_code=False,
        username="",
        x_disable_machine_info=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
    )
    run: Any = wandb.init(project=PROJECT, name=name, dir=str(folder), settings=silent)
    # Its count must never fall, and an epoch's number is less than the last step's: each has an axis of its own.
    run.define_metric("*", step_metric="step")
    run.define_metric(f"{EPOCH}/*", step_metric=EPOCH)

    def log(numbers: dict[str, float], step: int) -> None:
        of_epoch = all(key.startswith(f"{EPOCH}/") for key in numbers)
        run.log({**numbers, EPOCH if of_epoch else "step": step})

    return Tracker(log, run.finish)


def _mlflow(folder: Path, name: str) -> Tracker:
    import mlflow

    mlflow.set_experiment(PROJECT)
    # In place of what it finds out by itself: user, path of the program, commit.
    tags = {"mlflow.user": "", "mlflow.source.name": "medunlearn", "mlflow.source.git.commit": ""}
    mlflow.start_run(run_name=name, tags=tags)

    def log(numbers: dict[str, float], step: int) -> None:
        # It refuses other signs in names, as those of H(1-rouge_l, 1-em).
        mlflow.log_metrics({re.sub(r"[^\w\-. :/]", "_", key): value for key, value in numbers.items()}, step=step)

    return Tracker(log, mlflow.end_run)


TRACKERS: Mapping[str, Tool] = {
    "tensorboard": Tool("tensorboard", _tensorboard, "'medunlearn[tensorboard]'"),
    "trackio": Tool("trackio", _trackio, "trackio"),
    "wandb": Tool("wandb", _wandb, "'medunlearn[wandb]'"),
    "mlflow": Tool("mlflow", _mlflow, "'medunlearn[mlflow]'"),
}


def check_tracker(name: str, data_use: DataUse | None, *, permitted: bool) -> None:
    """Refuse a tracker that is not installed, or not permitted for the data, before anything is loaded.

    Args:
        name: key of :data:`TRACKERS`, or ``none``.

    Raises:
        InputError: names the extra, or the flag.
    """
    if name == "none":
        return
    if data_use != "open" and not permitted:
        why = "the data is credentialed" if data_use == "credentialed" else "nobody says that the data is open"
        raise InputError(
            f"--tracker {name}: {why}, so trackers are refused. Leave it out, or pass {FLAG} if you are permitted "
            "to send losses and measures there."
        )
    if find_spec(TRACKERS[name].package) is None:
        raise InputError(f"--tracker {name} is not installed: pip install {TRACKERS[name].extra}")


class Tracking:
    """Sends a run's numbers to its tracker, if it has one.

    Args:
        name: key of :data:`TRACKERS`, or ``none``.
        title: name of the run in the tracker.
    """

    def __init__(self, name: str, folder: Path, title: str, *, quiet: bool = False) -> None:
        self._name, self._folder, self._title, self._quiet = name, folder, title, quiet
        self._tracker: Tracker | None = None
        self._failed = name == "none"

    def step(self, phase: str, row: Mapping[str, Any]) -> None:
        """Send a row of the training history."""
        numbers = {f"{phase}/{key}": value for key, value in row.items() if key != "step"}
        self._tell(numbers, int(row["step"]))

    def epoch(self, numbers: Mapping[str, Any], epoch: int) -> None:
        """Measures after an epoch."""
        self._tell({f"{EPOCH}/{key}": value for key, value in numbers.items()}, epoch)

    def close(self) -> None:
        """Close the tracker, flushing its buffer."""
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            self._try(tracker.close)

    def _tell(self, numbers: Mapping[str, Any], step: int) -> None:
        def tell() -> None:
            if self._tracker is None:
                self._tracker = TRACKERS[self._name].start(self._folder, self._title)
            self._tracker.log({k: float(v) for k, v in numbers.items() if _is_number(v)}, step)

        if not self._failed:
            self._try(tell)

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # a tracker's client raises errors of many libraries
            self._failed = True
            remark(f"{self._name} failed, and is told nothing more: {first_line(error)}", quiet=self._quiet)


@dataclass
class StepReport:
    """Report of a phase's steps: progress and loss, the tracker, and a remark once micro-batches are smaller."""

    tracking: Tracking
    phase: str
    advance: Callable[..., None]
    micro_batch_size: int
    quiet: bool = False
    noted: bool = False

    def __call__(self, row: Mapping[str, Any]) -> None:
        size = row.get("micro_batch_size", self.micro_batch_size)
        if size < self.micro_batch_size and not self.noted:
            self.noted = True
            remark(
                f"memory ran out; from step {row['step']} on passes hold {size} sequences a side instead of "
                f"{self.micro_batch_size}, which changes no number but by rounding",
                quiet=self.quiet,
            )
        self.advance(1, note=f"loss {row['loss']:.3f}")
        self.tracking.step(self.phase, row)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
