"""Differences between epochs are those of the scores, paired on documents."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.lume import contrasts as module
from medunlearn.papers.lume.contrasts import COLUMNS, contrasts
from medunlearn.results.evaluated import Evaluated
from medunlearn.study.benchmark_builds import build

NEW = {"new": True, "stories": 12, "personal_biographies": 2, "public_biographies": 2, "nonmembers": 0}


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return build("lume", NEW)


def evaluated(benchmark: Benchmark, label: str, role: str, method: str | None, scores: dict[str, float]) -> Any:
    """A model with these scores on completions, by question."""
    sides = benchmark.sides(benchmark.split("half"))
    questions = [question for question in benchmark.questions if question.kind == "completion"]
    return SimpleNamespace(
        run=SimpleNamespace(label=label, role=role, folder=Path(label), info={"config": {"method": method}}),
        record=SimpleNamespace(info={"config": {"split": "half"}}),
        table=pd.DataFrame(
            {
                "item": [question.question_id for question in questions],
                "subject": [question.record_id for question in questions],
                "side": [sides[question.record_id] for question in questions],
                "fold": [question.fold for question in questions],
                "kind": [question.kind for question in questions],
                "measure": "rouge_l",
                "value": [scores[question.question_id] for question in questions],
                "reason": None,
            }
        ),
    )


def draw_scores(benchmark: Benchmark, mean: float, seed: int) -> dict[str, float]:
    draw = np.random.default_rng(seed)
    names = [question.question_id for question in benchmark.questions if question.kind == "completion"]
    return {name: float(np.clip(mean + draw.normal(0, 0.05), 0, 1)) for name in names}


def of_stories(benchmark: Benchmark, model: Any, side: str) -> float:
    """The mean by hand: a plain mean over the stories of one side."""
    task = {record.record_id: record.groups["task"] for record in benchmark.records}
    stories = model.table[model.table["subject"].map(task).eq("story") & (model.table["side"] == side)]
    return float(stories["value"].mean())


@pytest.fixture
def runs(benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """GD falls to 0.02 and rises to 0.4, NPO goes from 0.8 to 0.7; both in three epochs."""
    target = evaluated(benchmark, "target", "target", None, draw_scores(benchmark, 0.9, 0))
    means = {"GD": ("graddiff", (0.5, 0.02, 0.4)), "NPO": ("npo", (0.8, 0.75, 0.7))}
    epochs = {
        label: {
            number: evaluated(benchmark, label, "unlearned", method, draw_scores(benchmark, mean, number))
            for number, mean in enumerate(of_epochs, 1)
        }
        for label, (method, of_epochs) in means.items()
    }
    monkeypatch.setattr(module, "_epochs", lambda model: epochs.get(model.run.label, {}))
    models = [target, *(epochs[label][3] for label in means)]
    return {"models": models, "epochs": epochs, "target": target}


def row(table: pd.DataFrame, name: str, model: str, *, about: str = "") -> dict[str, Any]:
    rows = table[(table["contrast"] == name) & (table["model"] == model) & (table["node"] == "story")]
    (values,) = rows[rows["about"].str.contains(about)].to_dict("records")
    return {str(key): value for key, value in values.items()}


def test_each_is_the_difference_of_means_by_hand(benchmark: Benchmark, runs: dict[str, Any]) -> None:
    table = contrasts(runs["models"], benchmark, 200, 0)
    t = {side: of_stories(benchmark, runs["target"], side) for side in ("forget", "retain")}
    gd = {n: of_stories(benchmark, epoch, "retain") for n, epoch in runs["epochs"]["GD"].items()}
    assert row(table, "zero", "GD", about="on retain")["value"] == pytest.approx(gd[2] - 0.1 * t["retain"])
    assert row(table, "fell", "GD")["value"] == pytest.approx(0.9 * t["retain"] - gd[2])
    assert row(table, "rose", "GD")["value"] == pytest.approx(gd[3] - gd[2] - 0.1 * t["retain"])
    mean = {
        label: np.mean([of_stories(benchmark, epoch, "forget") for epoch in runs["epochs"][label].values()])
        for label in ("GD", "NPO")
    }
    slower = row(table, "slower", "NPO")
    assert slower["value"] == pytest.approx(mean["NPO"] - mean["GD"])
    assert "minus that of GD" in slower["about"]
    assert slower["n_subjects"] == 6
    assert "after epoch 2" in row(table, "zero", "GD", about="on retain")["about"]


def test_runs_are_compared_by_what_their_methods_declare(benchmark: Benchmark, runs: dict[str, Any]) -> None:
    """SimNPO is a preference as NPO is; RMU neither that nor an ascent, and has its own contrasts alone."""
    for method, compared in {"simnpo": {"NPO"}, "rmu": set[str]()}.items():
        runs["models"][2].run.info["config"]["method"] = method
        table = contrasts(runs["models"], benchmark, 20, 0)
        assert set(table.loc[table["contrast"] == "slower", "model"]) == compared
        assert set(table.loc[table["contrast"] == "zero", "model"]) == {"GD", "NPO"}


def test_intervals_are_paired(benchmark: Benchmark, runs: dict[str, Any]) -> None:
    """Each epoch a constant below the last: documents differ by as much as they like, differences do not."""
    scores = draw_scores(benchmark, 0.9, 0)
    for label, step in (("GD", 0.2), ("NPO", 0.1)):
        for number, epoch in runs["epochs"][label].items():
            epoch.table["value"] = [scores[name] - step * number for name in epoch.table["item"]]
    slower = row(contrasts(runs["models"], benchmark, 200, 0), "slower", "NPO")
    # The documents do not differ: at most a share of others does, anywhere from -1 to 1.
    others = 1 - 0.025 ** (1 / 6)
    assert (slower["low"], slower["high"]) == pytest.approx((0.2 - 1.2 * others, 0.2 + 0.8 * others))


def test_a_question_without_a_score_in_one_epoch_is_left_out_of_all(
    benchmark: Benchmark, runs: dict[str, Any]
) -> None:
    second = runs["epochs"]["GD"][2].table
    task = {q.question_id: benchmark.record[q.record_id].groups["task"] for q in benchmark.questions}
    lost = next(name for name in second["item"] if task[name] == "story")
    second.loc[second["item"] == lost, "value"] = np.nan
    table = contrasts(runs["models"], benchmark, 50, 0)
    counts = table[(table["contrast"] == "zero") & (table["model"] == "GD") & (table["node"] == "story")]
    assert sorted(counts["n_subjects"]) == [5, 6]


def test_a_single_document_has_no_interval(benchmark: Benchmark, runs: dict[str, Any]) -> None:
    table = contrasts(runs["models"], benchmark, 50, 0)
    alone = table[table["node"] == "public_biography"]
    assert alone["low"].isna().all()
    assert alone["reason"].str.contains("subjects").all()


def test_a_run_is_read_against_the_target_of_its_own_seed(benchmark: Benchmark, runs: dict[str, Any]) -> None:
    """With another seed's target of 0.5 the tenth is 0.05; epoch 2 of GD stays 0.02."""
    other = evaluated(benchmark, "target 1", "target", None, draw_scores(benchmark, 0.5, 0))
    other.run.info["config"]["seed"] = 1
    runs["models"][1].run.info["config"]["seed"] = 1
    table = contrasts([*runs["models"], other], benchmark, 50, 0)
    gd = of_stories(benchmark, runs["epochs"]["GD"][2], "forget")
    expected = gd - 0.1 * of_stories(benchmark, other, "forget")
    assert row(table, "zero", "GD", about="on forget")["value"] == pytest.approx(expected)
    assert table[table["contrast"] == "slower"].empty


def test_elsewhere_there_are_none(benchmark: Benchmark, runs: dict[str, Any]) -> None:
    assert contrasts(runs["models"], None, 50, 0).empty
    assert list(contrasts(runs["models"], None, 50, 0).columns) == list(COLUMNS)
    models: list[Evaluated] = [model for model in runs["models"] if model.run.role != "target"]
    assert contrasts(models, benchmark, 50, 0).empty


@pytest.mark.parametrize(
    ("forget", "retain", "zero", "fell"),
    [(0.95, 0.95, "above", "below"), (0.2, 0.95, "above", "below"), (0.01, 0.01, "below", "above")],
    ids=["did nothing", "did everything right", "scrambled"],
)
def test_controls_of_the_differences(
    benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch, forget: float, retain: float, zero: str, fell: str
) -> None:
    """A target of 0.95 and methods that all end in one model: none is slower, and only a scrambled one falls."""
    target = evaluated(benchmark, "target", "target", None, draw_scores(benchmark, 0.95, 0))
    sides = dict(zip(target.table["item"], target.table["side"], strict=True))
    levels = {"forget": forget, "retain": retain}
    offset = {name: score - 0.95 for name, score in draw_scores(benchmark, 0.95, 0).items()}
    scores = {name: float(np.clip(levels[side] + offset[name], 0, 1)) for name, side in sides.items()}
    methods = {"GA": "ga", "GD": "graddiff", "NPO": "npo"}
    models = [evaluated(benchmark, label, "unlearned", method, scores) for label, method in methods.items()]
    monkeypatch.setattr(module, "_epochs", lambda model: {1: model, 2: model})
    table = contrasts([target, *models], benchmark, 200, 0)
    for label in methods:
        on_forget = row(table, "zero", label, about="on forget")
        assert (on_forget["low"] > 0) if zero == "above" else (on_forget["high"] < 0)
        on_retain = row(table, "fell", label)
        assert (on_retain["high"] < 0) if fell == "below" else (on_retain["low"] > 0)
        assert row(table, "rose", label)["high"] < 0
    slower = table[(table["contrast"] == "slower") & (table["node"] == "story")]
    assert slower["value"].abs().max() == pytest.approx(0, abs=1e-12)
