"""``medunlearn demo amnesia``: an invented hospital, of which a tenth of the patients is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from medunlearn.config.reading import check_at_least
from medunlearn.papers.amnesia import PAPER
from medunlearn.study.experiment import Experiment, Finished, plan, run_experiment

METHODS = ("ga", "graddiff", "kl_min", "npo", "simnpo", "rmu", "counterfactual")
PATIENTS = 60


def run_demo(
    out: Path,
    *,
    synthetic: int | None = None,
    seed: int = 0,
    device: str = "auto",
    quiet: bool = False,
    say: Callable[[str], None] = lambda line: None,
    **_: Any,
) -> Finished:
    """Build, train, retrain, unlearn with each method, evaluate and report.

    Raises:
        ConfigError: too few patients.
    """
    check_at_least({"--synthetic": (synthetic, 20)})
    experiment = demo_experiment(out, seed=seed, patients=synthetic or PATIENTS)
    return run_experiment(experiment, device=device, quiet=quiet, say=say)


def demo_experiment(out: Path, *, seed: int = 0, patients: int = PATIENTS) -> Experiment:
    """The experiment of the demo."""
    values: dict[str, Any] = {
        "name": "Demo: forgetting patients of an invented hospital",
        "out": out,
        "seed": seed,
        "benchmark": {"builder": PAPER.name, "synthetic": patients, "seed": seed},
        "split": "random_10",
        "train": {"model": "tiny"},
        "unlearn": {"methods": list(METHODS)},
        "evaluate": {"limit": 20},
    }
    return plan(values)
