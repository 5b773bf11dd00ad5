"""A run evaluated while it goes on: what it finds, and that nothing comes of it but numbers."""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from torch.testing import assert_close

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError
from medunlearn.models.folders import fingerprint
from medunlearn.models.load import load_model
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.study.epochs import epoch_evaluation as module
from medunlearn.study.presets import train_settings, unlearn_settings
from medunlearn.study.train import train
from medunlearn.study.unlearn import unlearn

ASKED = {"folds": ["train"], "metrics": ["rouge_l", "em"], "max_new_tokens": 8, "limit": 2, "replicates": 20}


def settings(**values: Any) -> Any:
    given = {"method": "npo", "split": "random_10", "epochs": 2, "precision": "fp32", "schedule": "constant"}
    return unlearn_settings({**given, **values}, tiny=True)


def watched(**values: Any) -> Any:
    return settings(**{"evaluate_every": 1, "evaluate": ASKED, **values})


def evaluated(run: Run, hospital: Benchmark) -> Evaluated:
    given = EvaluateSettings.model_validate({"split": "random_10", **ASKED})
    return evaluate_one(run, hospital, given, quiet=True)


def curve(run: Run) -> pd.DataFrame:
    return run.history().drop(columns="seconds")


@pytest.fixture(scope="module")
def whole(hospital: Benchmark, target: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two epochs of NPO, evaluated after each; their models are kept."""
    out = tmp_path_factory.mktemp("epochs") / "npo"
    return unlearn(target, hospital, watched(keep_epochs=True), out, quiet=True)


@pytest.mark.parametrize("trainable", ["default", "lora:2"])
def test_an_epoch_is_a_run_of_so_many_epochs_and_training_is_not_disturbed(
    hospital: Benchmark, target: Run, tmp_path: Path, trainable: str
) -> None:
    more = {"trainable": trainable, "lr": 1e-2}
    long, short, alone = (
        unlearn(target, hospital, values, tmp_path / str(place), quiet=True)
        for place, values in enumerate((watched(**more), settings(**more, epochs=1), settings(**more)))
    )
    assert fingerprint(alone.model) == fingerprint(long.model)
    pd.testing.assert_frame_equal(curve(alone), curve(long))
    assert not (alone.folder / "epochs.parquet").exists()
    first, last = (evaluated(long.epoch(number), hospital).scores for number in (1, 2))
    pd.testing.assert_frame_equal(first, evaluated(short, hospital).scores)
    pd.testing.assert_frame_equal(last, evaluated(long, hospital).scores)
    assert not first.equals(last)


def test_the_table_of_epochs(hospital: Benchmark, target: Run, whole: Run) -> None:
    table = pd.read_parquet(whole.folder / "epochs.parquet")
    assert table["epoch"].unique().tolist() == [0, 1, 2]
    for epoch, run in ((0, target), (1, whole.epoch(1)), (2, whole)):
        summary = evaluated(run, hospital).summary
        rows = table[table["epoch"] == epoch].reset_index(drop=True)
        assert rows["measure"].tolist() == rows["metric"].tolist() == summary["measure"].tolist()
        pd.testing.assert_frame_equal(rows[summary.columns], summary)
    told = json.loads((whole.folder / "run.json").read_text())["results"]["epochs"]
    assert (told["select"], told["chosen"], told["done"], told["stopped_early"]) == ("last", 2, 2, False)
    retain, forget = (
        float(table[(table["metric"] == name) & (table["kind"] == "all") & (table["epoch"] == 1)]["value"].item())
        for name in ("H(rouge_l, em)", "H(1-rouge_l, 1-em)")
    )
    number = told["numbers"][0]
    assert number["parts"] == {"H(rouge_l, em) on retain": retain, "H(1-rouge_l, 1-em) on forget": forget}
    assert number["value"] == pytest.approx(statistics.harmonic_mean([retain, forget]))
    assert "H(rouge_l, em) on retain, H(1-rouge_l, 1-em) on forget" in told["rule"]
    assert {"unlearn", "epochs"} <= set(whole.info["stages"])
    assert not (whole.folder / "checkpoints").exists()


def test_a_kept_epoch_can_be_asked_more(hospital: Benchmark, whole: Run) -> None:
    first = whole.epoch(1)
    assert first.label == "NPO, epoch 1"
    more = EvaluateSettings.model_validate({"split": "random_10", **ASKED, "limit": 3})
    assert len(evaluate_one(first, hospital, more, quiet=True).questions) > len(
        evaluated(first, hospital).questions
    )
    # Asked as it was in training: nothing is asked twice.
    store = first.folder / evaluated(first, hospital).record.info["results"]["responses"]
    assert fingerprint(whole.epoch(2).model) == fingerprint(whole.model) != fingerprint(first.model)
    assert len(list((first.folder / "responses").iterdir())) == 1
    assert store.is_dir()


def test_an_epoch_that_was_not_kept(hospital: Benchmark, target: Run, tmp_path: Path) -> None:
    run = unlearn(target, hospital, watched(epochs=3, evaluate_every=2), tmp_path / "r", quiet=True)
    assert pd.read_parquet(run.folder / "epochs.parquet")["epoch"].unique().tolist() == [0, 2, 3]
    assert len(evaluated(run.epoch(2), hospital).scores)
    with pytest.raises(InputError, match=r"not evaluated after epoch 1; it was after 2, 3\."):
        run.epoch(1)
    more = EvaluateSettings.model_validate({"split": "random_10", **ASKED, "limit": 3})
    with pytest.raises(InputError, match="--keep-epochs"):
        evaluate_one(run.epoch(2), hospital, more, quiet=True)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_cut_off_in_an_evaluation(
    hospital: Benchmark, target: Run, whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    real, calls = module.evaluate_one, list[str]()

    def killed(run: Run, *rest: Any, **more: Any) -> Evaluated:
        calls.append(run.label)
        if len(calls) == at + 1:
            raise KeyboardInterrupt
        return real(run, *rest, **more)

    monkeypatch.setattr(module, "evaluate_one", killed)
    with pytest.raises(KeyboardInterrupt):
        unlearn(target, hospital, watched(select="best"), tmp_path / "r", quiet=True)
    steps = at * whole.info["results"]["steps"] // 2
    saved = (tmp_path / "r" / "checkpoints" / "unlearn").glob("*")
    assert sorted(path.name for path in saved) == [f"step-{steps * n // at:08d}" for n in range(1, at + 1)]
    again = unlearn(target, hospital, watched(select="best"), tmp_path / "r", quiet=True)
    names = ["target", "NPO, epoch 1", "NPO, epoch 2"]
    assert calls == [*names[: at + 1], *names[at:]]
    ours, theirs = (pd.read_parquet(run.folder / "epochs.parquet") for run in (again, whole))
    pd.testing.assert_frame_equal(ours, theirs)
    pd.testing.assert_frame_equal(curve(again), curve(whole))
    assert again.info["results"]["epochs"]["numbers"] == whole.info["results"]["epochs"]["numbers"]


@pytest.mark.parametrize(
    "spoiled", ["epochs.parquet", "checkpoints/best/01/model.safetensors", "epochs/01/run.json"]
)
def test_epochs_whose_results_are_broken_are_trained_once_more(
    hospital: Benchmark, target: Run, whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoiled: str
) -> None:
    real, asked = module.evaluate_one, list[str]()

    def killed(run: Run, *rest: Any, **more: Any) -> Evaluated:
        asked.append(run.label)
        if asked == ["target", "NPO, epoch 1", "NPO, epoch 2"]:
            raise KeyboardInterrupt
        return real(run, *rest, **more)

    monkeypatch.setattr(module, "evaluate_one", killed)
    with pytest.raises(KeyboardInterrupt):
        unlearn(target, hospital, watched(select="best"), tmp_path / "r", quiet=True)
    path = tmp_path / "r" / spoiled
    os.truncate(path, path.stat().st_size // 2)
    again = unlearn(target, hospital, watched(select="best"), tmp_path / "r", quiet=True)
    # A run's record is written again; without table or weights, the first epoch is trained again.
    assert asked[3:] == ["NPO, epoch 2"] if "run.json" in spoiled else ["target", "NPO, epoch 1", "NPO, epoch 2"]
    ours, theirs = (pd.read_parquet(run.folder / "epochs.parquet") for run in (again, whole))
    pd.testing.assert_frame_equal(ours, theirs)
    pd.testing.assert_frame_equal(curve(again), curve(whole))
    chosen = again.info["results"]["epochs"]["chosen"]
    assert fingerprint(again.model) == fingerprint(whole.epoch(chosen).model)


def numbered(monkeypatch: pytest.MonkeyPatch, values: list[float]) -> None:
    """Epochs with these numbers, whatever they are like."""
    from medunlearn.study.epochs import epoch_selection as selection
    from medunlearn.study.epochs.epoch_selection import EpochStanding

    def standings(table: pd.DataFrame, fold: str) -> list[EpochStanding]:
        return [
            EpochStanding(epoch, {"x on retain": values[epoch - 1]}, values[epoch - 1])
            for epoch in range(1, int(table["epoch"].max()) + 1)
        ]

    monkeypatch.setattr(selection, "by_forgetting", standings)
    # Models that were hardly trained answer everything alike; here only the numbers are to decide.
    monkeypatch.setattr(module.EpochEvaluation, "_problem", lambda self, epoch: "")


@pytest.mark.parametrize("trainable", ["default", "lora:2"])
def test_the_best_epochs_model_is_the_runs(
    hospital: Benchmark, target: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainable: str
) -> None:
    more = {"trainable": trainable, "lr": 1e-2}
    one = unlearn(target, hospital, settings(epochs=1, **more), tmp_path / "one", quiet=True)
    numbered(monkeypatch, [0.3, 0.2, 0.1])
    best = unlearn(target, hospital, watched(epochs=3, select="best", **more), tmp_path / "best", quiet=True)
    # A product of the adapter's matrices may round otherwise where its memory lies otherwise; an epoch moves 1e-3.
    weights = [load_model(run.model, device="cpu").model.state_dict() for run in (best, one, target)]
    assert_close(weights[0], weights[1], rtol=0, atol=1e-6)
    assert max(float((value - weights[2][name]).abs().max()) for name, value in weights[0].items()) > 1e-3
    told = best.info["results"]["epochs"]
    assert (told["chosen"], told["best"], told["done"], told["stopped_early"]) == (1, 1, 3, False)
    assert len(best.history()) == 3 * len(one.history())


def test_early_stop(hospital: Benchmark, target: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbered(monkeypatch, [0.1, 0.3, 0.3, 0.2, 0.9])
    wanted = watched(epochs=5, stop_early=2, select="last")
    run = unlearn(target, hospital, wanted, tmp_path / "r", quiet=True)
    told = run.info["results"]["epochs"]
    assert (told["best"], told["chosen"], told["done"], told["stopped_early"]) == (2, 4, 4, True)
    assert run.history()["epoch"].max() == 4
    assert unlearn(target, hospital, wanted, tmp_path / "r", quiet=True).info == run.info


def test_train_evaluates_too(hospital: Benchmark, small: dict[str, Any], tmp_path: Path) -> None:
    wanted = train_settings({**small, "evaluate_every": 1, "evaluate": {**ASKED, "split": "random_10"}})
    run = train(hospital, wanted, tmp_path / "r", quiet=True)
    table = pd.read_parquet(run.folder / "epochs.parquet")
    assert table["epoch"].unique().tolist() == [0, 1, 2]
    pd.testing.assert_frame_equal(evaluated(run.epoch(2), hospital).scores, evaluated(run, hospital).scores)
    alone = train(hospital, train_settings(small), tmp_path / "alone", quiet=True)
    assert fingerprint(alone.model) == fingerprint(run.model)


def test_mistakes_are_told_before_anything_runs(hospital: Benchmark, target: Run, tmp_path: Path) -> None:
    wanted = settings(select="best", stop_early=2, keep_epochs=True, evaluate={"folds": "train"})
    with pytest.raises(ConfigError) as found:
        unlearn(target, hospital, wanted, tmp_path / "r", quiet=True)
    assert len(found.value.problems) == 4
    assert all("--evaluate-every 1" in problem for problem in found.value.problems)
    wrong = {"split": "cancer_05", "weights": "bf16", "metrics": ["rouge"], "fold": "train"}
    with pytest.raises(ConfigError) as found:
        unlearn(target, hospital, watched(evaluate=wrong), tmp_path / "r", quiet=True)
    assert len(found.value.problems) >= 3
    assert not (tmp_path / "r").exists()
    assert settings(**{"evaluate.folds": "train", "evaluate_every": 1}).evaluate == {"folds": "train"}
