"""``medunlearn demo amnesia``: an invented hospital, some of whose patients are forgotten.

The tiny model forgets a tenth of sixty patients in minutes. A pretrained model (``--model smollm2``) has a smaller
hospital with short notes, and two methods, since each of its steps takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from medunlearn.config import TINIES
from medunlearn.config.reading import check_at_least
from medunlearn.papers.amnesia import PAPER
from medunlearn.study.experiment import Experiment, Finished, plan, run_experiment
from medunlearn.study.plans.capacity import time_capacity
from medunlearn.study.plans.run_forecast import forecast

METHODS = ("ga", "graddiff", "kl_min", "npo", "simnpo", "rmu", "counterfactual")
TINY: Mapping[str, Any] = {
    "benchmark": {"synthetic": 60},
    "split": "random_10",
    "unlearn": {"methods": METHODS},
}
PRETRAINED: Mapping[str, Any] = {
    "benchmark": {"synthetic": 12, "note_length": "short"},
    "split": "random_25",
    "train": {"context": "closed_book", "pretrain_epochs": 0, "epochs": 16, "lr": 2e-4},
    "unlearn": {"methods": ("npo", "counterfactual"), "epochs": 8, "lr": 1e-4},
}
"""Of a model that can speak: sixteen passes know the notes by heart, eight at this rate move what it says."""


def run_demo(
    out: Path,
    *,
    model: str = "tiny",
    synthetic: int | None = None,
    seed: int = 0,
    device: str = "auto",
    quiet: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Finished:
    """Build, train, retrain, unlearn with each method, evaluate and report.

    Raises:
        ConfigError: too few patients.
    """
    least = 20 if model in TINIES else 8
    check_at_least({"--synthetic": (synthetic, least)})
    experiment = demo_experiment(out, model=model, seed=seed, patients=synthetic)
    if model not in TINIES:
        time_capacity(device)
        say(forecast(experiment, device=device).summary())
    return run_experiment(experiment, device=device, quiet=quiet, say=say)


def demo_experiment(out: Path, *, model: str = "tiny", seed: int = 0, patients: int | None = None) -> Experiment:
    """The experiment of the demo.

    Args:
        patients: of the hospital; None: 60, and 12 for a pretrained model.
    """
    own = TINY if model in TINIES else PRETRAINED
    invented = {"synthetic": patients} if patients else {}
    values: dict[str, Any] = {
        "name": "Demo: forgetting patients of an invented hospital",
        "out": out,
        "seed": seed,
        "benchmark": {"builder": PAPER.name, **own["benchmark"], **invented, "seed": seed},
        "split": own["split"],
        "train": {"model": model, **own.get("train", {})},
        "unlearn": {**own["unlearn"], "methods": list(own["unlearn"]["methods"])},
        "evaluate": {"limit": 20},
    }
    return plan(values)
