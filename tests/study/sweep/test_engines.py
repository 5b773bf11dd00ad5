"""One sweep by torchrun, Slurm and Ray: the same board, the same runs, and after a preemption the same table."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fake_scheduler import ForkedRanks, Scheduler, fake_ray
from forking import forked_workers

from medunlearn.config import AttackSettings, EvaluateSettings, SweepSettings, TrainSettings, UnlearnSettings, check
from medunlearn.errors import ConfigError
from medunlearn.study.slots import process_launch as launch
from medunlearn.study.sweep.jobs import Job
from medunlearn.study.sweep.result import Swept
from medunlearn.study.sweep.survey import foresee
from medunlearn.study.sweep.sweep_plan import plan
from medunlearn.study.sweep.sweep_run import run_sweep

Values = dict[str, Any]


def small_values(sweep_values: Values, out: Path) -> Values:
    """One method, one split, one seed."""
    unlearn = {"methods": ["graddiff"], "epochs": 1, "precision": "fp32", "lr": 1e-3}
    small = {"seeds": [0], "splits": ["random_10"], "retrain": False, "unlearn": unlearn, "out": out}
    return {**sweep_values, **small}


def checkpointed(values: Values) -> Values:
    """With checkpoints to go on from."""
    return {**values, "train": {**values["train"], "epochs": 6, "checkpoint_seconds": 0}}


@pytest.fixture
def small(sweep_values: Values, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Values:
    """The processes of cells are forked."""
    monkeypatch.setattr(launch, "RankProcesses", ForkedRanks)
    monkeypatch.setattr(launch, "_BEAT", 0.02)
    return small_values(sweep_values, tmp_path / "out")


@pytest.fixture(scope="module")
def uninterrupted(sweep_values: Values, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Table of the checkpointed sweep on this machine alone."""
    local = checkpointed(small_values(sweep_values, tmp_path_factory.mktemp("local") / "out"))
    with forked_workers():
        return run_sweep(plan(local), jobs=1, quiet=True).table()


def record(swept: Swept, kind: str) -> Values:
    (folder,) = swept.cells[swept.cells["kind"] == kind]["folder"]
    found: Values = json.loads((Path(folder) / "run.json").read_text())
    return found


def test_a_cell_of_two_processes(small: Values) -> None:
    sharded = {key: {**small[key], "sharding": "fsdp2"} for key in ("train", "unlearn")}
    with forked_workers():
        swept = run_sweep(plan({**small, **sharded, "on": "torchrun", "processes": 2}), jobs=1, quiet=True)
    assert not swept.failed
    for kind in ("target", "unlearn"):
        assert record(swept, kind)["hardware"]["processes"] == 2
        assert record(swept, kind)["config"]["sharding"] == "fsdp2"
        (folder,) = swept.cells[swept.cells["kind"] == kind]["folder"]
        stores = list(Path(folder).glob("responses/*"))
        assert stores
        for store in stores:  # answers, and likelihoods for ranks: of each process
            assert len(list(store.glob("part-*"))) == 2
    # How they were made is not in their keys: without torchrun everything is there.
    assert foresee(plan(small)).left == 0


def test_an_edit_takes_one_process_of_a_slot(small: Values) -> None:
    unlearn = {"methods": ["manu"], "manu.alpha": 5, "precision": "fp32"}
    with forked_workers():
        swept = run_sweep(plan({**small, "unlearn": unlearn, "on": "torchrun", "processes": 2}), jobs=1, quiet=True)
    assert not swept.failed
    assert [record(swept, kind)["hardware"]["processes"] for kind in ("target", "unlearn")] == [2, 1]
    log = (small["out"] / "logs" / "manu-random_10.log").read_text()
    assert log.count("starts on cpu with 1 threads") == 1
    assert "done" in log


@pytest.mark.parametrize("cut_off", ["preempt", "evict"])
def test_a_preempted_sweep_has_the_table_of_one_that_was_not(
    cut_off: str, small: Values, uninterrupted: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, options = Scheduler(), Values()
    monkeypatch.setitem(sys.modules, "submitit", scheduler.module())
    monkeypatch.setattr("medunlearn.study.slots.slurm.POLL", 0.02)
    values = {**checkpointed(small), "on": "slurm", "slurm": {"partition": "gpu"}}

    def take_the_machine_back() -> None:
        limit = time.monotonic() + 60
        while not list(values["out"].glob("target-*/checkpoints/finetune/*/state.json")):
            time.sleep(0.005)
            if time.monotonic() > limit:
                return
        getattr(scheduler.arrays[0][0], cut_off)()

    thread = threading.Thread(target=take_the_machine_back, daemon=True)
    thread.start()
    with forked_workers():
        swept = run_sweep(plan(values), jobs=4, device="cpu", quiet=True)
        thread.join()
    assert not swept.failed
    assert scheduler.arrays[0][0].starts == 2
    # The target; its evaluation beside the method; the method's evaluation.
    assert [len(array) for array in scheduler.arrays] == [1, 2, 1]
    assert scheduler.parameters["slurm_partition"] == "gpu"
    assert scheduler.parameters["slurm_signal_delay_s"] >= 60
    pd.testing.assert_frame_equal(swept.table(), uninterrupted)
    assert not (values["out"] / "slurm" / "jobs.json").exists()
    # What is missing a Ray cluster does, in the same folders.
    evaluation = Path(swept.cells[swept.cells["kind"] == "evaluate"].iloc[1]["evaluation"])
    (evaluation / "run.json").unlink()
    monkeypatch.setitem(sys.modules, "ray", fake_ray(options))
    again = run_sweep(plan({**values, "on": "ray", "slurm": {}}), quiet=True)
    assert options["num_gpus"] == 1
    assert options["max_retries"] > 0
    pd.testing.assert_frame_equal(again.table(), uninterrupted)


@pytest.mark.parametrize(
    ("settings", "measure", "shared"),
    [
        (TrainSettings(model="tiny"), None, True),
        (UnlearnSettings(method="npo", split="a"), EvaluateSettings(split="a"), True),
        (UnlearnSettings(method="manu", split="a"), EvaluateSettings(split="a"), False),
        (None, EvaluateSettings(split="a"), True),
        (None, EvaluateSettings(split="a", backend="vllm"), False),
        (None, AttackSettings(split="a", attacks=("relearning", "quantization")), True),
        (None, AttackSettings(split="a", attacks=("relearning",)), False),
    ],
)
def test_processes_share_what_they_can(settings: Any, measure: Any, shared: bool, tmp_path: Path) -> None:
    assert Job(tmp_path, tmp_path, settings=settings, measure=measure).shared is shared


def test_what_an_engine_needs(small: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for changes, problem in (
        ({"processes": 2}, "a local cell has one process; give on=torchrun"),
        ({"on": "torchrun"}, "give processes, 2 or more"),
        ({"on": "ray"}, r"pip install 'medunlearn\[ray\]'"),
        ({"slurm": {"partition": "a"}}, "go with on=slurm"),
        ({"train": {**small["train"], "sharding": "fsdp2"}}, "use for example --on torchrun --processes 8"),
    ):
        with pytest.raises(ConfigError, match=problem):
            plan({**small, **changes})
    assert check(SweepSettings, {**small}).on == "local"


def test_what_slurm_refuses_is_said(small: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = "sbatch: error: Invalid generic resource (gres) specification"
    monkeypatch.setitem(sys.modules, "submitit", Scheduler(refusal).module())
    with pytest.raises(ConfigError, match=r"Invalid generic resource.*--slurm\.gpus_per_node 0"):
        run_sweep(plan({**small, "on": "slurm"}), jobs=1, quiet=True)

    def not_here(*words: object, **values: object) -> None:
        raise RuntimeError('Could not detect "srun", are you indeed on a slurm cluster?')

    monkeypatch.setattr(sys.modules["submitit"], "AutoExecutor", not_here)
    with pytest.raises(ConfigError, match=r"srun.*Give the command where sbatch"):
        run_sweep(plan({**small, "on": "slurm"}), jobs=1, quiet=True)
