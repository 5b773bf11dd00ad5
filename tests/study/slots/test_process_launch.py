"""Processes that a call is launched in: failures come back, and nothing outlives the launcher."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest
from fake_scheduler import ForkedRanks
from forking import Forked

from medunlearn.errors import InputError, ProcessError
from medunlearn.study.slots import process_launch as launch
from medunlearn.study.slots.process_launch import Launch, command
from medunlearn.study.slots.slot import Slot


def refuses(argument: object, slot: Slot) -> object:
    raise InputError(f"{argument} cannot be read.")


def dies(argument: object, slot: Slot) -> object:
    os._exit(9)


def test_a_failure_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "RankProcesses", ForkedRanks)
    with pytest.raises(ProcessError, match=r"^run/x cannot be read\.$"):
        Launch(refuses, "run/x", Slot()).wait()
    with pytest.raises(ProcessError, match=r"^its processes ended \(code 9; out of memory\?"):
        Launch(dies, None, Slot()).wait()


def sleeps(pid_file: Path, slot: Slot) -> None:
    pid_file.write_text(str(os.getpid()))
    time.sleep(60)


def test_a_call_ends_with_the_process_that_launched_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ray kills a task's process where memory is short; what it launched would hold the call's folder."""
    monkeypatch.setattr(launch, "RankProcesses", ForkedRanks)
    pid_file = tmp_path / "pid"
    launcher = Forked(lambda: Launch(sleeps, pid_file, Slot()).wait())
    limit = time.monotonic() + 30
    while not pid_file.exists() or not pid_file.read_text():
        assert time.monotonic() < limit
        time.sleep(0.01)
    launcher.kill()
    launcher.wait()
    psutil.Process(int(pid_file.read_text())).wait(timeout=30)


def test_torchrun_starts_several_processes(tmp_path: Path) -> None:
    assert "--nproc_per_node 4" in " ".join(command(tmp_path, Slot(processes=4)))
    assert "torch.distributed.run" not in command(tmp_path, Slot())
