"""A model that a training broke stops no other cell, and no verdict calls it the best."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from forking import forked_workers

import medunlearn as mu
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import NonFiniteLossError
from medunlearn.results.runs import Run
from medunlearn.study.epochs.epoch_selection import EpochStanding, best_of
from medunlearn.study.presets import unlearn_settings
from medunlearn.study.sweep.rate_search import Trial, best_rate
from medunlearn.study.unlearn import unlearn

POISON, SILENCE = "broken:Poison", "broken:Silence"


def test_an_edit_that_leaves_nan_is_not_saved(hospital: Benchmark, target: Run, tmp_path: Path) -> None:
    settings = unlearn_settings({"method": POISON, "split": "random_10"}, tiny=None, shared=False)
    with pytest.raises(NonFiniteLossError, match=r"hold NaN or infinity \(model\.embed_tokens\.weight\)"):
        unlearn(target, hospital, settings, tmp_path / "r", quiet=True)
    assert not (tmp_path / "r" / "model").exists()
    assert json.loads((tmp_path / "r" / "run.json").read_text())["status"] == "failed"


def test_an_experiment_goes_on(experiment_values: dict[str, Any], tmp_path: Path) -> None:
    """NaN fails its method alone; a silent model is reported with a warning, and is not the closest."""
    methods = {"methods": [POISON, SILENCE, "graddiff"], "epochs": 1, "precision": "fp32"}
    lines: list[str] = []
    finished = mu.run(
        {**experiment_values, "out": tmp_path, "unlearn": methods}, device="cpu", quiet=True, say=lines.append
    )
    ((failed, reason),) = finished.failed
    assert failed == POISON
    assert "hold NaN or infinity" in reason
    assert any(line.startswith(f"{POISON}: failed: ") for line in lines)
    problems = {model.label: model.problems for model in finished.content.models}
    (silent,) = (label for label in problems if "Silence" in label)
    assert set(problems) == {"target", "retrained", silent, "GradDiff"}
    assert problems[silent] == ("all of its 32 answers are empty",) or "the same" in problems[silent][0]
    told = json.loads((tmp_path / "report" / "report.json").read_text())
    assert told["headline"]["closest_to_retrained"] != silent
    assert any(caveat.startswith(f"{silent} is a broken model") for caveat in told["caveats"])
    page = (tmp_path / "report" / "report.html").read_text()
    assert f"{silent} is a broken model" in page


def test_the_best_epoch_is_one_whose_model_works() -> None:
    broken = EpochStanding(1, {}, 0.9, problem="all of its answers are empty")
    healthy = EpochStanding(2, {}, 0.1)
    best = best_of([broken, healthy])
    assert best is not None
    assert best.epoch == 2
    only = best_of([broken])
    assert only is not None
    assert only.epoch == 1
    assert broken.facts()["problem"] == "all of its answers are empty"
    assert "problem" not in healthy.facts()


def test_the_best_rate_is_one_whose_model_works() -> None:
    broken = Trial("ga", 1e-2, score=0.9, problem="all of its answers are empty")
    assert best_rate([broken, Trial("ga", 1e-3, score=0.1)]) == 1e-3
    assert best_rate([broken, Trial("ga", 1e-3, reason="it diverged")]) == 1e-2


def test_a_collapse_in_a_sweep(experiment_values: dict[str, Any], small: dict[str, Any], tmp_path: Path) -> None:
    values = {
        **{name: experiment_values[name] for name in ("name", "benchmark", "train", "evaluate")},
        "splits": ["random_10"],
        "unlearn": {"methods": [POISON, SILENCE], "epochs": 1, "precision": "fp32"},
        "retrain": False,
        "out": tmp_path,
    }
    with forked_workers():
        swept = mu.sweep(values, jobs=1, device="cpu", quiet=True)
    assert len(swept.failed) == 2  # its unlearning, and so its evaluation
    assert all("Poison" in name for name, _ in swept.failed)
    states: pd.Series[Any] = swept.cells.set_index("name")["status"]
    assert (states[[name for name in states.index if "Silence" in name]] == "done").all()
    assert any("Silence" in line for line in swept.content.broken)
    assert "A broken model: " in (tmp_path / "report" / "report.md").read_text()
