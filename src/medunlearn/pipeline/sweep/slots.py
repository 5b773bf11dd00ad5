"""Slots of a cluster, and what of a sweep's engine cannot work, found before anything runs."""

from __future__ import annotations

from importlib import import_module

from medunlearn.config import LoopFields, SweepSettings
from medunlearn.errors import ConfigError, InputError
from medunlearn.pipeline.sweep.pool import Slot

CLUSTER_JOBS = 16
"""Cells at a time on a cluster where the user names no number."""


def cluster_slots(settings: SweepSettings, jobs: int | None, device: str, most: int) -> list[Slot]:
    """Slots of a cluster, whose scheduler gives each its devices. Raises InputError: fewer than one job."""
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs {jobs}: it is at least 1.")
    threads = int(settings.slurm.get("cpus_per_task", 1)) if settings.on == "slurm" else 1
    slot = Slot("auto" if device == "cuda" else device, threads, settings.processes)
    return [slot] * min(jobs or CLUSTER_JOBS, most)


def check_engine(settings: SweepSettings) -> list[str]:
    """Mistakes in what a sweep's settings say of its engine."""
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
    """Raises ConfigError: a model is to be divided, and a cell has one process."""
    if settings.sharding != "none" and processes == 1:
        raise ConfigError(
            [f"sharding={settings.sharding} divides a model among processes: give --on torchrun --processes 8, say"]
        )
