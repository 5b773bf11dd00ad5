"""A budget in FLOPs, without a retrained model, of a method that edits; and a run that is stopped from outside."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from forking import forked_workers

from medunlearn.config import UnlearnSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError
from medunlearn.results.runs import Run
from medunlearn.study.tune.tune_cost import TrialCosts, foresee
from medunlearn.study.tune.tune_graph import tune_graph
from medunlearn.study.tune.tune_plan import Tuning, plan
from medunlearn.study.tune.tune_result import Tuned
from medunlearn.study.tune.tune_run import run_tuning
from medunlearn.study.unlearn import unlearn

Values = dict[str, Any]


def cost_of(tuning: Tuning) -> float:
    """FLOPs of one trial of MANU, by hand: as many passes over the training data, the embedding aside."""
    benchmark = tuning.base.opened
    assert benchmark is not None
    cost = TrialCosts(tuning, benchmark, "cpu")("manu", {})
    assert cost is not None
    return cost


@pytest.fixture(scope="module")
def edited(tune_values: Values, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """MANU with two and a half times the FLOPs of a trial."""
    out = tmp_path_factory.mktemp("edited") / "out"
    values = {
        **tune_values,
        "out": out,
        "retrain": False,
        "runs": None,
        "unlearn": {"methods": ["manu"]},
        "space": {},
    }
    values["flops"] = 2.5 * cost_of(plan({**values, "runs": 1}))
    with forked_workers():
        yield values, run_tuning(plan(values), jobs=1, quiet=True)


def test_a_method_ends_when_the_next_trial_does_not_fit(edited: tuple[Values, Tuned]) -> None:
    values, result = edited
    assert list(result.trials["state"]) == ["complete", "complete"]
    assert list(result.trials["epochs"]) == [0, 0]
    used = result.best.iloc[0]["flops"]
    assert used == pytest.approx(values["flops"] * 2 / 2.5)
    with forked_workers():
        again = run_tuning(plan(values), jobs=1, quiet=True)
    assert len(again.trials) == 2


def test_without_a_retrained_model_ranks_are_the_objective(edited: tuple[Values, Tuned]) -> None:
    _, result = edited
    assert set(result.results["model"]) == {"target", "manu"}
    rows = result.results.query("fold == 'train'").set_index(["model", "setting"])
    target = rows.loc[("target", "")]
    floor = 0.95 * target["utility"]
    # Ten places: a fact among nine alternatives, of which some may be the true value drawn again.
    level = float(re.search(r"from (0\.\d+), the level of unseen subjects", result.objective).group(1))
    assert 0.1 <= level <= 0.2
    for _, row in rows.iterrows():
        below = row["utility"] < floor
        wanted = 1 + floor - row["utility"] if below else abs(row["ranks"] - level)
        assert row["value"] == pytest.approx(wanted, abs=0.02)
    assert "level of unseen subjects" in result.objective
    assert any("exchangeable alternatives" in caveat for caveat in result.caveats)


def test_a_budget_below_one_run_a_method_is_refused(tune_values: Values, tmp_path: Path) -> None:
    values = {**tune_values, "out": tmp_path / "out", "runs": None, "flops": 1e6}
    with pytest.raises(InputError, match=r"is less than one untuned run of .* Use at least"):
        foresee(plan(values), device="cpu")
    with pytest.raises(InputError, match="is less than one untuned run"):
        run_tuning(plan(values), quiet=True)
    assert not list((tmp_path / "out").glob("target-*"))


def test_what_cannot_be_counted_needs_runs(tune_values: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrialCosts, "_estimate", lambda *args: (_ for _ in ()).throw(InputError("no")))
    tuning = plan({**tune_values, "runs": None, "flops": 1e12})
    with pytest.raises(InputError, match=r"graddiff, npo cannot be estimated here\. Use runs instead"):
        foresee(tuning, device="cpu")
    assert foresee(plan(tune_values), device="cpu").methods[0].flops == (None, None)


def test_a_trial_reads_the_retrained_model_where_its_method_does(tune_values: Values) -> None:
    values = {**tune_values, "unlearn": {**tune_values["unlearn"], "npo.reference": "retrained"}}
    tuning = plan(values)
    settings = tuning.unlearning("npo", {"beta": 0.2}, 0, trial=True, retrained=Path("somewhere"))
    assert settings.arguments == {"beta": 0.2, "reference": "somewhere"}
    stages = tune_graph(tuning, None, lambda method, params: None)
    assert "retrained" in {stage.name for stage in stages.methods["npo"].needs}


def test_a_run_ends_where_its_caller_says(hospital: Benchmark, target: Run, tmp_path: Path) -> None:
    """The table of epochs so far is given after each epoch; the model is that of the last one."""
    settings = check(
        UnlearnSettings,
        {
            "method": "graddiff",
            "split": "random_10",
            "epochs": 3,
            "precision": "fp32",
            "evaluate_every": 1,
            "evaluate": {"limit": 1, "max_new_tokens": 4, "replicates": 20, "allow_broken": True},
        },
    )
    seen: list[list[int]] = []

    def stop(epochs: pd.DataFrame) -> bool:
        seen.append(sorted(set(epochs["epoch"])))
        return len(seen) == 2

    run = unlearn(target, hospital, settings, tmp_path / "run", device="cpu", quiet=True, stop=stop)
    assert seen == [[0, 1], [0, 1, 2]]
    facts = json.loads((run.folder / "run.json").read_text())["results"]["epochs"]
    assert (facts["done"], facts["chosen"], facts["stopped_early"]) == (2, 2, True)
    assert run.history()["epoch"].max() == 2
    assert run.info.model_files
