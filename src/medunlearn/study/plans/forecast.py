"""Forecast of a command: its stages with their prices, what is done already, and whether the machine suffices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from medunlearn.result_view import ResultView
from medunlearn.results.runs import is_complete
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.plans.capacity import Capacity
from medunlearn.terminal import short_number, size
from medunlearn.training.processes import join

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.reports.blocks import Block


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

    def facts(self) -> dict[str, Any]:
        """The stage as JSON; sizes in bytes."""
        own = {"name": self.name, "state": self.state, "note": self.note, "work": self.cost.facts()}
        return own | {"disk": self.cost.disk, "scratch": self.cost.scratch}


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
        return self.total.disk + max((stage.cost.scratch for stage in self.stages), default=0.0)

    @property
    def hours(self) -> float | None:
        """Hours of one process; None if this device was not timed yet."""
        return self.capacity.hours(self.total)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Stages that will not fit, and the settings to change."""
        largest = max(self.stages, key=lambda stage: stage.cost.memory.total, default=PlannedStage(""))
        return tuple(self.capacity.advice(largest.cost.memory, self.disk, f"Stage {largest.name}"))

    def facts(self) -> dict[str, Any]:
        """All numbers for JSON; sizes in bytes."""
        total, lists = self.total, ("doubts", "missing", "warnings")
        return {
            "name": self.name,
            "stages": [stage.facts() for stage in self.stages],
            "left": total.facts() | {"memory_bytes": self.capacity.needed(total.memory), "hours": self.hours},
            "disk_bytes": self.disk,
            "room": asdict(self.capacity),
            **{name: list(getattr(self, name)) for name in lists},
        }

    def table(self) -> pd.DataFrame:
        """One row per stage; memory by part, in bytes."""
        import pandas as pd

        rows = []
        for stage in self.stages:
            memory, facts = self.capacity.parts(stage.cost.memory), stage.facts()
            work, row = facts.pop("work"), {"stage": facts.pop("name")}
            row |= facts | work | {"memory": sum(memory.values())}
            rows.append(row | {f"memory/{part}": size for part, size in memory.items()})
        return pd.DataFrame(rows).drop(columns="scratch")

    def summary(self) -> str:
        """The remaining work in one line."""
        done, total = sum(stage.state == "done" for stage in self.stages), self.total
        if done == len(self.stages):
            return "Everything is done."
        of = f" of one {self.capacity.device}" if self.capacity.device else ""
        hours = "" if self.hours is None else f", about {self.hours:.3g} hours{of}"
        fits = f", {self.capacity.fit(total.memory)}" if total.memory.total else ""
        stages = f"{len(self.stages) - done} of {len(self.stages)} stages"
        return f"Left: {stages}, {short_number(total.flops)} FLOPs{hours}{fits}, {size(self.disk)} on the disk."

    def view(self, *, every: bool = False, stages: Iterable[PlannedStage] | None = None) -> ResultView:
        """The work that is left, with what it lacks and what does not fit, for the terminal.

        Args:
            every: a table of stages too.
            stages: its rows; None: :attr:`stages`.
        """

        def blocks() -> Iterator[Block | str | None]:
            from medunlearn.reports.view import plain_table

            yield f"{self.name}. {self.summary()}"
            if every:
                shown = self.stages if stages is None else stages
                rows = [self._row(stage.name, stage.state, stage.cost, stage.cost.disk) for stage in shown]
                rows.append(self._row("all that is left", "", self.total, self.disk))
                yield plain_table(("Stage", "State", "Tokens", "FLOPs", "Memory", "Disk"), rows, "Stages")
                yield from (f"{stage.name}: {stage.note}" for stage in self.stages if stage.note)
                yield "Tokens: run through the model + generated at most. Memory: of the largest stage, about."
            yield untimed(self)
            yield from (*self.doubts, *self.missing, *self.warnings)

        return ResultView(self.facts, blocks())

    def _row(self, name: str, state: str, cost: Cost, disk: float) -> tuple[str, ...]:
        tokens = short_number(cost.tokens) + (f" + {short_number(cost.generated)}" if cost.generated else "")
        return name, state, tokens if cost.tokens else "", *cost_cells(cost, self.capacity, disk)

    def lines(self) -> Iterator[str]:
        """The memory of the largest stage in one line, and warnings."""
        memory, capacity = self.total.memory, self.capacity
        if memory.total:
            parts = sorted(capacity.parts(memory).items(), key=lambda part: -part[1])[:3]
            largest = ", ".join(f"{name} {size(part)}" for name, part in parts if part)
            free = f"{size(capacity.available)} of {size(capacity.total)} {capacity.kind} are free"
            yield f"memory: about {size(capacity.needed(memory))} ({largest}); {free}"
        yield from self.warnings


def cost_cells(cost: Cost, capacity: Capacity, disk: float) -> tuple[str, str, str]:
    """FLOPs, memory and bytes on disk as cells of a table; empty where there are none."""
    memory = size(capacity.needed(cost.memory)) if cost.memory.total else ""
    return short_number(cost.flops) if cost.flops else "", memory, size(disk) if disk else ""


def untimed(plan: Any) -> str | None:
    """The way to know the hours of work on a device that was not timed yet."""
    is_unknown = plan.hours is None and plan.total.flops
    return "Hours are not known: with --time-device this device is timed, once." if is_unknown else None


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
