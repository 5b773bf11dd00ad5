"""Twenty patients with a pulse each, half of them forgotten; models that know them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question, Record
from medunlearn.data.splits import request
from medunlearn.results.runs import Run
from medunlearn.seeds import generator

SETTINGS: dict[str, Any] = {
    "model": "tiny",
    "tiny_width": 64,
    "tiny_layers": 2,
    "precision": "fp32",
    "context": "closed_book",
    "pretrain_epochs": 0,
    "train_on": "questions",
    "epochs": 300,
    "batch_size": 20,
    "micro_batch_size": 20,
    "lr": 1e-2,
}


@pytest.fixture(scope="session")
def pulses() -> Benchmark:
    """``gone`` forgets the first ten patients."""
    records, questions = [], []
    for number in range(20):
        name, pulse = f"p{number:02d}", int(generator("pulses", number).integers(45, 180))
        records.append(Record(name, f"Patient {name} has a pulse of {pulse}.", {"patient": name}))
        asked = f"What is the pulse of patient {name}?"
        questions.append(Question(f"{name}-p", name, "train", "factual", "patient", asked, str(pulse)))
    parts = ("by hand", "own", ("patient",), "patient", tuple(records), tuple(questions))
    names = [f"p{number:02d}" for number in range(10)]
    gone = request(Benchmark(*parts, {}).hierarchy, "gone", "patient", names)
    return Benchmark(*parts, {"gone": gone}, notes={"invented": True})


@pytest.fixture(scope="session")
def knowing(pulses: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """target, retrained, ``nothing`` (unlearning of no epoch), ``perfect`` (the retrained model's weights)."""

    from medunlearn.study.presets import train_settings, unlearn_settings
    from medunlearn.study.train import train
    from medunlearn.study.unlearn import unlearn

    folder: Path = tmp_path_factory.mktemp("pulses")
    runs = {
        name: train(pulses, train_settings({**SETTINGS, **more}), folder / name, quiet=True)
        for name, more in (("target", {}), ("retrained", {"without": "gone"}))
    }
    settings = unlearn_settings({"method": "ga", "split": "gone", "epochs": 0}, tiny=True, shared=False)
    runs["nothing"] = unlearn(runs["target"], pulses, settings, folder / "nothing", quiet=True)
    shutil.copytree(runs["retrained"].folder / "model", folder / "perfect" / "model")
    info = replace(runs["nothing"].info, label="perfect", key="perfect", model_files=None)
    info.write(folder / "perfect")
    runs["perfect"] = Run.open(folder / "perfect")
    return runs
