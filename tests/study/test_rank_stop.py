"""Unlearning that ends by the ranks of the forgotten patients' facts, without a retrained model."""

from __future__ import annotations

import json
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from medunlearn.config import UnlearnSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError
from medunlearn.results.keys import run_key
from medunlearn.results.runs import Run
from medunlearn.study.epochs.epoch_selection import best_of
from medunlearn.study.epochs.rank_stop import RankStop, by_ranks, recovery_after, retain_part
from medunlearn.study.epochs.rank_watch import RETAINED, STRANGER_P, STRANGERS, rank_settings
from medunlearn.study.presets import train_settings, unlearn_settings
from medunlearn.study.report.gather import stopped_runs
from medunlearn.study.run_views import unlearn_view
from medunlearn.study.train import train
from medunlearn.study.unlearn import unlearn


def settings(**values: Any) -> UnlearnSettings:
    given = {"method": "ga", "split": "random_10", "epochs": 3, "precision": "fp32", "stop": "ranks"}
    return unlearn_settings({**given, **values}, tiny=True)


def table(*epochs: tuple[float, float | None]) -> pd.DataFrame:
    """``epochs.parquet`` from the p-value and the retained share of each epoch."""
    rows = [
        {"epoch": number, "measure": name, "value": value, "n_subjects": 4}
        for number, (p, share) in enumerate(epochs)
        for name, value in ((STRANGER_P, p), (STRANGERS, 0.75), (RETAINED, share))
    ]
    return pd.DataFrame(rows).astype({"value": "Float64"})


@pytest.mark.parametrize(
    ("last", "reason"),
    [((0.2, 1.0), "ranks"), ((0.01, 1.0), "none"), ((0.2, 0.9), "utility"), ((0.01, None), "utility")],
)
def test_a_run_ends_by_ranks_or_by_the_floor(last: tuple[float, float | None], reason: str) -> None:
    """Patients who are forgotten together with everything else are no success."""
    outcome = RankStop.after(table((1e-9, 1.0), last), 0.95)
    assert (outcome.reason, outcome.epoch, outcome.patients) == (reason, 1, 4)
    assert RankStop.of({"stop": json.loads(json.dumps(outcome.to_json()))}) == outcome
    assert "3 of 4" in outcome.words


KNOWN, STRANGE = 0.01, 0.2
"""p-values of patients who are known, and of strangers."""


@pytest.mark.parametrize(
    ("epochs", "reason", "recovery"),
    [
        ([(KNOWN, 0.5)], "none", None),
        ([(KNOWN, 0.9), (STRANGE, 0.7)], "none", None),
        ([(KNOWN, 0.9), (STRANGE, 0.7), (STRANGE, 0.9)], "none", 2),
        ([(KNOWN, 0.9), (STRANGE, 0.7), (STRANGE, 0.9), (STRANGE, 0.96)], "ranks", 2),
        ([(STRANGE, 0.7), (STRANGE, 0.9), (STRANGE, 0.9)], "utility", 1),
        ([(STRANGE, 0.7), (KNOWN, 0.9), (KNOWN, 0.96)], "none", 1),
        ([(STRANGE, 0.7), (KNOWN, 0.9), (KNOWN, 0.9), (STRANGE, 0.8)], "none", None),
        ([(STRANGE, 0.7), (KNOWN, 0.9), (KNOWN, 0.9), (STRANGE, 0.8), (STRANGE, 0.9)], "none", 4),
    ],
)
def test_a_dip_of_utility_ends_no_run_that_can_recover(
    epochs: list[tuple[float, float]], reason: str, recovery: int | None
) -> None:
    """It recovers once all are strangers, for at most twice as many epochs as went before."""
    outcome = RankStop.after(table((1e-9, 1.0), *epochs), 0.95, most=9)
    assert (outcome.reason, outcome.recovery) == (reason, recovery)


def test_recovery_goes_on_from_what_was_measured_so_far() -> None:
    measured = table((1e-9, 1.0), (STRANGE, 0.7), (STRANGE, 0.8), (KNOWN, 0.9), (STRANGE, 0.9))
    recoveries = [recovery_after(measured, done, 9) for done in range(5)]
    assert recoveries == [None, (1, True), (1, True), None, (4, True)]
    assert recovery_after(table((STRANGE, 1.0), (STRANGE, 0.7)), 1, 9) is None, "ranks tell nothing of these"


def test_a_method_recovers_by_the_kind_of_its_own_retain_term() -> None:
    named = {name: retain_part(name) for name in ("ga", "rmu", "npo", "counterfactual", "npo+kl")}
    assert {name: None if part is None else part.title for name, part in named.items()} == {
        "ga": None,
        "rmu": None,
        "npo": "NLL",
        "counterfactual": "KL",
        "npo+kl": "KL",
    }


def test_the_best_epoch_below_the_floor_keeps_most() -> None:
    epochs = table((1e-9, 1.0), (STRANGE, 0.7), (STRANGE, 0.9), (KNOWN, 0.94))
    best = best_of(by_ranks(epochs, 0.95))
    assert best is not None
    assert best.epoch == 2


@pytest.fixture(scope="module")
def knowing_notes(hospital: Benchmark, small: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A target that ranks facts in notes of its patients above chance."""
    values = {**small, "epochs": 24, "lr": 1e-2, "train_on": "records", "context": "note"}
    return train(hospital, train_settings(values), tmp_path_factory.mktemp("knowing") / "run", quiet=True)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"lr": 1e-6, "epochs": 2}, "none"),
        ({"lr": 3e-3, "stop_floor": 1e-3, "epochs": 8}, "ranks"),
        ({"lr": 1e-2, "stop_floor": 1.0}, "utility"),
    ],
)
def test_a_run_says_why_it_ended(
    knowing_notes: Run,
    hospital: Benchmark,
    values: dict[str, Any],
    reason: str,
    tmp_path: Path,
) -> None:
    wanted = settings(**values, train_on="records")
    run = unlearn(knowing_notes, hospital, wanted, tmp_path / "run", device="cpu", quiet=True)
    outcome, epochs = RankStop.of(run.info.results), run.info.results["epochs"]
    assert run.info.cpu_seconds is not None
    assert outcome is not None
    assert outcome.reason == reason
    assert (outcome.epoch, outcome.patients) == (epochs["done"], 2)
    assert epochs["stopped_early"] == (reason != "none")
    assert epochs["done"] == (wanted.epochs if reason == "none" else outcome.epoch)
    frame = pd.read_parquet(run.folder / "epochs.parquet")
    start = frame[(frame["epoch"] == 0) & (frame["measure"] == STRANGER_P)]["value"].item()
    assert start < 0.05
    assert (outcome.p > 0.05) == (reason == "ranks") or reason == "utility"
    if reason == "ranks":
        assert epochs["chosen"] == outcome.epoch < wanted.epochs
    assert outcome.words[1:60] in " ".join(unlearn_view(run).notes)
    evaluated: Any = SimpleNamespace(run=run)
    assert [*stopped_runs([evaluated])] == [f"{run.label}: {outcome.words}."]


def test_recovery_is_by_the_retain_set_alone(knowing_notes: Run, hospital: Benchmark, tmp_path: Path) -> None:
    """Its steps have no forget term while the patients are strangers."""
    wanted = settings(method="kl_min", lr=3e-3, stop_floor=1.0, epochs=8, train_on="records")
    run = unlearn(knowing_notes, hospital, wanted, tmp_path / "run", device="cpu", quiet=True)
    measured, history = (pd.read_parquet(run.folder / f"{name}.parquet") for name in ("epochs", "history"))
    recoveries = [
        recovery_after(measured, done, wanted.epochs) for done in range(run.info.results["epochs"]["done"])
    ]
    rests = [recovery is not None and recovery.rests for recovery in recoveries]
    assert any(rests)
    by_step = [rests[ceil(epoch) - 1] for epoch in history["epoch"]]
    assert history["loss/forget"].isna().tolist() == by_step
    assert history["loss/retain_kl"].notna().all()


def test_ranks_of_unknown_patients_end_nothing(knowing: Run, hospital: Benchmark, tmp_path: Path) -> None:
    """A target that knows no fact in its place ranks its patients like strangers before anything is forgotten."""
    run = unlearn(knowing, hospital, settings(lr=1e-6, epochs=2), tmp_path / "run", device="cpu", quiet=True)
    outcome = RankStop.of(run.info.results)
    assert outcome is not None
    assert outcome.p > 0.05
    assert (outcome.reason, outcome.is_known) == ("none", False)
    assert run.info.results["epochs"]["chosen"] == run.info.results["epochs"]["done"] == 2


def test_what_the_choice_may_see(hospital: Benchmark, knowing: Run) -> None:
    """Only the half of the values to choose by; with the note in the prompt, no question."""
    ranked = rank_settings(settings(), knowing.rendering(None, "note"))
    assert (ranked.values, ranked.rank_in) == ("choosing", "records")
    assert rank_settings(settings(), knowing.rendering(None, "closed_book")).rank_in == "both"


def test_settings_without_a_rule_keep_their_key() -> None:
    plain = settings(stop="none").model_dump(mode="json")
    older = {name: value for name, value in plain.items() if name not in ("stop", "stop_floor")}
    assert plain["evaluate_every"] == 0
    assert run_key("unlearn", plain, {}) == run_key("unlearn", older, {})
    assert settings().evaluate_every == 1
    assert settings(evaluate_every=2).evaluate_every == 2


def test_patients_without_facts_are_refused(hospital: Benchmark, knowing: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sharding"):
        unlearn(knowing, hospital, settings(sharding="fsdp2"), tmp_path / "run", device="cpu", quiet=True)
