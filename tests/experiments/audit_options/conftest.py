"""Invented questions whose options nobody can guess, and a model trained on half of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.experiments.runs import Run
from medunlearn.seeds import generator

SYLLABLES = ("ba", "co", "du", "fe", "gi", "ka", "lo", "mu", "ne", "pi", "ra", "so", "tu", "ve", "zi")


def invented_questions(count: int) -> list[dict[str, Any]]:
    """Rows of MedQA's form."""
    rows = []
    for number in range(count):
        draw = generator("invented options", number)
        names = draw.choice([a + b for a in SYLLABLES for b in SYLLABLES], 5, replace=False).tolist()
        options = dict(zip("ABCD", names[1:], strict=True))
        right = "ABCD"[number % 4]
        rows.append(
            {
                "id": f"i{number:02d}",
                "question": f"What helps against {names[0]} of grade {number}?",
                "options": options,
                "answer_idx": right,
                "answer": options[right],
            }
        )
    return rows


@pytest.fixture(scope="session")
def question_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("options") / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in invented_questions(32)))
    return path


@pytest.fixture(scope="session")
def choices(question_file: Path) -> Benchmark:
    """Sixteen questions to train on, sixteen that no model sees."""
    from medunlearn.experiments.build import build

    return build("options", {"file": question_file, "nonmembers": 16, "percents": [25]})


@pytest.fixture(scope="session")
def before_and_after(choices: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """The same small model, hardly trained, and trained until it knows the options."""
    from medunlearn.experiments.presets import train_settings
    from medunlearn.experiments.train import train

    folder = tmp_path_factory.mktemp("options_runs")
    small = {"model": "tiny", "tiny_width": 64, "tiny_layers": 2, "tiny_vocabulary": 320, "precision": "fp32"}
    runs = []
    for name, epochs in (("before", 1), ("after", 50)):
        settings = train_settings({**small, "epochs": epochs, "lr": 4e-3, "batch_size": 8})
        runs.append(train(choices, settings, folder / name, quiet=True))
    return runs[0], runs[1]
