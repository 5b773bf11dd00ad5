"""Slots: devices and processor cores for calls, which split for calls of fewer processes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from medunlearn.errors import InputError
from medunlearn.metrics.workers import usable_cores
from medunlearn.models.pretrained import pick_device

if TYPE_CHECKING:
    from medunlearn.probes.shared_work import SharedWork

CLUSTER_JOBS = 16
"""Slots on a cluster if the user gives no number."""


class EngineSettings(Protocol):
    """The part of a command's settings that selects and configures an engine."""

    @property
    def on(self) -> str: ...
    @property
    def processes(self) -> int: ...
    @property
    def slurm(self) -> Mapping[str, Any]: ...
    @property
    def out(self) -> Path: ...


@dataclass(frozen=True)
class Slot:
    """Device and processor cores of a call.

    Attributes:
        device: of each process, among the devices that it sees.
        threads: of each process.
        processes: number of processes that share a call's work; 0 for what is left of a slot in full use.
        gpus: numbers of the only GPUs that they see, one each, as counted here; empty: they see the same as this
            process.
        work: results that successive calls of a worker share; None: nothing is shared.
    """

    device: str = "cpu"
    threads: int = 1
    processes: int = 1
    gpus: tuple[int, ...] = ()
    work: SharedWork | None = None

    def split(self, processes: int) -> tuple[Slot, Slot]:
        """A part of so many processes, each with its GPU, and the rest."""
        part = replace(self, processes=processes, gpus=self.gpus[:processes])
        return part, replace(self, processes=self.processes - processes, gpus=self.gpus[processes:])

    def merge(self, part: Slot) -> Slot:
        """This slot and a part that was split off."""
        return replace(self, processes=self.processes + part.processes, gpus=tuple(sorted(self.gpus + part.gpus)))

    def environment(self) -> dict[str, str]:
        """Environment variables that limit a process to the slot's threads and GPUs."""
        variables = {"OMP_NUM_THREADS": str(self.threads)}
        if self.gpus:
            visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
            names = [visible[gpu] if visible else str(gpu) for gpu in self.gpus]
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(names)
        return variables


def slots_of(settings: EngineSettings, jobs: int | None, device: str, most: int) -> list[Slot]:
    """One slot per concurrent call that takes a whole one, at most ``most``; none, and no look at devices, for 0.

    Raises:
        InputError: no such device, fewer than one job, or fewer GPUs than processes.
    """
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs {jobs}: use at least 1.")
    if not most:
        return []
    if settings.on not in ("slurm", "ray"):
        return local_slots(jobs, device, most, settings.processes)
    # A cluster's scheduler gives each call its devices, and cores that its processes share.
    cores = int(settings.slurm.get("cpus_per_task", 1)) if settings.on == "slurm" else 1
    threads = max(1, cores // settings.processes)
    slot = Slot("auto" if device == "cuda" else device, threads, settings.processes)
    return [slot] * min(jobs or CLUSTER_JOBS, most)


def local_slots(jobs: int | None, device: str, most: int, processes: int) -> list[Slot]:
    """Slots with GPUs assigned in turn, one per process, and cores divided evenly."""
    import torch  # not to check settings

    gpus = torch.cuda.device_count() if device in ("auto", "cuda") else 0
    devices = [f"cuda:{index}" for index in range(gpus)] or [str(pick_device(device))]
    on_gpu = devices[0].startswith("cuda")
    if on_gpu and processes > max(1, gpus):
        raise InputError(f"processes={processes}: this machine has {gpus} GPUs, and each process needs one.")
    places = len(devices) // processes if on_gpu else max(1, usable_cores() // processes)
    count = min(jobs or places, most)
    threads = max(1, usable_cores() // (count * processes))
    if limit := os.environ.get("OMP_NUM_THREADS", ""):
        threads = min(threads, int(limit)) if limit.isdecimal() and int(limit) > 0 else threads
    if processes == 1:
        return [Slot(devices[index % len(devices)], threads) for index in range(count)]
    if not on_gpu:
        return [Slot(devices[0], threads, processes)] * count
    groups = [tuple(range(start, start + processes)) for start in range(0, places * processes, processes)]
    return [Slot("cuda", threads, processes, groups[index % places]) for index in range(count)]
