"""Engines, which run calls in slots: all take the same calls and give the same results.

| ``on`` | a call runs |
|---|---|
| ``local`` | in a worker process, on one GPU |
| ``torchrun`` | on several GPUs of this machine, shared by processes that torchrun starts; or on one of them |
| ``slurm`` | as a Slurm job, by submitit; calls of one shape that start together are one array |
| ``ray`` | as a task of a Ray cluster |
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import TracebackType
from typing import Protocol, Self

from medunlearn.config import LoopFields
from medunlearn.errors import ConfigError
from medunlearn.study.slots.call import Call, CallResult
from medunlearn.study.slots.pool import Pool
from medunlearn.study.slots.ray_cluster import RayEngine
from medunlearn.study.slots.slot import EngineSettings, Slot
from medunlearn.study.slots.slurm import SlurmEngine


class Engine(Protocol):
    """Runs several calls concurrently; a context that leaves no process running."""

    @property
    def has_room(self) -> bool:
        """True if a call of one process may start now."""
        ...

    def start(self, call: Call) -> bool:
        """Start a call, at once or before any later one; False if it is to be offered again after the next end."""
        ...

    def wait(self) -> CallResult:
        """Wait for the next call that ends."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def make_engine(settings: EngineSettings, slots: Sequence[Slot]) -> Engine:
    """The engine named in the settings.

    Raises:
        ConfigError: its package is not installed.
    """
    if settings.on == "slurm":
        return SlurmEngine(settings, slots)
    return RayEngine(slots) if settings.on == "ray" else Pool(slots)


def check_engine(settings: EngineSettings) -> list[str]:
    """Mistakes in an engine's settings."""
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


def check_sharding(settings: LoopFields, processes: int) -> None:
    """Raises ConfigError: a model is to be sharded, but there is a single process."""
    if settings.sharding != "none" and processes == 1:
        raise ConfigError(
            [
                f"sharding={settings.sharding} divides a model among processes: use for example --on torchrun "
                "--processes 8"
            ]
        )
