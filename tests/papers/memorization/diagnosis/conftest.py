"""A small benchmark of diagnosis, and a model that was trained on it and watched, made once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import medunlearn as mu
from medunlearn.data.benchmark import Benchmark
from medunlearn.results.runs import Run

SMALL = {"model": "tiny", "tiny_width": 32, "tiny_layers": 2, "precision": "fp32", "batch_size": 4}
WATCH = {"part": "test", "prefix_tokens": 50, "new_tokens": 60, "limit": 6, "replicates": 40}


@pytest.fixture(scope="session")
def bench() -> Benchmark:
    """Twenty patients: eleven to train on, four for validation, five for testing."""
    return mu.build.diagnosis(synthetic=20, validation=4, test=5)


@pytest.fixture(scope="session")
def small() -> dict[str, Any]:
    """Settings of a training run."""
    return {**SMALL, "preset": "diagnosis-tiny"}


@pytest.fixture(scope="session")
def watched(bench: Benchmark, small: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two epochs, all watched; tests write nothing into it but diagnoses."""
    folder: Path = tmp_path_factory.mktemp("diagnosis") / "run"
    return mu.train(bench, out=folder, quiet=True, epochs=2, watch=WATCH, **small)


def best_epoch(run: Run) -> int:
    """The epoch whose model is the run's."""
    return int(run.info["results"]["epochs"]["chosen"])
