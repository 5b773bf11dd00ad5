"""Membership and utility after every epoch: what `attack` and `utility` find, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import medunlearn as mu
from medunlearn.attacks.attacked import Attacked
from medunlearn.attacks.membership.membership_run import MembershipJob
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError
from medunlearn.models.folders import fingerprint
from medunlearn.probes.utility.numbers import Utility
from medunlearn.reports.epochs import epoch_figures, epoch_table
from medunlearn.results.runs import Run
from medunlearn.study.unlearn import unlearn

AREAS = {"attacks": ["loss", "gradient_norm"], "replicates": 20}
FEW = {"folds": ["train"], "metrics": ["rouge_l", "exact_match"], "max_new_tokens": 4, "replicates": 20}


def asked(tasks: Path) -> dict[str, Any]:
    return {"tasks": ["capitals"], "include": str(tasks), "replicates": 50}


@pytest.fixture(scope="module")
def watched(
    lume: Benchmark,
    lume_target: Run,
    tasks: Path,
    npo: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Run:
    """Two epochs of NPO; after each, its answers, two attacks and a task."""
    settings = npo(evaluate_every=1, evaluate=FEW, attack=AREAS, utility=asked(tasks), keep_epochs=True)
    return unlearn(lume_target, lume, settings, tmp_path_factory.mktemp("npo") / "npo", quiet=True)


def rows(run: Run, measure: str) -> pd.DataFrame:
    table = pd.read_parquet(run.folder / "epochs.parquet")
    return table[table["measure"] == measure]


def test_an_epochs_area_is_what_attack_finds_and_training_is_not_disturbed(
    lume: Benchmark, lume_target: Run, npo: Callable[..., Any], watched: Run, tmp_path: Path
) -> None:
    alone = unlearn(lume_target, lume, npo(), tmp_path / "alone", quiet=True)
    assert fingerprint(alone.model) == fingerprint(watched.model)
    found = rows(watched, "membership_auc")
    assert found["epoch"].unique().tolist() == [0, 1, 2]
    assert set(found["metric"]) == {"loss", "gradient_norm"}
    assert set(found["node"]) == {"public_biography"}
    settings = {"split": "half", "attacks": "loss,gradient_norm", "quiet": True, "replicates": 20}
    for epoch, run in ((0, lume_target), (2, watched)):
        table = mu.attack(run, lume, **settings).table()
        areas = table[table["measure"] == "auc"].set_index("attack")
        for row in found[found["epoch"] == epoch].to_dict("records"):
            assert row["value"] == pytest.approx(areas.loc[row["metric"], "value"])
            low = areas.loc[row["metric"], "low"]
            assert pd.isna(row["low"]) if pd.isna(low) else row["low"] == pytest.approx(low)
    assert Attacked.find(watched.epoch(1), "half", "membership") is not None
    # The best epoch is not chosen by them.
    parts = watched.info.results["epochs"]["numbers"][0]["parts"]
    assert parts
    assert not [name for name in parts if "membership" in name or "utility" in name]


def test_an_epochs_utility_is_what_utility_finds(lume_target: Run, tasks: Path, watched: Run) -> None:
    found = rows(watched, "utility").set_index("epoch")["value"]
    assert found.index.tolist() == [0, 1, 2]
    for epoch, run in ((0, lume_target), (2, watched)):
        again = mu.utility(run, tasks="capitals", include=tasks, replicates=50, quiet=True)
        assert found[epoch] == again.models[0].value
    assert Utility.find(watched.epoch(1)) is not None


def test_the_report_draws_them_with_their_references(lume: Benchmark, lume_target: Run, watched: Run) -> None:
    from medunlearn.results.evaluated import Evaluated
    from medunlearn.study.report.gather import gather

    mu.evaluate(watched, lume, split="half", against=[lume_target], quiet=True, **FEW)
    content = gather("x", [Evaluated.find(lume_target), Evaluated.find(watched, "half")])
    figures = dict(epoch_figures(content))
    assert "public biography: membership AUC, loss" in figures
    target, *_, line = figures["utility, acc"]["data"]
    assert (target["name"], target["line"]["dash"]) == ("target", "dash")
    assert line["y"] == pytest.approx(rows(watched, "utility")["value"].tolist())
    shown = {str(row[0]) for row in epoch_table(content).rows}  # type: ignore[union-attr]
    assert any("membership AUC, gradient norm" in name for name in shown)


def test_cut_off_in_an_attack(
    lume: Benchmark, lume_target: Run, npo: Callable[..., Any], watched: Run, tasks: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    settings = npo(evaluate_every=1, evaluate=FEW, attack=AREAS, utility=asked(tasks), keep_epochs=True)
    real, calls = MembershipJob.run, list[str]()

    def killed(job: MembershipJob, holder: Any, *rest: Any) -> None:
        calls.append(holder.run.label)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(job, holder, *rest)

    monkeypatch.setattr(MembershipJob, "run", killed)
    out = tmp_path / "npo"
    with pytest.raises(KeyboardInterrupt):
        unlearn(lume_target, lume, settings, out, quiet=True)
    again = unlearn(lume_target, lume, settings, out, quiet=True)
    # The target was attacked by the run before this one; what was done is not done twice.
    assert calls == ["NPO, epoch 1", "NPO, epoch 2", "NPO, epoch 2"]
    ours, theirs = (pd.read_parquet(run.folder / "epochs.parquet") for run in (again, watched))
    pd.testing.assert_frame_equal(ours, theirs)


def test_mistakes_are_told_before_anything_runs(
    lume: Benchmark, lume_target: Run, npo: Callable[..., Any], tasks: Path, tmp_path: Path
) -> None:
    def refused(**values: Any) -> str:
        with pytest.raises(InputError) as told:
            unlearn(lume_target, lume, npo(**values), tmp_path / "r", quiet=True)
        assert not (tmp_path / "r").exists()
        return str(told.value)

    assert "--evaluate-every 1 too" in refused(attack=AREAS)
    both = refused(evaluate_every=1, attack={"attacks": "los"}, utility={"tasks": "capitals", "weights": "bf16"})
    assert "Did you mean 'loss'" in both
    assert "utility.weights='bf16'" in both
    assert "attack.split='full'" in refused(evaluate_every=1, attack={**AREAS, "split": "full"})
    wrong = {**asked(tasks), "fewshots": 2}
    assert "Did you mean 'fewshot'" in refused(evaluate_every=1, utility=wrong)
    everybody = mu.build.lume(new=True, stories=2, personal_biographies=2, public_biographies=2, nonmembers=0)
    wanted = npo(evaluate_every=1, attack=AREAS, other_texts=True)
    with pytest.raises(InputError, match="no non-members"):
        unlearn(lume_target, everybody, wanted, tmp_path / "r", quiet=True)


def test_an_experiment_hands_its_sections_on(tasks: Path) -> None:
    from medunlearn.study.experiment import plan

    values: dict[str, Any] = {
        "name": "x", "out": "runs/x", "benchmark": {"folder": "lume/"}, "split": "half", "train": {"model": "tiny"},
        "unlearn": {"methods": ["npo"], "evaluate_every": 1, "utility.limit": 4}, "attack": {"attacks": "loss"},
        "utility": asked(tasks),
    }  # fmt: skip
    experiment = plan(values)
    assert experiment.attack is not None
    assert experiment.utility is not None
    assert experiment.attack.attacks == ("loss",)
    assert (experiment.utility.limit, experiment.methods[0].utility["limit"]) == (None, 4)
    assert experiment.methods[0].attack == {"attacks": "loss"}
    with pytest.raises(ConfigError, match=r"attack: There is no attack 'los'.*\n.*utility: limit=0"):
        plan(values | {"attack": {"attacks": "los"}, "utility": {**asked(tasks), "limit": 0}})
