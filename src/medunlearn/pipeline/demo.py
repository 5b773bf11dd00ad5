"""The demo: an invented hospital, a model that memorizes it, and six ways to forget some of its patients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medunlearn.pipeline.pipeline import Experiment, plan

METHODS = ("ga", "graddiff", "kl_min", "npo", "simnpo", "rmu")


def demo_experiment(out: Path, *, seed: int = 0, patients: int = 60) -> Experiment:
    """What ``medunlearn demo`` runs: a tenth of the patients ask to be forgotten."""
    values: dict[str, Any] = {
        "name": "Demo: forgetting patients of an invented hospital",
        "out": out,
        "seed": seed,
        "benchmark": {"builder": "amnesia", "invented": patients, "seed": seed},
        "split": "random_10",
        "train": {"model": "tiny"},
        "unlearn": {"methods": list(METHODS)},
        "evaluate": {"subjects": 20},
    }
    return plan(values)
