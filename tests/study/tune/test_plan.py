"""A tuning before it runs: its cells, its budget, and what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medunlearn.errors import ConfigError
from medunlearn.study.tune.tune_cost import foresee
from medunlearn.study.tune.tune_graph import tune_graph
from medunlearn.study.tune.tune_plan import plan

Values = dict[str, Any]


def test_the_cells_of_two_seeds(tune_values: Values) -> None:
    tuning = plan({**tune_values, "seeds": [0, 1]})
    stages = tune_graph(tuning, None, lambda method, params: None)
    assert Counter((cell.kind, cell.labels.get("half")) for cell in stages.cells) == {
        ("target", None): 2,
        ("retrained", None): 2,
        ("evaluate", "choosing"): 2,  # target and retrained model of the first seed
        ("tune", None): 2,
        ("unlearn", None): 4,  # of the second seed; the first one's models are those of the trials
        ("evaluate", "reporting"): 2 * (2 + 2 * 2),
    }
    needs = {cell.name: tuple(other.name for other in cell.needs) for cell in stages.cells}
    assert needs["tune npo"] == (
        "target, seed 0",
        "evaluate target on the choosing half, seed 0",
        "evaluate retrained on the choosing half, seed 0",
        "retrained, seed 0",
    )
    assert needs["npo best, seed 1"][-1] == "tune npo"
    assert "tune npo" not in needs["npo untuned, seed 1"]
    seen: set[str] = set()
    for cell in stages.cells:  # every cell stands behind those that it waits for
        assert {other.name for other in (*cell.needs, *cell.after)} <= seen
        seen.add(cell.name)


def test_every_method_has_the_same_share(tune_values: Values) -> None:
    assert plan({**tune_values, "runs": 6}).share == 3
    odd = plan({**tune_values, "runs": 7})
    assert odd.share == 3
    assert any("1 of 7 runs are left over" in note for note in odd.notes)
    assert plan({**tune_values, "runs": None, "flops": 3e9}).share == 1.5e9


def test_trials_are_asked_about_the_choosing_half_alone(tune_values: Values) -> None:
    tuning = plan({**tune_values, "evaluate": {**tune_values["evaluate"], "folds": ["train", "holdout"]}})
    settings = tuning.unlearning("npo", {"beta": 0.5, "lr": 3e-3}, 0, trial=True)
    assert (settings.lr, settings.arguments["beta"], settings.evaluate_every) == (3e-3, 0.5, 1)
    measure = tuning.measuring("npo")
    assert (measure.subjects, measure.folds) == ("choosing", ("train",))
    assert "ranked_first" in measure.metrics
    reporting = tuning.evaluating("reporting")
    assert (reporting.subjects, reporting.folds) == ("reporting", ("train", "holdout"))
    assert measure.seed == reporting.seed  # or the halves were others
    assert not tuning.unlearning("npo", {}, 1, trial=False).evaluate_every


def test_an_edit_is_tuned_without_epochs(tune_values: Values) -> None:
    tuning = plan({**tune_values, "unlearn": {"methods": ["manu"]}, "space": {}})
    assert {dimension.name for dimension in tuning.spaces["manu"]} == {"alpha", "threshold"}
    assert not tuning.unlearning("manu", {}, 0, trial=True).evaluate_every
    assert tuning.measuring("manu").subjects == "choosing"


def test_the_plan_says_what_it_will_take(tune_values: Values, tmp_path: Path) -> None:
    values = {**tune_values, "out": tmp_path / "out", "space": {"lr": [1e-4, 1e-2], "epochs": [1, 4]}}
    found = foresee(plan(values), device="cpu")
    assert [(of.trials, of.done, of.epochs) for of in found.methods] == [(3, 0, (1, 4))] * 2
    first, most = found.methods[0].flops
    assert first is not None
    assert most is not None
    assert 2.5 * first < most <= 4 * first
    assert found.models == {"targets": 1, "retrained models": 1, "evaluations": 2 + 2 + 4}
    assert found.subjects == {"choosing": {"forget": 3, "retain": 8}, "reporting": {"forget": 2, "retain": 7}}
    # Four questions of the train fold about each of two subjects a side; two more of other wording in the report.
    assert found.questions["choosing"] < found.questions["reporting"]
    assert list(found.table()["method"]) == ["graddiff", "npo"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"runs": 1}, ["runs=1", "fewer than the 2 methods"]),
        ({"runs": None}, ["give a budget"]),
        ({"flops": 1e9}, ["give a budget"]),
        ({"runs": 0}, ["runs=0"]),
        ({"halving": 1}, ["halving=1"]),
        ({"axes": []}, ["axes"]),
        ({"axes": ["speed"]}, ["axes"]),
        ({"utility_floor": 1.5}, ["utility_floor"]),
        ({"seeds": []}, ["seeds"]),
        ({"split": "nothing"}, ["nothing"]),
        ({"split": "patient=patient-0001"}, ["fewer than two subjects of the forget set"]),
        ({"unlearn": {"methods": ["npoo"]}}, ["'npo'"]),
        ({"unlearn": {"methods": []}}, ["unlearn.methods is missing"]),
        ({"unlearn": {"methods": ["npo"], "evaluate_every": 2}}, ["unlearn.evaluate_every: tuning sets it"]),
        ({"unlearn": {"methods": ["npo"], "search": {"lr": [1]}}}, ["unlearn.search: tuning sets it"]),
        ({"evaluate": {"subjects": "all"}}, ["evaluate.subjects: tuning asks each half"]),
        ({"evaluate": {"metrics": ["rogue_l"]}}, ["rouge_l"]),
        ({"space": {"npo.bta": [0.1, 1]}}, ["'beta'"]),
        ({"space": {"npo.beta": [-1.0, 1]}}, ["space", "npo.beta must be above 0"]),
        ({"space": {"rmu.layer": [0, 1]}}, ["rmu is not among unlearn.methods"]),
        ({"space": {"npoo.beta": [0, 1]}}, ["'npo'"]),
        ({"space": {"warp": [0, 1]}}, ["space.warp: no method of this tuning"]),
        ({"space": {"ga.lr": None}}, ["ga is not among"]),
        ({"space": {"epochs": [0, 2]}}, ["at least one epoch"]),
        ({"spaec": {}}, ["'space'"]),
    ],
)
def test_what_is_refused(tune_values: Values, change: Values, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        plan({**tune_values, **change})
    for part in parts:
        assert part in str(error.value), error.value
    assert "patient-0001" not in str(error.value)


def test_all_mistakes_are_told_at_once(tune_values: Values) -> None:
    bad = {"runs": 1, "space": {"npo.beta": [1, 0.1], "graddiff.x": [0, 1]}}
    with pytest.raises(ConfigError) as error:
        plan({**tune_values, **bad})
    assert len(error.value.problems) == 3


def test_a_method_with_nothing_to_search_is_refused(tune_values: Values) -> None:
    with pytest.raises(ConfigError, match="nothing is searched for ga"):
        plan({**tune_values, "unlearn": {"methods": ["ga"]}, "space": {"lr": None, "epochs": None}})
