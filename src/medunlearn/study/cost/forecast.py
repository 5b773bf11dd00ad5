"""Forecast of a command: its stages with their prices, what is done already, and whether the machine suffices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from medunlearn.results.runs import is_complete
from medunlearn.study.cost.capacity import Capacity, advice, shown_bytes, shown_number
from medunlearn.study.cost.formulas import Cost
from medunlearn.training.processes import join


@dataclass(frozen=True)
class PlannedStage:
    """One stage of a command, and the price of its remaining work.

    Attributes:
        note: where the stage resumes, or why its price is not known.
    """

    name: str
    state: Literal["done", "resumes", "to do"] = "to do"
    note: str = ""
    cost: Cost = field(default_factory=Cost)

    @property
    def scratch(self) -> float:
        return scratch_of(self.cost)

    def facts(self) -> dict[str, Any]:
        """The stage as JSON; sizes in bytes."""
        own = {"name": self.name, "state": self.state, "note": self.note}
        return {**own, "work": cost_facts(self.cost), "disk": self.cost.disk, "scratch": self.scratch}


def scratch_of(cost: Cost) -> float:
    """Bytes of a training's checkpoints: two, each with what is trained and the optimizer's moments."""
    return 2 * (cost.memory.gradients + cost.memory.moments)


def cost_facts(cost: Cost) -> dict[str, Any]:
    """A price as JSON, without its disk; no memory if there is nothing to do."""
    numbers = {name: getattr(cost, name) for name in ("tokens", "generated", "flops", "steps")}
    return {**numbers, "memory": asdict(cost.memory) if cost.memory.total else None}


@dataclass(frozen=True)
class Forecast:
    """Price of a command.

    Attributes:
        doubts: reasons why some numbers are estimates.
        missing: what the command will lack on this machine.
        guessed: the model is not on this machine; the numbers are those of a common one of the size in its name.
    """

    name: str
    stages: tuple[PlannedStage, ...]
    capacity: Capacity
    doubts: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    guessed: bool = False

    @property
    def total(self) -> Cost:
        """All remaining work, with the memory of the largest stage."""
        return sum((stage.cost for stage in self.stages), Cost())

    @property
    def disk(self) -> float:
        """Bytes needed on disk: the results, and the largest checkpoints."""
        return self.total.disk + max((stage.scratch for stage in self.stages), default=0.0)

    @property
    def hours(self) -> float | None:
        """Hours of one process; None if this device was not timed yet."""
        return self.capacity.hours(self.total)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Stages that will not fit, and the settings to change."""
        largest = max(self.stages, key=lambda stage: stage.cost.memory.total, default=PlannedStage(""))
        return tuple(advice(largest.cost.memory, self.disk, self.capacity, f"Stage {largest.name}"))

    def facts(self) -> dict[str, Any]:
        """All numbers for JSON; sizes in bytes."""
        total = self.total
        return {
            "name": self.name,
            "stages": [stage.facts() for stage in self.stages],
            "left": cost_facts(total) | {"memory_bytes": self.capacity.needed(total.memory), "hours": self.hours},
            "disk_bytes": self.disk,
            "room": asdict(self.capacity),
            "doubts": list(self.doubts),
            "missing": list(self.missing),
            "warnings": list(self.warnings),
        }

    def table(self) -> pd.DataFrame:
        """One row per stage; memory by part, in bytes."""
        rows = []
        for stage in self.stages:
            facts, cost = stage.facts(), stage.cost
            row = {"stage": stage.name, **{name: facts[name] for name in ("state", "note", "disk")}}
            row |= {name: value for name, value in facts["work"].items() if name != "memory"}
            memory = {f"memory/{part}": size for part, size in self.capacity.parts(cost.memory).items()}
            rows.append(row | {"memory": self.capacity.needed(cost.memory)} | memory)
        return pd.DataFrame(rows)

    def summary(self) -> str:
        """The remaining work in one line."""
        done = sum(stage.state == "done" for stage in self.stages)
        if done == len(self.stages):
            return "Everything is done."
        hours = "" if self.hours is None else f", about {self.hours:.2g} hours"
        memory = self.total.memory
        fits = f", {self.capacity.fit(memory, self.warnings)}" if memory.total else ""
        stages = f"{len(self.stages) - done} of {len(self.stages)} stages"
        flops, disk = shown_number(self.total.flops), shown_bytes(self.disk)
        return f"Left: {stages}, {flops} FLOPs{hours}{fits}, {disk} on the disk."

    def lines(self) -> Iterator[str]:
        """The memory of the largest stage in one line, and warnings."""
        memory, capacity = self.total.memory, self.capacity
        if memory.total:
            parts = sorted(capacity.parts(memory).items(), key=lambda part: -part[1])[:3]
            largest = ", ".join(f"{name} {shown_bytes(size)}" for name, size in parts if size)
            yield (
                f"memory: about {shown_bytes(capacity.needed(memory))} ({largest}); "
                f"{shown_bytes(capacity.available)} of {shown_bytes(capacity.total)} {capacity.kind} are free"
            )
        yield from self.warnings


def announce(say: Callable[[str], None] | None, estimate: Callable[[], Forecast], out: Path | None) -> None:
    """Print memory and disk of a run before it starts, on rank 0; nothing if the run in ``out`` is complete.

    Also nothing for a model that is not on this machine, whose id may be wrong.
    """
    if say is None or not join().main:
        return
    try:
        forecast = None if is_complete(out) else estimate()
        lines = [*forecast.lines()] if forecast and not forecast.guessed else []
    except Exception:
        # A forecast keeps no run from starting; mistakes in the settings the run reports itself.
        return
    for line in lines:
        say(line)
