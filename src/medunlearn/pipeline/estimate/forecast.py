"""What an experiment will take, stage by stage, before it starts; what is done is not counted again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.attacks.run import attack_folder
from medunlearn.config import TrainSettings, UnlearnSettings
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.errors import MedunlearnError
from medunlearn.metrics.leakage import keywords
from medunlearn.pipeline.benchmarks import build, from_section, needs_folder
from medunlearn.pipeline.epochs.epoch_settings import check_watched
from medunlearn.pipeline.estimate.amounts import Memory, Work
from medunlearn.pipeline.estimate.blueprint import blueprint, of_folder_or_hub
from medunlearn.pipeline.estimate.planner import Planner, Stage, complete
from medunlearn.pipeline.estimate.room import Room, advice, room_on, shown_bytes
from medunlearn.pipeline.evaluate import metric_names
from medunlearn.pipeline.material import rendering_of
from medunlearn.pipeline.pipeline import Experiment, benchmark_folder, trained_folder, unlearned_folder
from medunlearn.pipeline.utility.measure import utility_folder
from medunlearn.results.runs import Run
from medunlearn.training.processes import join

WHOLE = (
    "With sharding, each process holds a share of the decoder layers; the memory here is that of one process that "
    "holds all. Give the plan by torchrun too, with as many processes as the run will have."
)


@dataclass(frozen=True)
class Forecast:
    """What an experiment will take.

    Attributes:
        name: of the experiment.
        stages: in the order in which they run.
        room: what the machine has.
        doubts: why some of the numbers are estimates.
        warnings: what will not fit, and what to change.
    """

    name: str
    stages: tuple[Stage, ...]
    room: Room
    doubts: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def total(self) -> Work:
        """Everything that is left to do; memory is the largest stage's."""
        return sum((stage.work for stage in self.stages), Work())

    @property
    def disk(self) -> int:
        """Bytes that the run needs on the disk: what it leaves, and the largest checkpoints on the way."""
        return sum(stage.disk for stage in self.stages) + max((s.scratch for s in self.stages), default=0)

    def has(self) -> str:
        """What the machine has, in a line."""
        room = self.room
        return (
            f"This machine has {shown_bytes(room.total)} of {room.kind}, {shown_bytes(room.available)} of it free, "
            f"and {shown_bytes(room.disk)} free on the disk."
        )

    def facts(self) -> dict[str, Any]:
        """Everything, for JSON; sizes in bytes."""
        total = self.total
        return {
            "name": self.name,
            "stages": [asdict(stage) for stage in self.stages],
            "left": asdict(total) | {"memory_bytes": total.memory.total if total.memory else 0},
            "disk_bytes": self.disk,
            "room": asdict(self.room),
            "doubts": list(self.doubts),
            "warnings": list(self.warnings),
        }

    def table(self) -> pd.DataFrame:
        """One row a stage; memory by part, in bytes."""
        rows = []
        for stage in self.stages:
            work, memory = stage.work, stage.work.memory
            parts = {} if memory is None else {f"memory/{part}": size for part, size in vars(memory).items()}
            rows.append(
                {
                    "stage": stage.name,
                    "state": stage.state,
                    "note": stage.note,
                    "steps": work.steps,
                    "tokens": work.tokens,
                    "generated": work.generated,
                    "flops": work.flops,
                    "memory": None if memory is None else memory.total,
                    "disk": stage.disk,
                    **parts,
                }
            )
        return pd.DataFrame(rows)


def forecast(experiment: Experiment, *, device: str = "auto", counted: bool = True) -> Forecast:
    """What is left to do of an experiment and what it takes. Runs, loads, writes and downloads nothing.

    Args:
        counted: tokens and FLOPs are wanted; without them it is faster.

    Raises:
        InputError: a benchmark, split, method or model that the run would refuse too.
    """
    settings, target = experiment.settings, experiment.target
    benchmark, built = _benchmark(experiment)
    benchmark.split(settings.split)
    keywords.inputs(benchmark, experiment.evaluate, metric_names(benchmark, experiment.evaluate))
    drawn = blueprint(benchmark, target)
    planner = Planner(
        benchmark,
        drawn,
        target.template,
        target.context,
        device,
        counted=counted,
        long_notes=target.long_notes,
        images=target.images,
        processes=join().world,
    )
    stages, folders = [built], dict[str, Path | None]()
    for name, train in (("target", target), ("retrained", experiment.retrained)):
        if train is not None:
            folders[name] = folder = trained_folder(benchmark, train, name, settings.out)
            stages.append(_tried(name, lambda: planner.training(name, train, folder)))  # noqa: B023
    trained = folders["target"]
    for method in experiment.methods:
        # Where a run will be depends on what the target will have become.
        known = trained is not None and complete(trained)
        below = unlearned_folder(benchmark, method, trained, settings.out) if trained and known else None
        folders[method.method] = below
        stages.append(_tried(method.method, lambda: planner.unlearning(method, below)))  # noqa: B023
    for name, where in folders.items():
        title = f"evaluate {name}"
        stages.append(_tried(title, lambda: planner.evaluating(title, experiment.evaluate, where)))  # noqa: B023
    stages += _beside(experiment, benchmark, folders)
    stages.append(Stage("report", "to do"))
    doubts: tuple[str, ...] = (drawn.doubt,) if drawn.doubt else ()
    if join().world == 1 and any(one.sharding != "none" for one in (target, *experiment.methods)):
        doubts += (WHOLE,)
    return _judged(Forecast(settings.name, tuple(stages), room_on(device, settings.out), doubts, ()))


def _beside(experiment: Experiment, benchmark: Benchmark, folders: Mapping[str, Path | None]) -> Iterator[Stage]:
    """Attacks and utility of every model; what they take is not estimated."""
    check_watched(benchmark, experiment.attack, experiment.utility)
    where: list[tuple[str, Callable[[Run], Path]]] = []
    if (attack := experiment.attack) is not None:
        where.append(("attack", lambda run: attack_folder(run, benchmark, attack)))
    if (utility := experiment.utility) is not None:
        where.append(("utility", lambda run: utility_folder(run, utility)))
    for verb, folder_of in where:
        for name, folder in folders.items():
            done = folder is not None and complete(folder) and complete(folder_of(Run.open(folder)))
            yield (
                Stage(f"{verb} {name}", "done") if done else Stage(f"{verb} {name}", "to do", "cost not estimated")
            )


def _judged(found: Forecast) -> Forecast:
    memory = found.total.memory
    stage = next((s.name for s in found.stages if s.work.memory is memory), "")
    return replace(found, warnings=tuple(advice(memory, found.disk, found.room, f"Stage {stage}")))


def _tried(name: str, estimate: Callable[[], Stage]) -> Stage:
    """A stage that cannot be rehearsed, since a plug-in looks into its tensors say, does not stop the plan."""
    try:
        return estimate()
    except MedunlearnError:
        raise
    except Exception as error:
        why = str(error).strip().splitlines() or [type(error).__name__]
        return Stage(name, "to do", f"cannot be estimated: {type(error).__name__}: {why[0][:80]}")


def _benchmark(experiment: Experiment) -> tuple[Benchmark, Stage]:
    """The benchmark, built in memory if it is not there yet."""
    section, folder = dict(experiment.settings.benchmark), benchmark_folder(experiment.settings)
    if "folder" in section or "builder" not in section:
        return from_section(section, folder), Stage("benchmark", "done")
    if (folder / MANIFEST).exists():
        return Benchmark.load(folder), Stage("benchmark", "done")
    if needs_folder(section):
        # Its texts are as many and as long without the images.
        section["text_only"] = True
    made = build(section.pop("builder"), section)
    letters = sum(len(record.text) for record in made.records)
    letters += sum(len(question.question) + len(question.answer) for question in made.questions)
    return made, Stage("benchmark", "to do", disk=letters)


def before_training(benchmark: Benchmark, settings: TrainSettings, out: Path, device: str) -> list[str]:
    """Lines to say before a run of ``train``; none where it is done."""

    def estimate() -> Forecast:
        drawn = blueprint(benchmark, settings)
        planner = Planner(
            benchmark,
            drawn,
            settings.template,
            settings.context,
            device,
            counted=False,
            images=settings.images,
            processes=join().world,
        )
        return _single(planner.training("train", settings), out, device)

    return _lines(estimate, out)


def before_unlearning(
    target: Run, benchmark: Benchmark, settings: UnlearnSettings, out: Path, device: str
) -> list[str]:
    """Lines to say before a run of ``unlearn``; none where it is done."""

    def estimate() -> Forecast:
        shown = rendering_of(target, settings.template, settings.context)
        drawn = of_folder_or_hub(str(target.model))
        planner = Planner(
            benchmark,
            drawn,
            shown.template,
            shown.context,
            device,
            counted=False,
            long_notes=shown.long_notes,
            images=shown.images,
            processes=join().world,
        )
        return _single(planner.unlearning(settings), out, device)

    return _lines(estimate, out)


def before_experiment(experiment: Experiment, device: str) -> list[str]:
    """Lines to say before an experiment; none where all of it is done."""
    return _lines(lambda: forecast(experiment, device=device, counted=False), None)


def _single(stage: Stage, out: Path, device: str) -> Forecast:
    return _judged(Forecast(stage.name, (stage,), room_on(device, out), (), ()))


def _lines(estimate: Callable[[], Forecast], out: Path | None) -> list[str]:
    """What the main process says; the others are silent."""
    try:
        return [] if complete(out) or not join().main else list(_said(estimate()))
    except Exception:
        # An estimate keeps no run from starting; what is wrong with the settings the run says itself.
        return []


def _said(found: Forecast) -> Iterator[str]:
    """The memory of the largest stage in a line, and warnings."""
    memory = found.total.memory
    if memory is not None:
        room = found.room
        yield (
            f"memory: about {shown_bytes(memory.total)} ({_parts(memory)}); "
            f"{shown_bytes(room.available)} of {shown_bytes(room.total)} {room.kind} are free"
        )
    yield from found.warnings


def _parts(memory: Memory) -> str:
    """Its largest parts in words."""
    parts = sorted(vars(memory).items(), key=lambda part: -part[1])[:3]
    return ", ".join(f"{name} {shown_bytes(size)}" for name, size in parts if size)
