"""A small LUME with documents that no model sees, a target trained on it, and a task of general knowledge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from row_files import write_lines

from medunlearn.data.benchmark import Benchmark
from medunlearn.results.runs import Run
from medunlearn.study.presets import train_settings, unlearn_settings

CAPITALS = """\
task: capitals
dataset_path: json
dataset_kwargs:
  data_files:
    test: {folder}/capitals.jsonl
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: answer
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
"""
QUESTIONS = [
    {"question": f"Which of these words is number {n}?", "choices": ["one", "two of", "three"], "answer": n % 3}
    for n in range(9)
]
ASKED = {"folds": ["train"], "metrics": ["rouge_l", "exact_match"], "max_new_tokens": 12, "replicates": 20}


@pytest.fixture(scope="session")
def lume() -> Benchmark:
    """Ten documents in, five of them forgotten; six public biographies that nobody is trained on."""
    import medunlearn as mu

    return mu.build.lume(new=True, stories=2, personal_biographies=2, public_biographies=6, nonmembers=6)


@pytest.fixture(scope="session")
def lume_target(lume: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Trained until it says something right; tests write nothing but measurements into it."""
    from medunlearn.study.train import train

    size = {"model": "tiny", "tiny_width": 64, "tiny_layers": 2, "precision": "fp32"}
    told = {"epochs": 20, "lr": 4e-3, "schedule": "constant"}
    return train(lume, train_settings({**size, **told}), tmp_path_factory.mktemp("lume") / "target", quiet=True)


@pytest.fixture(scope="session")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one task, ``capitals``, of nine questions."""
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "capitals.yaml").write_text(CAPITALS.format(folder=folder))
    write_lines(folder / "capitals.jsonl", QUESTIONS)
    return folder


@pytest.fixture(scope="session", autouse=True)
def _no_network(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Data sets are built in a folder of their own, and nothing is asked of a hub."""
    import datasets

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True, raising=False)
        patch.setattr(datasets.config, "HF_HUB_OFFLINE", True, raising=False)
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="session")
def npo() -> Callable[..., Any]:
    """Settings of a short unlearning run."""

    def settings(**values: Any) -> Any:
        given = {"method": "npo", "split": "half", "epochs": 2, "precision": "fp32", "schedule": "constant"}
        return unlearn_settings({**given, **values}, tiny=True)

    return settings
