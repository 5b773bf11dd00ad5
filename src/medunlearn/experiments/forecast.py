"""What an experiment will take, stage by stage, before it starts; what is done is not counted again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from medunlearn.config import EvaluateSettings, LoopFields, TrainSettings, UnlearnSettings
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.storage import read_json
from medunlearn.experiments.blueprint import Blueprint, blueprint
from medunlearn.experiments.build import build
from medunlearn.experiments.estimate import Estimator, Memory, Work
from medunlearn.experiments.evaluate import asked, evaluation_folder, longest_answer, metric_names, store_of
from medunlearn.experiments.material import chosen, sequences, training_data
from medunlearn.experiments.pipeline import Experiment, benchmark_folder, trained_folder, unlearned_folder
from medunlearn.experiments.room import Room, advice, room_on
from medunlearn.experiments.runs import FILE, Run
from medunlearn.experiments.unlearn import loss_method, training_sides
from medunlearn.methods.protocol import default_trainable
from medunlearn.models.cost import Hollow, nbytes
from medunlearn.models.load import pick_device
from medunlearn.models.sequences import Rendering, TokenSequence, question_sequence
from medunlearn.training.checkpoint import STATE
from medunlearn.training.objectives import NextToken, Objective, Unlearning
from medunlearn.training.plan import Plan
from medunlearn.training.trainable import choose_trainable

State = Literal["done", "resumes", "to do"]
DELTA_SHARE = 0.5
BYTES_AN_ANSWER = 600


@dataclass(frozen=True)
class Stage:
    """One stage of an experiment.

    Attributes:
        name: e.g. ``target``, ``npo``, ``evaluate npo``.
        state: done, cut off and resumable, or still to do.
        note: where it resumes.
        work: what is left of it.
        disk: bytes that it will leave behind.
        scratch: bytes of checkpoints while it runs, gone afterwards.
    """

    name: str
    state: State
    note: str = ""
    work: Work = field(default_factory=Work)
    disk: int = 0
    scratch: int = 0


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


def forecast(experiment: Experiment, *, device: str = "auto") -> Forecast:
    """What is left to do of an experiment and what it takes. Runs, loads, writes and downloads nothing.

    Raises:
        InputError: a benchmark, split, method or model that the run would refuse too.
    """
    settings = experiment.settings
    benchmark, built = _benchmark(experiment)
    benchmark.split(settings.split)
    metric_names(benchmark, experiment.evaluate)
    planner = Planner(benchmark, blueprint(benchmark, experiment.target), experiment.target, device)
    stages = [built]
    folders: dict[str, Path | None] = {}
    for name, train in (("target", experiment.target), ("retrained", experiment.retrained)):
        if train is not None:
            folders[name] = trained_folder(benchmark, train, name, settings.out)
            stages.append(planner.training(name, train, folders[name]))
    target = folders["target"]
    for method in experiment.methods:
        known = target is not None and _complete(target)
        folder = unlearned_folder(benchmark, method, target, settings.out) if target and known else None
        folders[method.method] = folder
        stages.append(planner.unlearning(method, folder))
    stages += [planner.evaluating(name, experiment.evaluate, folder) for name, folder in folders.items()]
    stages.append(Stage("report", "to do"))
    room = room_on(device, settings.out)
    memory = max((s.work.memory for s in stages if s.work.memory), key=lambda m: m.total, default=None)
    disk = sum(s.disk for s in stages) + max(s.scratch for s in stages)
    doubts = (planner.blueprint.doubt,) if planner.blueprint.doubt else ()
    return Forecast(settings.name, tuple(stages), room, doubts, tuple(advice(memory, disk, room)))


def _benchmark(experiment: Experiment) -> tuple[Benchmark, Stage]:
    """The benchmark, built in memory if it is not there yet."""
    section, folder = dict(experiment.settings.benchmark), benchmark_folder(experiment.settings)
    if "folder" in section or "builder" not in section:
        from medunlearn.experiments.build import from_section

        return from_section(section, folder), Stage("benchmark", "done")
    if (folder / MANIFEST).exists():
        return Benchmark.load(folder), Stage("benchmark", "done")
    made = build(section.pop("builder"), section)
    letters = sum(len(record.text) for record in made.records)
    letters += sum(len(question.question) + len(question.answer) for question in made.questions)
    return made, Stage("benchmark", "to do", disk=letters)


class Planner:
    """Estimates the stages that train and ask one model.

    Args:
        target: settings of the target model, whose rendering its descendants take over.
    """

    def __init__(self, benchmark: Benchmark, drawn: Blueprint, target: TrainSettings, device: str) -> None:
        self.benchmark, self.blueprint, self.target = benchmark, drawn, target
        self.device = pick_device(device)
        self._estimators: dict[tuple[str, str, str], Estimator] = {}

    def training(self, name: str, settings: TrainSettings, folder: Path | None = None) -> Stage:
        """A run of ``train``."""
        if _complete(folder):
            return Stage(name, "done")
        rendering = Rendering(settings.template, settings.context, settings.max_length)
        records, questions = training_data(self.benchmark, settings.without)
        items = {
            "pretrain": (settings.pretrain_epochs, (records, [])),
            "finetune": (settings.epochs, chosen(records, questions, settings.train_on)),
        }
        weights = "fp32" if settings.model == "tiny" else settings.weights
        work, notes = Work(), []
        for phase, (epochs, material) in items.items():
            if epochs:
                plan = Plan(
                    {"train": self._sequences(*material, rendering)}, settings.batch_size, epochs, settings.seed
                )
                more, note = self._phase(folder, phase, plan, settings, settings.trainable, weights, NextToken())
                work, notes = work + more, notes + note
        model = self.estimator(settings.trainable, weights, settings.precision).hollow.model
        return _stage(name, work, notes, nbytes(model), 6 * nbytes(model, trained=True))

    def unlearning(self, settings: UnlearnSettings, folder: Path | None = None) -> Stage:
        """A run of ``unlearn``."""
        if _complete(folder):
            return Stage(settings.method, "done")
        method = loss_method(settings)
        rendering = Rendering(
            settings.template or self.target.template, settings.context or self.target.context, settings.max_length
        )
        sides = training_sides(self.benchmark, settings, self.blueprint.language_model(), rendering)
        plan = Plan(sides, settings.batch_size, settings.epochs, settings.seed)
        trainable = default_trainable(method) if settings.trainable == "default" else settings.trainable
        work, notes = self._phase(
            folder, "unlearn", plan, settings, trainable, settings.weights, Unlearning(method), keeps=True
        )
        model = self.estimator(trainable, settings.weights, settings.precision).hollow.model
        changed = _changed_bytes(model)
        whole = nbytes(model)
        disk = changed if changed < DELTA_SHARE * whole else whole
        return _stage(settings.method, work, notes, disk, 6 * nbytes(model, trained=True))

    def evaluating(self, name: str, settings: EvaluateSettings, folder: Path | None) -> Stage:
        """An evaluation of a stage's model."""
        questions = asked(self.benchmark, self.benchmark.split(settings.split), settings)
        limit = settings.max_new_tokens or longest_answer(self.blueprint.tokenizer, self.benchmark)
        rendering = Rendering(
            settings.template or self.target.template, settings.context or self.target.context
        )
        total = len(questions)
        if folder is not None and _complete(folder):
            run = Run.open(folder)
            if _complete(evaluation_folder(run, self.benchmark, settings)):
                return Stage(f"evaluate {name}", "done")
            known = store_of(run, self.benchmark, settings, rendering, limit).read()
            questions = [q for q in questions if (q.question_id, rendering.context, 0) not in known]
        tokenizer = self.blueprint.tokenizer
        items = [question_sequence(q, self.benchmark.record[q.record_id], tokenizer, rendering) for q in questions]
        work = self.estimator("all", settings.weights, "fp32").asking(items, limit, settings.batch_size)
        note = [f"{total - len(items)} of {total} answers are there"] if len(items) < total else []
        return _stage(f"evaluate {name}", work, note, BYTES_AN_ANSWER * len(items))

    def estimator(self, trainable: str, weights: str, precision: str) -> Estimator:
        """The model that the settings name, ready to be rehearsed; made once."""
        key = (trainable, weights, precision)
        if key not in self._estimators:
            model = choose_trainable(self.blueprint.model(weights), trainable)
            self._estimators[key] = Estimator(Hollow(model, self.device), precision)
        return self._estimators[key]

    def _phase(
        self,
        folder: Path | None,
        phase: str,
        plan: Plan,
        settings: LoopFields,
        trainable: str,
        weights: str,
        objective: Objective,
        *,
        keeps: bool = False,
    ) -> tuple[Work, list[str]]:
        start = _resumes_at(folder, phase)
        estimator = self.estimator(trainable, weights, settings.precision)
        work = estimator.training(plan, settings, objective, keeps=keeps, start=start)
        return work, [f"{phase} at step {start} of {plan.steps}"] if start else []

    def _sequences(self, records: Any, questions: Any, rendering: Rendering) -> list[TokenSequence]:
        return sequences(
            records, questions, self.benchmark.record, self.blueprint.language_model(), rendering
        )


def _stage(name: str, work: Work, notes: list[str], disk: int, scratch: int = 0) -> Stage:
    return Stage(name, "resumes" if notes else "to do", ", ".join(notes), work, disk, scratch)


def _complete(folder: Path | None) -> bool:
    if folder is None or not (folder / FILE).exists():
        return False
    info: Mapping[str, Any] = read_json(folder / FILE)
    return info.get("status") == "complete"


def _resumes_at(folder: Path | None, phase: str) -> int:
    """Steps that are done of a phase, by its newest whole checkpoint."""
    if folder is None:
        return 0
    whole: Iterator[Path] = (folder / "checkpoints" / phase).glob(f"step-*/{STATE}")
    return max((int(path.parent.name.split("-")[1]) for path in whole), default=0)


def _changed_bytes(model: Any) -> int:
    """Bytes of the tensors that a run changes: what it trains, or what a LoRA adapter is merged into."""
    adapted = [module for module in model.modules() if hasattr(module, "lora_A")]
    if adapted:
        return sum(int(module.base_layer.weight.nbytes) for module in adapted)
    return nbytes(model, trained=True)


def memory_of(memory: Memory | None) -> str:
    """Its largest parts in words."""
    if memory is None:
        return ""
    parts = sorted(vars(memory).items(), key=lambda part: -part[1])[:3]
    return ", ".join(f"{name} {size / 2**30:.2f}" for name, size in parts if size)
