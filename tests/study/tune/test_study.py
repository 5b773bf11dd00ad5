"""Ask and tell: the next settings depend on the table alone, and halving stops what falls behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from medunlearn.study.tune.method_trials import MethodTrials
from medunlearn.study.tune.objective import AxisValues, TuneObjective
from medunlearn.study.tune.space import Dimension
from medunlearn.study.tune.study import STARTUP, Pruner, next_params
from medunlearn.study.tune.trials import TuneTrial, best_trial, read_trials, write_trials
from medunlearn.study.tune.tune_stages import TuneMethod

SPACE = (
    Dimension("lr", 1e-4, 1e-2),
    Dimension("epochs", 1, 4, whole=True),
    Dimension("variant", choices=("a", "b")),
)
UNTUNED = {"lr": 1e-3, "epochs": 2, "variant": "a", "beta": 0.1}
OBJECTIVE = TuneObjective("train", ("ranks",), AxisValues(ranks=0.0))


def ended(number: int, value: float | None, **more: object) -> TuneTrial:
    params = {} if number == 0 else {"lr": 1e-4 * (number + 1), "epochs": 2, "variant": "a"}
    trial = TuneTrial(
        "npo", number, "complete", params, value=value, by_epoch={0: 0.9, 1: value}, epochs=1, planned=1
    )
    return replace(trial, **more)  # type: ignore[arg-type]


def test_the_first_trial_is_the_untuned_method() -> None:
    assert next_params(SPACE, [], UNTUNED, 0, 0) == {}


def test_settings_are_within_the_space_and_repeat() -> None:
    trials = [ended(0, 0.5)]
    for number in range(1, STARTUP + 4):
        params = next_params(SPACE, trials, UNTUNED, number, 0)
        assert params == next_params(SPACE, trials, UNTUNED, number, 0)
        assert all(dimension.holds(params[dimension.name]) for dimension in SPACE)
        trials.append(ended(number, abs(params["lr"] - 5e-3) * 100, params=params))
    assert len({trial.params.get("lr") for trial in trials}) == len(trials)
    assert next_params(SPACE, trials, UNTUNED, len(trials), 0) != next_params(
        SPACE, trials, UNTUNED, len(trials), 1
    )


def test_the_sampler_leaves_what_failed_and_goes_where_it_was_good() -> None:
    """The untuned settings count like any others; a model that broke counts as the worst, whatever its number."""
    trials = [ended(0, 0.9)]
    for number, lr in enumerate([1.1e-4, 1.4e-4, 1.8e-4, 2.4e-4, 3e-4, 4e-3, 5e-3, 6e-3, 7e-3, 9e-3], 1):
        low = lr < 3.5e-4
        trials.append(
            ended(
                number,
                0.1 + 100 * lr if low else None if number % 2 else 0.0,
                params={"lr": lr, "epochs": 2, "variant": "a"},
                state="complete" if low or not number % 2 else "failed",
                problem="" if low or number % 2 else "it says the same to every question",
            )
        )
    drawn = [next_params(SPACE, trials, UNTUNED, len(trials), seed)["lr"] for seed in range(20)]
    assert sum(lr < 1e-3 for lr in drawn) >= 16  # half of them, were nothing learned


def epochs(*shares: float) -> pd.DataFrame:
    """The table of epochs of a model whose share ranked first is so after each of them, epoch 0 first."""
    row = {"side": "forget", "fold": "train", "kind": "all", "measure": "ranked_first", "node": "", "parts": ""}
    return pd.DataFrame([{**row, "epoch": epoch, "value": share} for epoch, share in enumerate(shares)])


def run(trials: list[TuneTrial], shares: list[float], halving: int = 2, planned: int = 4) -> tuple[int, TuneTrial]:
    """A trial with these numbers: the epochs that it ran, and its row."""
    pruner = Pruner(OBJECTIVE, trials, halving, planned)
    for last in range(len(shares)):
        if pruner(epochs(*shares[: last + 1])):
            break
    state = "pruned" if pruner.stopped else "complete"
    trial = TuneTrial("npo", len(trials), state, by_epoch=pruner.by_epoch, rungs=pruner.rungs, value=shares[last])
    return last, trial


def test_halving_stops_what_falls_behind() -> None:
    trials: list[TuneTrial] = []
    last, trial = run(trials, [0.9, 0.5, 0.4, 0.3, 0.2])
    assert (last, trial.state) == (4, "complete")  # the first one has nobody to fall behind
    assert trial.rungs == {"completed_rung_0": 0.5, "completed_rung_1": 0.4, "completed_rung_2": 0.2}
    trials.append(trial)
    last, trial = run(trials, [0.9, 0.8, 0.1, 0.1, 0.1])
    assert (last, trial.state) == (1, "pruned")
    assert trial.by_epoch == {0: 0.9, 1: 0.8}
    trials.append(trial)
    # Better at epoch 1, worse at epoch 2.
    last, trial = run(trials, [0.9, 0.3, 0.6, 0.6, 0.6])
    assert (last, trial.state) == (2, "pruned")
    last, trial = run(trials, [0.9, 0.8, 0.8, 0.8, 0.8], halving=0)
    assert (last, trial.state, trial.rungs) == (4, "complete", {})
    assert run([trials[0]], [0.9, 0.1, 0.1, 0.1, 0.1])[1].state == "complete"


def test_a_last_epoch_is_never_pruned() -> None:
    first = run([], [0.9, 0.2], planned=1)[1]
    last, trial = run([first], [0.9, 0.8], planned=1)
    assert (last, trial.state) == (1, "complete")


def test_a_trial_that_was_cut_off_decides_as_one_that_was_not() -> None:
    trials = [run([], [0.9, 0.5, 0.4, 0.3, 0.2])[1]]
    shares = [0.9, 0.4, 0.6, 0.6]
    whole = Pruner(OBJECTIVE, trials, 2, 4)
    steps = [whole(epochs(*shares[: last + 1])) for last in range(4)]
    resumed = Pruner(OBJECTIVE, trials, 2, 4)
    assert steps == [False, False, True, True]
    assert resumed(epochs(*shares[:3])) is True
    assert resumed.rungs == whole.rungs


def test_an_epoch_without_a_number_is_the_worst() -> None:
    trials = [run([], [0.9, 0.5])[1]]
    pruner = Pruner(OBJECTIVE, trials, 2, 4)
    table = epochs(0.9, 0.1)
    table.loc[table["epoch"] == 1, "value"] = float("nan")
    assert pruner(table)
    assert pruner.by_epoch == {0: 0.9, 1: None}


def test_the_best_trial() -> None:
    trials = [
        ended(0, 0.5),
        ended(1, 0.1, problem="it says the same to every question"),
        ended(2, 0.2, state="pruned"),
        ended(3, None, state="failed"),
        ended(4, 0.3),
        ended(5, 0.3),
    ]
    best = best_trial(trials)
    assert best is not None
    assert best.number == 4
    assert best_trial(trials[1:4]) == trials[1]  # every one that has a number is broken
    assert best_trial(trials[2:4]) is None


def test_the_table_gives_back_what_was_written(tmp_path: Path) -> None:
    trials = [
        ended(0, 0.5, rungs={"completed_rung_0": 0.5}),
        ended(1, None, state="failed", reason="NaN", flops=1e9),
    ]
    write_trials(tmp_path, trials)
    assert read_trials(tmp_path) == trials
    assert read_trials(tmp_path / "none") == []
    (tmp_path / "trials.parquet").write_bytes(b"torn")
    assert read_trials(tmp_path) == []
    assert (tmp_path / ".trials.parquet.medunlearn-broken").exists()


def test_nothing_is_asked_of_a_missing_optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    from medunlearn.errors import InputError
    from medunlearn.study.tune import study

    monkeypatch.setattr(study, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="medunlearn\\[tune\\]"):
        study.check_installed()


def test_a_deletion_that_was_cut_off_is_completed(tmp_path: Path) -> None:
    """Of the models of a method, those of the untuned and the best trial stay."""
    tuning: Any = SimpleNamespace(settings=SimpleNamespace(runs=3), share=3)
    study = MethodTrials(tuning, "npo", tmp_path, Any, [ended(0, 0.5), ended(1, 0.1), ended(2, 0.3)])
    for trial in study.trials:
        model = study.run_of(trial) / "model"
        model.mkdir(parents=True)
        (model / "generation_config.json").touch()
    inputs: Any = {}
    stage = object.__new__(TuneMethod)
    vars(stage).update(workspace=SimpleNamespace(benchmark=True), trials=lambda: study)
    assert stage.read(inputs) is None  # the deletion is left to do
    assert stage.work(inputs) is None
    assert stage.read(inputs) is study
    assert [(study.run_of(trial) / "model").exists() for trial in study.trials] == [True, True, False]
