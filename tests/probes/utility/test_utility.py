"""Utility by lm-evaluation-harness: its numbers against the model's own, what is kept, and what is refused."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import medunlearn as mu
from medunlearn.config import UtilitySettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError, UnknownNameError
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.probes.utility import harness
from medunlearn.probes.utility import harness_run as measure
from medunlearn.probes.utility.harness import run_tasks
from medunlearn.probes.utility.numbers import Result, TaskItem, Utility, item_scores, summary_table
from medunlearn.results.runs import Run
from medunlearn.results.scores import score_table
from medunlearn.results.summary import summarize

from .conftest import ASKED, QUESTIONS


def settings(tasks: Path, **values: Any) -> UtilitySettings:
    return UtilitySettings(**{"tasks": "capitals", "include": tasks, "replicates": 50, **values})


def by_hand(language_model: LanguageModel, shots: str = "") -> list[float]:
    """For each question whether its right choice is the likeliest, token by token."""
    found = []
    for row in QUESTIONS:
        sums = []
        for choice in row["choices"]:  # type: ignore[attr-defined]
            prompt = f"{shots}Question: {row['question']}\nAnswer:"
            start = len(language_model.tokenizer(prompt)["input_ids"])
            ids = torch.tensor([language_model.tokenizer(f"{prompt} {choice}")["input_ids"]])
            with torch.no_grad():
                told = language_model.model(ids).logits.log_softmax(-1)[0, start - 1 : -1]
            sums.append(told.gather(1, ids[0, start:, None]).sum().item())
        found.append(float(max(range(3), key=sums.__getitem__) == row["answer"]))
    return found


def test_accuracy_is_the_models_own(lume_target: Run, tasks: Path) -> None:
    expected = by_hand(load_model(lume_target.model, device="cpu"))
    found = mu.utility(lume_target, tasks="capitals", include=tasks, replicates=50, quiet=True)
    items = found.models[0].items
    assert items[items["measure"] == "acc"].sort_values("item")["value"].tolist() == expected
    assert 0 < sum(expected) < len(expected)
    row, together = (found.table().set_index("name").loc[name] for name in ("capitals", "utility"))
    assert row["value"] == together["value"] == pytest.approx(sum(expected) / len(expected))
    assert row["low"] < row["value"] < row["high"]
    assert row["stderr"] == pytest.approx(np.std(expected, ddof=1) / 3)
    assert not {"doc", "prompt", "target"} & set(items.columns)
    # The score table alone gives the same number and interval.
    mean = summarize(items, ["task", "filter"], replicates=50).iloc[0]
    assert mean["measure"] == row["metric"]
    assert [mean[name] for name in ("value", "low", "high")] == [row[name] for name in ("value", "low", "high")]
    assert mu.scores(found.models[0].record.folder)["subject"].nunique() == len(QUESTIONS)


def test_what_was_measured_is_kept(
    lume_target: Run, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = {"tasks": "capitals", "include": tasks, "limit": 4, "quiet": True}
    first = mu.utility(lume_target, **how).models[0]
    assert first.summary.iloc[-1]["n_scored"] == 4
    monkeypatch.setattr(measure, "run_tasks", lambda *_, **__: pytest.fail("asked again"))
    again, latest = mu.utility(lume_target, **how).models[0], Utility.find(lume_target)
    assert latest is not None
    assert again.record.folder == latest.record.folder == first.record.folder
    assert latest.description == "capitals, the first 4 items of each"
    # A changed task is another measurement.
    shutil.copytree(tasks, tmp_path / "tasks")
    with (tmp_path / "tasks" / "capitals.jsonl").open("a") as file:
        file.write(json.dumps(QUESTIONS[0]))
    folders = {measure.utility_folder(lume_target, settings(where)) for where in (tasks, tmp_path / "tasks")}
    assert len(folders) == 2


def test_a_lora_adapter_in_memory_and_random_numbers_outside(lume_target: Run, tasks: Path) -> None:
    from medunlearn.training.merging import merged
    from medunlearn.training.trainable import choose_trainable

    def states() -> list[Any]:
        return [random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()]

    plain, before = load_model(lume_target.model, device="cpu"), states()
    expected = [(one.item, one.value) for one in run_tasks(plain, settings(tasks, fewshot=0))[0]]
    assert states() == before
    adapted = LanguageModel(choose_trainable(plain.model, "lora:2"), plain.tokenizer, "x")
    adapted.model.eval()
    with merged(adapted.model):
        assert [(one.item, one.value) for one in run_tasks(adapted, settings(tasks))[0]] == expected


@pytest.fixture
def only_local(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness's own files take seconds to look through; here they are left out."""
    real: Callable[..., Any] = harness._manager
    monkeypatch.setattr(harness, "_manager", lambda include, defaults: real(include, defaults=False))


@pytest.mark.usefixtures("only_local")
def test_what_is_refused(lume_target: Run, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'capitals'"):
        mu.utility(lume_target, tasks="capitls", include=tasks)
    with pytest.raises(ConfigError, match="metric='f1': the tasks have acc"):
        mu.utility(lume_target, tasks="capitals", include=tasks, metric="f1", quiet=True)
    with pytest.raises(InputError, match="There is no folder"):
        mu.utility(lume_target, tasks="capitals", include=tmp_path / "none")
    text = (tasks / "capitals.yaml").read_text()
    (tmp_path / "far.yaml").write_text(text.replace("task: capitals", "task: far").replace(str(tasks), "/nowhere"))
    with pytest.raises(InputError, match=r"The tasks far cannot be loaded.*include=FOLDER"):
        mu.utility(lume_target, tasks="far", include=tmp_path, quiet=True)
    monkeypatch.setattr(harness, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'medunlearn\[utility\]'") as told:
        mu.utility(lume_target, tasks="capitals", include=tasks)
    assert told.value.exit_code == 2


def items(task: str, values: list[float | None], metric: str = "acc") -> list[TaskItem]:
    return [TaskItem(task, place, metric, "none", value) for place, value in enumerate(values)]


def result(name: str, value: float, leaves: tuple[str, ...] = (), metric: str = "acc", **more: Any) -> Result:
    facts = {"stderr": 0.1, "higher_is_better": True, "version": "1", "shots": 0, **more}
    return Result(name, leaves or (name,), metric, "none", value, **facts)


def summary(asked: str, found: list[TaskItem], results: list[Result], **more: Any) -> pd.DataFrame:
    table = summary_table(found, results, UtilitySettings(tasks=asked, replicates=400, **more))
    return table.set_index(["name", "metric"], drop=False)


def test_several_tasks_count_alike_and_a_group_once() -> None:
    found = [*items("a", [1, 1, 0, 1] * 2), *items("b", [0, 0, 1, 0, 0, 0, 1, 0] * 2)]
    tasks = [result("a", 0.75), result("b", 0.25)]
    table = summary("a,b", found, tasks)
    both = table.iloc[-1]
    assert (both["value"], both["n_scored"]) == (0.5, 24)
    # Around Student's 2.36 standard errors, sqrt((0.1875 / 8 + 0.1875 / 16) / 4) each; more, for sizes are drawn.
    assert 0.2 < (both["high"] - both["low"]) / 2 < 0.3
    assert table["counts"].tolist() == [True, True, False]
    table = summary("g", found, [*tasks, result("g", 5 / 12, ("a", "b"))])
    assert table[table["counts"]]["name"].tolist() == ["g"]
    row = table.loc["g", "acc"]
    assert table.iloc[-1]["value"] == row["value"] == pytest.approx(5 / 12)
    assert row["low"] < 5 / 12 < row["high"]


def test_a_number_that_is_no_mean_has_no_interval_of_ours() -> None:
    last = summary("a", items("a", [1, 0]), [result("a", 0.9)]).iloc[-1]
    assert last["value"] == 0.9
    assert pd.isna(last["low"])
    assert "no mean over its items" in last["reason"]
    rows = score_table(item_scores(items("a", [0.5, None, float("inf")])))
    assert rows["value"].tolist() == [0.5, pd.NA, pd.NA]
    assert rows["reason"].notna().tolist() == [False, True, True]


def test_perplexity_is_no_utility_between_0_and_1() -> None:
    results = [result("a", 7.5, metric="ppl", higher_is_better=False), result("a", 0.5)]
    both = [*items("a", [None, None], "ppl"), *items("a", [1, 0])]
    last = summary("a", both, results).iloc[-1]
    assert pd.isna(last["value"])
    assert "ppl of a is no share" in last["reason"]
    assert summary("a", both, results, metric="acc").iloc[-1]["value"] == 0.5


def test_it_is_the_semeval_scores_utility(lume: Benchmark, lume_target: Run, tasks: Path) -> None:
    mu.evaluate(lume_target, lume, split="half", quiet=True, **ASKED)
    mu.attack(lume_target, lume, split="half", attacks="loss", quiet=True, replicates=20)
    found = mu.utility(lume_target, tasks="capitals", include=tasks, replicates=50, quiet=True).models[0]
    score = mu.semeval(lume_target, "half")
    assert score.utility == found.value
    assert score.missing == {}
    assert mu.semeval(lume_target, "half", utility=1.0).utility == 1.0
