"""Slots of a machine and a cluster, and their parts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from medunlearn.errors import InputError
from medunlearn.study.slots.slot import Slot, local_slots, slots_of


def test_each_slot_has_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 8)
    slots = local_slots(None, "auto", 100, 4)
    assert [slot.gpus for slot in slots] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert {slot.device for slot in slots} == {"cuda"}
    assert [slot.gpus for slot in local_slots(3, "cuda", 100, 4)][2] == (0, 1, 2, 3)
    with pytest.raises(InputError, match="processes=9: this machine has 8 GPUs"):
        local_slots(None, "cuda", 1, 9)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,6,5,4,3,2,1,0")
    assert slots[1].environment()["CUDA_VISIBLE_DEVICES"] == "3,2,1,0"
    assert slots[1].split(1)[0].environment()["CUDA_VISIBLE_DEVICES"] == "3"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert slots[1].environment()["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"
    assert Slot(threads=3).environment() == {"OMP_NUM_THREADS": "3"}


def test_parts_add_up_to_the_slot() -> None:
    whole = Slot("cuda", 2, 4, (4, 5, 6, 7))
    first, rest = whole.split(1)
    second, rest = rest.split(1)
    assert (first, second) == (Slot("cuda", 2, 1, (4,)), Slot("cuda", 2, 1, (5,)))
    assert rest == Slot("cuda", 2, 2, (6, 7))
    assert rest.merge(second).gpus == (5, 6, 7)
    assert rest.merge(first).merge(second) == whole
    everything, nothing = whole.split(4)
    assert everything == whole
    assert nothing.processes == 0
    assert nothing.merge(everything) == whole


def test_parts_share_cores_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medunlearn.study.slots.slot.usable_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    (whole,) = local_slots(1, "cpu", 1, 4)
    part, rest = whole.split(1)
    assert part == Slot("cpu", 2, 1)
    assert rest == Slot("cpu", 2, 3)


@pytest.mark.parametrize(("processes", "cores", "threads"), [(1, 8, 8), (4, 8, 2), (4, 2, 1), (4, None, 1)])
def test_processes_of_a_job_share_its_cores(
    processes: int, cores: int | None, threads: int, tmp_path: Path
) -> None:
    slurm = {} if cores is None else {"cpus_per_task": cores}
    settings = SimpleNamespace(on="slurm", processes=processes, slurm=slurm, out=tmp_path)
    (slot,) = slots_of(settings, 1, "cpu", 1)
    assert (slot.processes, slot.threads) == (processes, threads)
