"""Cost of an experiment before it starts, stage by stage, without completed work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.errors import MedunlearnError, first_line
from medunlearn.probes.evaluate import metric_names
from medunlearn.probes.material import rendering_for
from medunlearn.results.runs import Run, is_complete
from medunlearn.study.benchmark_builds import open_section
from medunlearn.study.epochs.epoch_settings import check_watched
from medunlearn.study.estimate.blueprint import blueprint
from medunlearn.study.estimate.capacity import Capacity, advice, capacity_of, shown_bytes
from medunlearn.study.estimate.stage_cost import Planner, Stage
from medunlearn.study.estimate.work import Work
from medunlearn.study.experiment import Experiment, benchmark_folder, run_folder
from medunlearn.training.processes import join

SHARDED_PLAN = (
    "With sharding, each process holds a share of the decoder layers; the memory here is that of one process that "
    "holds all. Give the plan by torchrun too, with as many processes as the run will have."
)


@dataclass(frozen=True)
class Forecast:
    """Cost of an experiment; ``doubts`` lists reasons why some numbers are estimates.

    ``guessed``: the model is not on this machine; the numbers are those of a common one of the size in its name.
    """

    name: str
    stages: tuple[Stage, ...]
    capacity: Capacity
    doubts: tuple[str, ...] = ()
    guessed: bool = False

    @property
    def total(self) -> Work:
        """All remaining work, with the memory of the largest stage."""
        return sum((stage.work for stage in self.stages), Work())

    @property
    def disk(self) -> int:
        """Bytes needed on disk: the results of the run, and its largest checkpoints."""
        return sum(stage.disk for stage in self.stages) + max((s.scratch for s in self.stages), default=0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Stages that will not fit, and the settings to change."""
        memory = self.total.memory
        largest = next((stage.name for stage in self.stages if stage.work.memory is memory), "")
        return tuple(advice(memory, self.disk, self.capacity, f"Stage {largest}"))

    def has(self) -> str:
        """The machine's capacity in one line."""
        room = self.capacity
        total, available, disk = map(shown_bytes, (room.total, room.available, room.disk))
        return f"This machine has {total} of {room.kind}, {available} of it free, and {disk} free on the disk."

    def facts(self) -> dict[str, Any]:
        """All numbers for JSON; sizes in bytes."""
        total = self.total
        return {
            "name": self.name,
            "stages": [asdict(stage) for stage in self.stages],
            "left": asdict(total) | {"memory_bytes": total.memory.total if total.memory else 0},
            "disk_bytes": self.disk,
            "room": asdict(self.capacity),
            "doubts": list(self.doubts),
            "warnings": list(self.warnings),
        }

    def table(self) -> pd.DataFrame:
        """One row per stage; memory by part, in bytes."""
        rows = []
        for stage in self.stages:
            row: dict[str, Any] = {"stage": stage.name, "state": stage.state, "note": stage.note}
            work, memory = stage.work, stage.work.memory
            row |= {name: getattr(work, name) for name in ("steps", "tokens", "generated", "flops")}
            row |= {"memory": None if memory is None else memory.total, "disk": stage.disk}
            rows.append(row | {f"memory/{part}": size for part, size in (vars(memory) if memory else {}).items()})
        return pd.DataFrame(rows)

    def lines(self) -> Iterator[str]:
        """The memory of the largest stage in one line, and warnings."""
        memory, capacity = self.total.memory, self.capacity
        if memory is not None:
            parts = sorted(vars(memory).items(), key=lambda part: -part[1])[:3]
            largest = ", ".join(f"{name} {shown_bytes(size)}" for name, size in parts if size)
            yield (
                f"memory: about {shown_bytes(memory.total)} ({largest}); {shown_bytes(capacity.available)} of "
                f"{shown_bytes(capacity.total)} {capacity.kind} are free"
            )
        yield from self.warnings


def forecast(experiment: Experiment, *, device: str = "auto") -> Forecast:
    """Remaining work of an experiment and its cost. Runs, loads, writes and downloads nothing.

    Raises:
        InputError: a benchmark, split, method or model that the run would refuse.
    """
    from medunlearn.metrics.leakage import keywords

    settings, target = experiment.settings, experiment.target
    section, folder = settings.benchmark, benchmark_folder(settings)
    benchmark = open_section(section, folder)
    benchmark.split(settings.split)
    keywords.inputs(benchmark, experiment.evaluate, metric_names(benchmark, experiment.evaluate))
    model = blueprint(benchmark, target)
    planner = Planner(benchmark, model, rendering_for(target), device)
    is_built = "folder" in section or (folder / MANIFEST).exists()
    stages = [Stage("benchmark", "done") if is_built else Stage("benchmark", "to do", disk=_text_bytes(benchmark))]
    folders = dict[str, Path | None]()
    if experiment.adopt is not None:
        stages.append(Stage("target", "to do", f"{experiment.adopt[0]} is adopted; nothing is trained"))
        folders["target"] = None
    own = None if experiment.adopt is not None else target
    for name, train in (("target", own), ("retrained", experiment.retrained)):
        if train is not None:
            folders[name] = trained_in = run_folder(benchmark, train, name, train.model, settings.out)
            stages.append(_estimate(name, lambda: planner.training(name, train, trained_in)))  # noqa: B023
    # The folder of an unlearning run depends on the trained target.
    trained = folders["target"] if is_complete(folders["target"]) else None
    for method in experiment.methods:
        out = run_folder(benchmark, method, method.method, trained, settings.out) if trained else None
        folders[method.method] = out
        stages.append(_estimate(method.method, lambda: planner.unlearning(method, out)))  # noqa: B023
    for name, run in folders.items():
        title = f"evaluate {name}"
        stages.append(_estimate(title, lambda: planner.evaluating(title, experiment.evaluate, run)))  # noqa: B023
    stages += [*_attacks_and_utility(experiment, planner, folders), Stage("report", "to do")]
    doubts = [model.doubt] if model.doubt else []
    if planner.processes == 1 and any(s.sharding != "none" for s in (target, *experiment.methods)):
        doubts.append(SHARDED_PLAN)
    guessed = bool(model.doubt)
    return Forecast(settings.name, tuple(stages), capacity_of(device, settings.out), tuple(doubts), guessed)


def _attacks_and_utility(
    experiment: Experiment, planner: Planner, folders: Mapping[str, Path | None]
) -> Iterator[Stage]:
    """Attacks and utility of every model; the harness's tasks are not estimated."""
    benchmark = planner.benchmark
    check_watched(benchmark, experiment.attack, experiment.utility)

    def of_each(verb: str, result_folder: Callable[[Run], Path], cost: Callable[[str], Stage]) -> Iterator[Stage]:
        for name, folder in folders.items():
            is_finished = (
                folder is not None and is_complete(folder) and is_complete(result_folder(Run.open(folder)))
            )
            title = f"{verb} {name}"
            yield Stage(title, "done") if is_finished else _estimate(title, lambda: cost(title))  # noqa: B023

    if (attack := experiment.attack) is not None:
        from medunlearn.attacks.attack_run import attack_folder
        from medunlearn.study.estimate.attack_cost import attack_stage

        yield from of_each(
            "attack",
            lambda run: attack_folder(run, benchmark, attack),
            lambda title: attack_stage(title, planner, attack, experiment.target),
        )
    if (utility := experiment.utility) is not None:
        from medunlearn.probes.utility.harness_run import utility_folder

        not_known = "cost not estimated: the harness reads its tasks when it runs"
        yield from of_each(
            "utility", lambda run: utility_folder(run, utility), lambda title: Stage(title, "to do", not_known)
        )


def _estimate(name: str, estimate: Callable[[], Stage]) -> Stage:
    """A stage's estimate; or a note why it cannot be rehearsed, if a plug-in reads tensor values."""
    try:
        return estimate()
    except MedunlearnError:
        raise
    except Exception as error:
        reason = first_line(error, 80)
        return Stage(name, "to do", f"cannot be estimated: {type(error).__name__}: {reason}")


def _text_bytes(benchmark: Benchmark) -> int:
    letters = sum(len(record.text) for record in benchmark.records)
    return letters + sum(len(question.question) + len(question.answer) for question in benchmark.questions)


def announce(
    say: Callable[[str], None] | None,
    estimate: Callable[[], Forecast | Stage | None],
    out: Path | None,
    device: str,
) -> None:
    """Print memory and disk of a run before it starts, on rank 0; nothing if the run in ``out`` is complete.

    Also nothing for a model that is not on this machine, whose id may be wrong.
    """
    if say is None or not join().main:
        return
    try:
        cost = None if is_complete(out) else estimate()
        if isinstance(cost, Stage):
            cost = Forecast(cost.name, (cost,), capacity_of(device, out or Path()))
        lines = list(cost.lines()) if cost and not cost.guessed else []
    except Exception:
        # An estimate keeps no run from starting; mistakes in the settings the run reports itself.
        return
    for line in lines:
        say(line)
