"""Stages and their graph: one object says what runs, what is done already, and what the rest costs.

A stage says all of itself: its name, the stages whose results it needs, its work, its result on disk, its price.
Its work is the same call as the single command's, in the same folder, so that a run made by hand is found. Nothing
is computed or written by making a graph or by reading one of its attributes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from medunlearn.errors import InputError

if TYPE_CHECKING:
    from medunlearn.study.plans.forecast import PlannedStage
    from medunlearn.study.slots.slot import Slot

T = TypeVar("T")
Status = Literal["to do", "running", "done", "failed", "not run", "interrupted"]
OPEN: tuple[Status, ...] = ("to do", "running")
LOST: tuple[Status, ...] = ("failed", "not run")


class Work(NamedTuple):
    """``function(argument, slot)`` for a worker process: both are picklable, and the function is importable.

    Attributes:
        processes: number of processes that it can use; None for all of a slot.
    """

    function: Callable[[Any, Slot], Any]
    argument: Any
    processes: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage(Generic[T]):
    """One step of a graph; ``T`` is its result.

    Attributes:
        name: unique in its graph; shown, so it contains no patient.
        needs: stages that must succeed first; their results are its inputs. By default those among its fields.
        after: stages that must end first, even by failure.
        alone: stages with the same value never run at the same time; "" for none.
        takes_slot: False for a stage that is over at once, in this process.
    """

    name: str
    needs: tuple[Stage[Any], ...] = ()
    after: tuple[Stage[Any], ...] = ()
    alone: str = ""
    takes_slot: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.needs:
            values = (getattr(self, field.name) for field in fields(self))
            object.__setattr__(self, "needs", tuple(value for value in values if isinstance(value, Stage)))

    def read(self, inputs: Inputs) -> T | None:
        """The result, if it is complete on disk; None if there is work left."""
        return None

    def work(self, inputs: Inputs) -> Work | None:
        """The work for a worker process; None if :meth:`run` does it here.

        Raises:
            MedunlearnError: the stage fails by its inputs.
        """
        return None

    def accept(self, output: Any) -> T | None:
        """The result, from the output of the work; None if the stage has more work to hand out."""
        result: T = output
        return result

    def run(self, inputs: Inputs) -> T:
        """Do the work in this process."""
        raise NotImplementedError

    def seconds(self, result: T) -> float | None:
        """Run time recorded with a result; None if unknown."""
        return None

    def report(self, output: Any, seconds: float) -> str:
        """Line for the user after some work; "" for none."""
        return f"{self.name}: {seconds:.1f} s"

    def facts(self, result: T | None = None) -> dict[str, Any]:
        """Description of it and of its result, for a record and tables."""
        return {"name": self.name}


def free(pricing: Any) -> Iterable[PlannedStage]:
    """The price of a stage that costs next to nothing."""
    return ()


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalStage(Stage[T]):
    """A stage of this process: a function of results.

    Attributes:
        do: the function; it resumes by itself.
        takes: the stages whose results are its arguments, in order; None for one that this graph lacks.
        price: the parts of its work, each with its price and with what stands of it on disk.
    """

    takes_slot = False
    do: Callable[..., T]
    takes: tuple[Stage[Any] | None, ...] = ()
    price: Callable[[Any], Iterable[PlannedStage]] = free

    def run(self, inputs: Inputs) -> T:
        return self.do(*(inputs.get(stage) for stage in self.takes))


def step(
    name: str,
    do: Callable[..., T],
    *takes: Stage[Any] | None,
    price: Callable[[Any], Iterable[PlannedStage]] = free,
) -> LocalStage[T]:
    """A stage of this process that needs all that its function takes."""
    needs = tuple(stage for stage in takes if stage is not None)
    return LocalStage(name=name, do=do, takes=takes, needs=needs, price=price)


@dataclass
class StageState:
    """State of a stage: its result once it is done, else the reason why there is none.

    Attributes:
        seconds: run time; None if unknown.
    """

    status: Status = "to do"
    result: Any = None
    reason: str | None = None
    seconds: float | None = None

    @property
    def done(self) -> bool:
        return self.status == "done"


@dataclass(frozen=True)
class Inputs:
    """Results of stages that have ended."""

    _states: Mapping[str, StageState]

    def __getitem__(self, stage: Stage[T]) -> T:
        """The result of a finished stage."""
        state = self._states[stage.name]
        if not state.done:
            raise KeyError(f"{stage.name} has no result")
        result: T = state.result
        return result

    def get(self, stage: Stage[T] | None) -> T | None:
        """The result of a stage; None for no stage, or one that failed."""
        return None if stage is None or not self._states[stage.name].done else self[stage]

    def reason(self, stage: Stage[Any]) -> str | None:
        """Reason why a stage has no result."""
        return self._states[stage.name].reason


@dataclass
class Graph:
    """Stages, each after those that it needs, with their states.

    Attributes:
        ahead: stage -> cost of the most costly way from it to an end, in any unit.
    """

    stages: Mapping[str, Stage[Any]]
    states: dict[str, StageState]
    ahead: dict[str, float] = field(default_factory=dict)

    @staticmethod
    def of(stages: Sequence[Stage[Any]], costs: Mapping[str, float] | None = None) -> Graph:
        """The graph of some stages.

        Args:
            costs: stage -> its cost in any unit, by which the longest way is started first; by default equal.

        Raises:
            InputError: two stages of one name, a need that is not among the stages, or a circle.
        """
        by_name = {stage.name: stage for stage in stages}
        if len(by_name) < len(stages):
            names = [stage.name for stage in stages]
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"Two stages of the graph are named {twice!r}. Give one another name.")
        earlier = {stage.name: [other.name for other in (*stage.needs, *stage.after)] for stage in stages}
        for name, others in earlier.items():
            if missing := [other for other in others if other not in by_name]:
                raise InputError(f"Stage {name!r} needs {missing[0]!r}, which is not in the graph. Add it.")
        try:
            order = [*TopologicalSorter(earlier).static_order()]
        except CycleError as error:
            circle = " -> ".join(error.args[1])
            raise InputError(f"Stages of the graph wait for each other: {circle}. Take one need away.") from error
        place = {name: number for number, name in enumerate(by_name)}
        if any(place[other] > place[name] for name in by_name for other in earlier[name]):
            by_name = {name: by_name[name] for name in order}
        graph = Graph(by_name, {name: StageState() for name in by_name})
        graph.weigh(costs or {})
        return graph

    def weigh(self, costs: Mapping[str, float]) -> None:
        """Set the costs by which the longest way is started first; those not given are 1."""
        self.ahead = {name: costs.get(name, 1.0) for name in self.stages}
        for stage in reversed([*self.stages.values()]):
            for other in (*stage.needs, *stage.after):
                way = costs.get(other.name, 1.0) + self.ahead[stage.name]
                self.ahead[other.name] = max(self.ahead[other.name], way)

    def __getitem__(self, stage: Stage[Any]) -> StageState:
        return self.states[stage.name]

    @property
    def inputs(self) -> Inputs:
        """Results of the stages so far."""
        return Inputs(self.states)

    @property
    def open(self) -> bool:
        """True if a stage runs or can still run."""
        return any(state.status in OPEN for state in self.states.values())

    def running(self) -> list[Stage[Any]]:
        return [stage for name, stage in self.stages.items() if self.states[name].status == "running"]

    def pending(self) -> list[Stage[Any]]:
        """Stages that are not done."""
        return [stage for name, stage in self.stages.items() if not self.states[name].done]

    def find_done(self) -> None:
        """Mark stages whose result is on disk as done, where those that they need are."""
        for name, stage in self.stages.items():
            self.states[name] = StageState()
            needed = (*stage.needs, *stage.after)
            if all(self[other].done for other in needed):
                result = stage.read(self.inputs)
                if result is not None:
                    self.succeed(stage, result)

    def ready(self) -> list[Stage[Any]]:
        """Stages that may start now, those with the longest remaining path first."""
        busy, ready = {stage.alone for stage in self.running()}, list[Stage[Any]]()
        for name in sorted(self.stages, key=lambda name: -self.ahead[name]):
            stage, state = self.stages[name], self.states[name]
            if state.status != "to do" or (stage.alone and stage.alone in busy):
                continue
            needs_met = all(self[need].done for need in stage.needs)
            if needs_met and all(self[other].status not in OPEN for other in stage.after):
                busy.add(stage.alone)
                ready.append(stage)
        return ready

    def succeed(self, stage: Stage[T], result: T, seconds: float | None = None) -> None:
        """Record a stage's result; by default with the run time recorded in it."""
        seconds = stage.seconds(result) if seconds is None else seconds
        self.states[stage.name] = StageState("done", result, None, seconds)

    def fail(self, stage: Stage[Any], reason: str) -> list[str]:
        """Record a failure; returns the names of the stages that cannot run because of it."""
        self.states[stage.name] = StageState("failed", None, reason)
        lost = [stage.name]
        for name, other in self.stages.items():
            if self.states[name].status == "to do" and {*lost} & {need.name for need in other.needs}:
                lost.append(name)
                self.states[name] = StageState("not run", None, f"not run, because {stage.name} failed")
        return lost[1:]

    def run_here(self) -> Inputs:
        """Run every stage in this process, in order; returns their results. The first failure ends it."""
        for stage in self.stages.values():
            if not self[stage].done:
                started = time.perf_counter()
                self.succeed(stage, stage.run(self.inputs), time.perf_counter() - started)
        return self.inputs
