"""A target trained on the small hospital, and an experiment so small that a stage takes a second."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.results.runs import Run


@pytest.fixture(scope="session")
def experiment_values(small: dict[str, Any]) -> dict[str, Any]:
    """An experiment of one method, without a folder."""
    return {
        "name": "Small",
        "benchmark": {"builder": "amnesia", "synthetic": 20},
        "split": "random_10",
        "train": {**small, "epochs": 1},
        "unlearn": {"methods": ["graddiff"], "epochs": 1, "precision": "fp32"},
        "evaluate": {"limit": 2, "replicates": 20, "max_new_tokens": 4},
    }


@pytest.fixture(scope="session")
def target(hospital: Benchmark, small: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Tests read it and write nothing but evaluations into it."""
    from medunlearn.study.presets import train_settings
    from medunlearn.study.train import train

    folder: Path = tmp_path_factory.mktemp("hospital") / "target"
    return train(hospital, train_settings(small), folder, quiet=True)


@pytest.fixture(scope="session")
def knowing(hospital: Benchmark, small: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A target that gives its training tokens more than a tenth of the probability, but no fact in its place."""
    from medunlearn.study.presets import train_settings
    from medunlearn.study.train import train

    settings = train_settings({**small, "epochs": 12, "lr": 1e-2, "train_on": "questions"})
    return train(hospital, settings, tmp_path_factory.mktemp("knowing") / "run", quiet=True)


@pytest.fixture
def copy(target: Run, tmp_path: Path) -> Callable[..., Run]:
    """``copy("name")``: a copy of the target's run that was never evaluated."""

    def make(name: str = "run") -> Run:
        ignore = shutil.ignore_patterns("evaluations", "responses", "judgements")
        shutil.copytree(target.folder, tmp_path / name, ignore=ignore)
        return Run.open(tmp_path / name)

    return make
