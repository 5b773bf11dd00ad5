"""A tuning where sweeps run: as Slurm jobs with the local trials, and with trials that two processes share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fake_scheduler import ForkedRanks, Scheduler
from forking import forked_workers

from medunlearn.results.runs import RunRecord
from medunlearn.study.slots import process_launch
from medunlearn.study.tune.tune_plan import plan
from medunlearn.study.tune.tune_run import run_tuning

Values = dict[str, Any]


@pytest.fixture
def small(tune_values: Values, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Values:
    """One method, two trials; the processes of cells are forked."""
    monkeypatch.setattr(process_launch, "RankProcesses", ForkedRanks)
    monkeypatch.setattr(process_launch, "_BEAT", 0.02)
    unlearn = {**tune_values["unlearn"], "methods": ["graddiff"]}
    return {**tune_values, "unlearn": unlearn, "retrain": False, "runs": 2, "out": tmp_path / "out"}


def test_slurm_jobs_give_the_local_trials(small: Values, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler()
    monkeypatch.setitem(sys.modules, "submitit", scheduler.module())
    monkeypatch.setattr("medunlearn.study.slots.slurm.POLL", 0.02)
    with forked_workers():
        queued = run_tuning(plan({**small, "on": "slurm", "slurm": {"partition": "gpu"}}), device="cpu", quiet=True)
        local = run_tuning(plan({**small, "out": tmp_path / "local"}), jobs=1, device="cpu", quiet=True)
    assert not queued.failed
    assert sum(map(len, scheduler.arrays)) >= 2 + len(queued.trials)
    columns = ["method", "number", "params", "state", "value", "utility", "ranks", "epochs"]
    pd.testing.assert_frame_equal(queued.trials[columns], local.trials[columns])
    pd.testing.assert_frame_equal(queued.table(), local.table())


def test_two_processes_share_a_trial(small: Values) -> None:
    with forked_workers():
        result = run_tuning(plan({**small, "on": "torchrun", "processes": 2}), jobs=1, device="cpu", quiet=True)
    assert list(result.trials["state"]) == ["complete", "complete"]
    assert result.trials["value"].notna().all()
    records = [RunRecord.read(file.parent) for file in result.folder.rglob("run.json")]
    processes = [record.hardware["processes"] for record in records if record.verb == "unlearn"]
    assert processes
    assert set(processes) == {2}
