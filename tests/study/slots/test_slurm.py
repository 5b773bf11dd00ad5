"""Slurm's queue, and the resources of jobs."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_scheduler import Job as FakeJob
from fake_scheduler import Scheduler

from medunlearn.study.slots import slurm
from medunlearn.study.slots.call import Call
from medunlearn.study.slots.slot import EngineSettings, Slot
from medunlearn.study.slots.slurm import SlurmEngine


def settings(out: Path, processes: int = 1, **options: object) -> EngineSettings:
    return SimpleNamespace(on="slurm", processes=processes, slurm=options, out=out)


def start(engine: SlurmEngine, name: str, processes: int | None, log: Path) -> bool:
    return engine.start(Call(name, print, name, log / f"{name}.log", processes))


@pytest.mark.parametrize(
    ("options", "gpus", "cores"),
    [({}, [4, 1], [8, 2]), ({"gpus_per_node": 0, "cpus_per_task": 4}, [0, 0], [4, 4])],
)
def test_a_job_has_the_resources_of_its_processes(
    options: dict[str, object],
    gpus: list[int],
    cores: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler = Scheduler()
    monkeypatch.setitem(sys.modules, "submitit", scheduler.module())
    monkeypatch.setattr(FakeJob, "_start", lambda job: None)
    monkeypatch.setattr(FakeJob, "done", lambda job: True)
    monkeypatch.setattr(FakeJob, "result", lambda job: (job._function.slot.processes, ""))
    engine = SlurmEngine(settings(tmp_path, 4, **options), [Slot("auto", 2, 4)] * 4)
    calls = {"train": None, "edit": 1, "tune": None, "attack": 1}
    assert all(start(engine, name, processes, tmp_path) for name, processes in calls.items())
    assert not engine.has_room
    ended = {result.name: result.value for result in (engine.wait() for _ in calls)}
    assert ended == {"train": 4, "tune": 4, "edit": 1, "attack": 1}
    assert [len(array) for array in scheduler.arrays] == [2, 2]
    assert [parameters["gpus_per_node"] for parameters in scheduler.parameters_of] == gpus
    assert [parameters["cpus_per_task"] for parameters in scheduler.parameters_of] == cores


def test_a_job_that_slurm_no_longer_has_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Slurm's accounting, submitit takes a job that was killed for one that runs."""
    monkeypatch.setitem(sys.modules, "submitit", Scheduler().module())
    monkeypatch.setattr(FakeJob, "_start", lambda job: None)
    monkeypatch.setattr(FakeJob, "done", lambda job: False)
    monkeypatch.setattr(slurm, "LOOK", 0.0)
    monkeypatch.setattr(slurm, "POLL", 0.0)
    # No answer is no absence, and a job that is queued again is there again.
    looks = iter([None, {"1_0"}, set(), None, {"1_0"}, set(), set()])
    monkeypatch.setattr(slurm, "queued_jobs", lambda: next(looks))
    engine = SlurmEngine(settings(tmp_path), [Slot()])
    engine.start(Call("a", print, "a", tmp_path / "a.log"))
    assert engine.wait().failure.startswith("its job 1_0 left Slurm's queue without a result")
    assert list(looks) == []
    assert engine.has_room


@pytest.mark.parametrize("accounting", [True, False])
def test_accounting_is_asked_where_it_is(accounting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sacct").write_text(f"#!/bin/sh\nexit {0 if accounting else 1}\n")
    (tmp_path / "sacct").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(FakeJob, "watcher", SimpleNamespace(_make_command=lambda: ["sacct"]))
    monkeypatch.setitem(sys.modules, "submitit", Scheduler().module())
    SlurmEngine(settings(tmp_path), [Slot()])
    assert FakeJob.watcher._make_command() == (["sacct"] if accounting else None)


def test_the_queue_is_squeues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    squeue = tmp_path / "squeue"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert slurm.queued_jobs() is None
    for script, found in {"echo 12_1; echo 13": {"12_1", "13"}, ":": set(), "exit 1": None}.items():
        squeue.write_text(f"#!/bin/sh\n{script}\n")
        squeue.chmod(0o700)
        assert slurm.queued_jobs() == found
