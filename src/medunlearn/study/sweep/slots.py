"""Slots of a sweep's engine, and checks of its settings before anything runs."""

from __future__ import annotations

import os
from importlib import import_module

from medunlearn.config import LoopFields, SweepSettings
from medunlearn.errors import ConfigError, InputError
from medunlearn.metrics.workers import usable_cores
from medunlearn.models.pretrained import pick_device
from medunlearn.study.sweep.pool import Slot

CLUSTER_JOBS = 16
"""Cells at a time on a cluster where the user names no number."""


def slots_of(settings: SweepSettings, jobs: int | None, device: str, most: int) -> list[Slot]:
    """One slot per concurrent cell, at most ``most``.

    Raises:
        InputError: no such device, fewer than one job, or fewer GPUs than processes.
    """
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs {jobs}: use at least 1.")
    if settings.on not in ("slurm", "ray"):
        return local_slots(jobs, device, most, settings.processes)
    # A cluster's scheduler gives each cell its devices, and cores that its processes share.
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
    groups = [tuple(range(start, start + processes)) for start in range(0, places * processes, processes)]
    return [Slot(devices[0], threads, processes, groups[i % places] if on_gpu else ()) for i in range(count)]


def check_engine(settings: SweepSettings) -> list[str]:
    """Mistakes in a sweep's engine settings."""
    problems, on = [], settings.on
    if on == "local" and settings.processes > 1:
        problems.append(f"processes={settings.processes}: a local cell has one process; give on=torchrun")
    if on == "torchrun" and settings.processes < 2:
        problems.append("on=torchrun shares a cell among processes: give processes, 2 or more")
    if settings.slurm and on != "slurm":
        problems.append("slurm: its settings go with on=slurm")
    name = {"slurm": "submitit", "ray": "ray"}.get(on)
    if name is not None:
        try:
            import_module(name)
        except ImportError:
            problems.append(f"on={on} needs {name}: pip install 'medunlearn[{on}]'")
    return problems


def check_cell_sharding(settings: LoopFields, processes: int) -> None:
    """Raises ConfigError: a model is to be sharded, but cells have a single process."""
    if settings.sharding != "none" and processes == 1:
        raise ConfigError(
            [
                f"sharding={settings.sharding} divides a model among processes: use for example --on torchrun "
                "--processes 8"
            ]
        )
