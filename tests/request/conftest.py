"""One hospital for all tests of deletion requests, and one request that was carried out; runs to delete exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forgetting_world import EXACT_TRAINING, Hospital, open_hospital, other_model

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.request.forget_stages import Forgotten
from medunlearn.results.runs import Run
from medunlearn.study.presets import train_settings
from medunlearn.study.train import train


@pytest.fixture(scope="session")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Hospital:
    return open_hospital(tmp_path_factory.mktemp("hospital"))


@pytest.fixture(scope="session")
def forgotten(hospital: Hospital) -> Forgotten:
    """The first patient's request, carried out. Do not change it."""
    return hospital.forget(hospital.folder / "case", hospital.patients[0])


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that never saw a note of the hospital."""
    return other_model(tmp_path_factory.mktemp("stranger"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exact")


@pytest.fixture(scope="session")
def bench(folder: Path) -> Benchmark:
    return Benchmark.load(build(AmnesiaSettings(synthetic=16)).save(folder / "bench"))


@pytest.fixture(scope="session")
def make(bench: Benchmark, folder: Path) -> Callable[..., Run]:
    """``make("name", trainable="lora:4")``: a training on the benchmark."""

    def trained(name: str, **values: Any) -> Run:
        return train(bench, train_settings({**EXACT_TRAINING, **values}), folder / name, quiet=True)

    return trained


@pytest.fixture(scope="session")
def full(make: Callable[..., Run]) -> Run:
    return make("full", epochs=2)
