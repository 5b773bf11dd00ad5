"""Learning rate and epochs where neither a user nor a preset gave them."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_folders import write_run

from medunlearn.data.benchmark import Benchmark
from medunlearn.study.experiment import plan as plan_run
from medunlearn.study.presets import unlearn_settings
from medunlearn.study.sized_defaults import fit_to_model, forget_items, rate_of_size
from medunlearn.study.sweep.jobs import JobOutput
from medunlearn.study.sweep.sweep_graph import sweep_graph
from medunlearn.study.sweep.sweep_plan import plan as plan_sweep
from medunlearn.study.sweep.sweep_stages import Unlearn


def test_a_large_model_and_few_patients_get_sixty_steps_at_a_rate_of_their_size(hospital: Benchmark) -> None:
    bare = unlearn_settings({"method": "npo", "split": "random_10"}, tiny=None)
    fitted = fit_to_model(bare, 135_000_000, hospital)
    assert fitted.lr == rate_of_size(135_000_000) == pytest.approx(1.37e-4, rel=0.01)
    steps = -(-forget_items(hospital, bare) // bare.batch_size)
    assert steps * (fitted.epochs - 1) < 60 <= steps * fitted.epochs
    assert fit_to_model(bare, None, hospital).lr == bare.lr


def test_what_is_given_stays(hospital: Benchmark) -> None:
    own = unlearn_settings({"method": "npo", "split": "random_10", "lr": 3e-5, "npo.epochs": 2}, tiny=None)
    tiny = unlearn_settings({"method": "npo", "split": "random_10"}, tiny=True)
    edit = unlearn_settings({"method": "manu", "split": "random_10"}, tiny=None)
    for settings in (own, tiny, edit):
        assert fit_to_model(settings, 135_000_000, hospital) == settings


def test_run_and_sweep_fit_a_model_without_a_preset(hospital: Benchmark, tmp_path: Path) -> None:
    target = write_run(tmp_path / "target", "train", "target", results={"parameters": 135_000_000})
    wanted = fit_to_model(
        unlearn_settings({"method": "npo", "split": "random_10"}, tiny=None), 135_000_000, hospital
    )
    common = {"name": "x", "out": tmp_path / "out", "benchmark": {"builder": "amnesia", "synthetic": 30}}
    common |= {"train": {"model": "org/some"}, "unlearn": {"methods": ["npo", "manu"], "simnpo.lr": 1.0}}
    ran = plan_run({**common, "split": "random_10"})
    assert [own.lr for own in ran.fitted(target, hospital)] == [wanted.lr, 2e-5]
    assert next(ran.fitted(None, hospital)).epochs == wanted.epochs
    stages = sweep_graph(plan_sweep({**common, "splits": ["random_10"]}), hospital)
    unlearning = next(stage for stage in stages.cells if isinstance(stage, Unlearn))
    assert unlearning.unlearning().epochs == wanted.epochs
    stages.graph.succeed(unlearning.model, JobOutput(target.folder, None, None))
    assert unlearning.unlearning(stages.graph.inputs) == wanted
    searched = {**common, "unlearn": {"methods": ["npo"], "search": {"split": "random_25", "lr": [1e-3]}}}
    stages = sweep_graph(plan_sweep({**searched, "splits": ["random_10"]}), hospital)
    search = stages.choices[0].after[0]
    stages.graph.succeed(search.model, JobOutput(target.folder, None, None))
    assert search.unlearning(stages.graph.inputs).lr == 1e-3
