"""Resources of Ray's tasks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from fake_scheduler import ForkedRanks, fake_ray

from medunlearn.study.slots import process_launch
from medunlearn.study.slots.call import Call
from medunlearn.study.slots.ray_cluster import RayEngine
from medunlearn.study.slots.slot import Slot


def threads_of(argument: object, slot: Slot) -> tuple[int, int]:
    return slot.processes, slot.threads


def test_a_task_has_the_resources_of_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = dict[str, Any]()
    monkeypatch.setitem(sys.modules, "ray", fake_ray(options))
    monkeypatch.setattr(process_launch, "RankProcesses", ForkedRanks)
    for device, gpus in (("auto", 1), ("cpu", 0)):
        with RayEngine([Slot(device, 1, 2)]) as engine:
            assert engine.has_room
            assert engine.start(Call("edit", threads_of, None, tmp_path / "edit.log", 1))
            assert (options["num_cpus"], options["num_gpus"]) == (1, gpus)
            assert not engine.has_room
            assert engine.wait()[:3] == ("edit", (1, 1), "")
            assert engine.start(Call("train", threads_of, None, tmp_path / "train.log"))
            assert (options["num_cpus"], options["num_gpus"]) == (2, 2 * gpus)
            assert engine.wait()[:3] == ("train", (2, 1), "")
    assert options["max_retries"] > 0
