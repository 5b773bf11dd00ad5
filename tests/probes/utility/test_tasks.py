"""Our benchmarks as tasks of lm-evaluation-harness: the same numbers as `evaluate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import medunlearn as mu
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError
from medunlearn.metrics.harness_metrics import mean_of_scored, process_results
from medunlearn.probes.utility.tasks import ExportedTasks
from medunlearn.results.runs import Run

from .conftest import ASKED

MEASURES = {"completion": ("rouge_l", "regurgitation"), "knowledge": ("exact_match", "knowledge")}


@pytest.fixture(scope="module")
def written(lume: Benchmark, lume_target: Run, tmp_path_factory: pytest.TempPathFactory) -> ExportedTasks:
    out = tmp_path_factory.mktemp("tasks") / "out"
    return mu.export_tasks(lume, out, split="half", folds="train", like=lume_target.folder, max_new_tokens=12)


def test_the_harness_finds_what_evaluate_finds(lume: Benchmark, lume_target: Run, written: ExportedTasks) -> None:
    ours = mu.evaluate(lume_target, lume, split="half", quiet=True, **ASKED).models[0].groups
    theirs = mu.utility(lume_target, tasks=written.groups, include=written.folder, replicates=20, quiet=True)
    found = theirs.table().set_index(["name", "metric"])["value"]
    compared, numbers = 0, []
    for row in ours[ours["level"] == "task"].to_dict("records"):
        metric, _ = MEASURES[row["kind"]]
        name = f"medunlearn_lume_half_{row['side']}_train_{row['node']}_{row['kind']}"
        assert found[name, metric] == pytest.approx(row["value"], abs=1e-12)
        compared, numbers = compared + 1, [*numbers, row["value"]]
    assert compared == 3 * 2 * 2 == len(written.tasks)
    assert len(set(numbers)) > 4  # a model that says nothing right would prove nothing


def test_a_group_weighs_its_tasks_by_size(lume: Benchmark, lume_target: Run, written: ExportedTasks) -> None:
    ours = mu.evaluate(lume_target, lume, split="half", quiet=True, **ASKED).models[0].summary
    table = mu.utility(lume_target, tasks=written.groups, include=written.folder, replicates=20, quiet=True).table()
    for side in ("forget", "retain"):
        row = ours[(ours["side"] == side) & (ours["kind"] == "all") & (ours["measure"] == "rouge_l")].iloc[0]
        group = table[(table["name"] == f"medunlearn_lume_half_{side}") & (table["metric"] == "rouge_l")].iloc[0]
        assert group["value"] == pytest.approx(row["value"], abs=1e-12)
        assert group["n_scored"] == row["n_scored"]


def test_what_a_task_holds(written: ExportedTasks, lume: Benchmark) -> None:
    name = "medunlearn_lume_half_forget_train_story_knowledge"
    rows = [json.loads(line) for line in (written.folder / f"{name}.jsonl").read_text().splitlines()]
    assert len(rows) == written.tasks[name]
    question = next(one for one in lume.questions if one.question_id == rows[0]["question_id"])
    assert rows[0]["prompt"] == f"Question: {question.question}\nAnswer:"
    assert "open" in (written.folder / "README.md").read_text()


def test_unscored_is_no_zero() -> None:
    document = {"question_id": "q", "side": "forget", "question": "?", "answer": "", "metrics": ["rouge_l"]}
    assert process_results(document, ["said"]) == {"rouge_l": None}
    whole = process_results(document | {"answer": "a b c d"}, [" a b x\n"])
    assert whole == {"rouge_l": 0.5}
    assert mean_of_scored([None, 0.5, 1.0]) == 0.75
    assert mean_of_scored([None]) != mean_of_scored([None])  # NaN


def test_refusals(lume: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="answer_probability: it needs answer_log_probs"):
        mu.export_tasks(lume, tmp_path / "t", split="half", metrics="rouge_l,answer_probability")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(InputError, match="not an empty folder"):
        mu.export_tasks(lume, tmp_path / "full", split="half")
