"""Cost of an experiment before it starts, stage by stage; what is done is not counted again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import torch

from medunlearn.config import TINIES, EpochFields, EvaluateSettings, LoopFields, TrainSettings, UnlearnSettings
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.errors import MedunlearnError
from medunlearn.methods.editing import EditMethod
from medunlearn.methods.protocol import default_trainable
from medunlearn.models.delta import LARGEST_SHARE
from medunlearn.models.load import LanguageModel, pick_device
from medunlearn.models.mlps import mlps
from medunlearn.models.precision import Precision
from medunlearn.models.sequences import Rendering, question_sequence
from medunlearn.pipeline.benchmark_builds import open_section
from medunlearn.pipeline.epochs.epoch_settings import check_watched, epoch_settings, evaluations
from medunlearn.pipeline.estimate.blueprint import Blueprint, blueprint, blueprint_of
from medunlearn.pipeline.estimate.capacity import Capacity, advice, capacity_of, shown_bytes
from medunlearn.pipeline.estimate.step_cost import Rehearsal, Work, nbytes
from medunlearn.pipeline.evaluate import evaluation_folder, metric_names
from medunlearn.pipeline.experiment import Experiment, benchmark_folder, run_folder
from medunlearn.pipeline.material import phase_plans, rendering_for
from medunlearn.pipeline.questioning import longest_answer, questions_to_ask, store_of
from medunlearn.pipeline.trainer import is_complete
from medunlearn.pipeline.unlearn import choose_parts, training_sides, unlearning_method
from medunlearn.results.runs import Run
from medunlearn.training.batch_plan import Plan
from medunlearn.training.checkpoint import STATE
from medunlearn.training.objectives import NextToken, Objective, Unlearning
from medunlearn.training.optimizers import QUANTIZED
from medunlearn.training.processes import join
from medunlearn.training.trainable import choose_trainable

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
BYTES_AN_ANSWER = 600
SHARDED_PLAN = (
    "With sharding, each process holds a share of the decoder layers; the memory here is that of one process that "
    "holds all. Give the plan by torchrun too, with as many processes as the run will have."
)


@dataclass(frozen=True)
class Stage:
    """One stage of an experiment, and its remaining work.

    Attributes:
        note: where it resumes.
        disk, scratch: bytes that it will leave behind, and of checkpoints while it runs.
    """

    name: str
    state: Literal["done", "resumes", "to do"]
    note: str = ""
    work: Work = field(default_factory=Work)
    disk: int = 0
    scratch: int = 0

    @staticmethod
    def of(name: str, work: Work, notes: list[str], disk: int, scratch: int = 0) -> Stage:
        return Stage(name, "resumes" if notes else "to do", ", ".join(notes), work, disk, scratch)


class Planner:
    """Estimates the stages that train and ask one model.

    Args:
        rendering: the target model's; its descendants are asked like it.
        counted: count tokens and FLOPs too, not only memory.
    """

    def __init__(
        self, benchmark: Benchmark, model: Blueprint, rendering: Rendering, device: str, *, counted: bool = True
    ) -> None:
        self.benchmark, self.blueprint, self.rendering, self.counted = benchmark, model, rendering, counted
        self.language_model = LanguageModel(None, model.tokenizer, "blueprint")
        self.on_gpu, self.processes = pick_device(device).type != "cpu", join().world
        self._rehearsals: dict[tuple[str, str, str], Rehearsal] = {}
        self._asking: dict[tuple[Any, ...], Work] = {}

    def training(self, name: str, settings: TrainSettings, folder: Path | None = None) -> Stage:
        """A run of ``train``."""
        if is_complete(folder):
            return Stage(name, "done")
        weights = "fp32" if settings.model in TINIES else settings.weights
        rehearsal = self.rehearsal(settings.trainable, weights, settings.precision)
        work, notes = Work(), list[str]()
        for phase, plan in phase_plans(self.benchmark, settings, self.language_model).items():
            more, note = self._phase(folder, phase, rehearsal, plan, settings, NextToken())
            work, notes = work + more, notes + note
        work += self._epochs(settings, None, work)
        model = rehearsal.model
        return Stage.of(name, work, notes, nbytes(model), checkpoint_bytes(model, settings))

    def unlearning(self, settings: UnlearnSettings, folder: Path | None = None) -> Stage:
        """A run of ``unlearn``."""
        if is_complete(folder):
            return Stage(settings.method, "done")
        method, own = unlearning_method(settings), self.rendering
        rendering = Rendering(
            settings.template or own.template,
            settings.context or own.context,
            settings.max_length,
            settings.long_notes or own.long_notes,
            own.images,
        )
        sides = training_sides(self.benchmark, settings, self.language_model, rendering)
        if isinstance(method, EditMethod):
            rehearsal = self.rehearsal("all", settings.weights, "fp32")
            read = [sequence for side in sides.values() for sequence in side]
            work = rehearsal.editing(method, read, settings.micro_batch_size, counted=self.counted)
            edited = sum(m.rows.nbytes for mlp in mlps(rehearsal.model, method.layers) for m in mlp.matrices)
            return Stage.of(settings.method, work, [], _delta_bytes(rehearsal.model, edited))
        plan = Plan(sides, settings.batch_size, settings.epochs, settings.seed)
        trainable = default_trainable(method) if settings.trainable == "default" else settings.trainable
        rehearsal = self.rehearsal(
            trainable, settings.weights, settings.precision, lambda model: choose_parts(model, trainable, settings)
        )
        budget = int(settings.keep_gb * 1e9)
        work, notes = self._phase(folder, "unlearn", rehearsal, plan, settings, Unlearning(method), budget)
        work += self._epochs(settings, settings.split, work)
        model = rehearsal.model
        # A LoRA adapter is merged into the matrices that it adapts.
        adapted = [module.base_layer.weight.nbytes for module in model.modules() if hasattr(module, "lora_A")]
        disk = _delta_bytes(model, sum(adapted) if adapted else nbytes(model, trained=True))
        return Stage.of(settings.method, work, notes, disk, checkpoint_bytes(model, settings) + work.kept)

    def evaluating(self, name: str, settings: EvaluateSettings, folder: Path | None) -> Stage:
        """An evaluation of the model in a run's folder."""
        tokenizer, own = self.blueprint.tokenizer, self.rendering
        questions = questions_to_ask(self.benchmark, self.benchmark.split(settings.split), settings)
        limit = settings.max_new_tokens or longest_answer(tokenizer, self.benchmark)
        rendering = Rendering(settings.template or own.template, settings.context or own.context, images=own.images)
        total = len(questions)
        if folder is not None and is_complete(folder):
            run = Run.open(folder)
            if is_complete(evaluation_folder(run, self.benchmark, settings)):
                return Stage(name, "done")
            known = store_of(run, self.benchmark, settings, rendering, limit).read()
            questions = [q for q in questions if (q.question_id, rendering.context, 0) not in known]
        items = [question_sequence(q, self.benchmark.record[q.record_id], tokenizer, rendering) for q in questions]
        # Models of one experiment are asked the same questions.
        key = (settings.weights, limit, settings.batch_size, tuple(item.key for item in items))
        if key not in self._asking:
            rehearsal = self.rehearsal("all", settings.weights, "fp32")
            self._asking[key] = rehearsal.asking(items, limit, settings.batch_size, counted=self.counted)
        note = [f"{total - len(items)} of {total} answers are there"] if len(items) < total else []
        return Stage.of(name, self._asking[key], note, BYTES_AN_ANSWER * len(items))

    def _epochs(self, settings: EpochFields, split: str | None, training: Work) -> Work:
        """Epoch evaluations, beside moments and reference; all of them, also of a run that was cut off."""
        evaluation, held = epoch_settings(settings, split), training.memory
        if evaluation is None or held is None:
            return Work()
        work = self.evaluating("", evaluation, None).work
        memory = work.memory and replace(work.memory, moments=held.moments, reference=held.reference)
        return sum([replace(work, memory=memory)] * evaluations(settings), Work())

    def rehearsal(
        self, trainable: str, weights: str, precision: Precision, mark: Callable[[Any], Any] | None = None
    ) -> Rehearsal:
        """The model as the settings train it, built once; ``mark`` marks what is trained."""
        key = (trainable, weights, precision)
        if key not in self._rehearsals:
            marked = mark or (lambda model: choose_trainable(model, trainable))
            self._rehearsals[key] = Rehearsal(lambda: marked(self.blueprint.make(DTYPES[weights])), precision)
        return self._rehearsals[key]

    def _phase(
        self,
        folder: Path | None,
        phase: str,
        rehearsal: Rehearsal,
        plan: Plan,
        settings: LoopFields,
        objective: Objective,
        budget: int | None = None,
    ) -> tuple[Work, list[str]]:
        """Work of a phase from its last checkpoint on, and where that is."""
        checkpoints = folder.glob(f"checkpoints/{phase}/step-*/{STATE}") if folder else ()
        start = max((int(path.parent.name.split("-")[1]) for path in checkpoints), default=0)
        work = rehearsal.training(
            plan,
            settings,
            objective,
            budget=budget,
            start=start,
            counted=self.counted,
            processes=self.processes,
            offloaded=self.on_gpu and settings.offload == "optimizer",
        )
        return work, [f"{phase} at step {start} of {plan.steps}"] if start else []


def checkpoint_bytes(model: Any, settings: LoopFields) -> int:
    """Weights and two moments of what is trained, twice: an old checkpoint is removed once the new one is whole."""
    size = 1 if settings.optimizer in QUANTIZED else 0
    tensors = [tensor for tensor in model.parameters() if tensor.requires_grad]
    return sum(2 * (tensor.nbytes + 2 * (size or tensor.element_size()) * tensor.numel()) for tensor in tensors)


def _delta_bytes(model: Any, changed: int) -> int:
    """Bytes of a saved model of which so many changed."""
    return changed if changed < LARGEST_SHARE * nbytes(model) else nbytes(model)


@dataclass(frozen=True)
class Forecast:
    """Cost of an experiment; ``doubts`` say why some of the numbers are estimates."""

    name: str
    stages: tuple[Stage, ...]
    capacity: Capacity
    doubts: tuple[str, ...] = ()

    @property
    def total(self) -> Work:
        """All remaining work; memory is the largest stage's."""
        return sum((stage.work for stage in self.stages), Work())

    @property
    def disk(self) -> int:
        """Bytes needed on disk: what the run leaves, and its largest checkpoints."""
        return sum(stage.disk for stage in self.stages) + max((s.scratch for s in self.stages), default=0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Stages that will not fit, and the settings to change."""
        memory = self.total.memory
        largest = next((stage.name for stage in self.stages if stage.work.memory is memory), "")
        return tuple(advice(memory, self.disk, self.capacity, f"Stage {largest}"))

    def has(self) -> str:
        """The machine's capacity in a line."""
        capacity = self.capacity
        return (
            f"This machine has {shown_bytes(capacity.total)} of {capacity.kind}, {shown_bytes(capacity.available)} "
            f"of it free, and {shown_bytes(capacity.disk)} free on the disk."
        )

    def facts(self) -> dict[str, Any]:
        """Everything, for JSON; sizes in bytes."""
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
        """One row a stage; memory by part, in bytes."""
        rows = []
        for stage in self.stages:
            row: dict[str, Any] = {"stage": stage.name, "state": stage.state, "note": stage.note}
            work, memory = stage.work, stage.work.memory
            row |= {name: getattr(work, name) for name in ("steps", "tokens", "generated", "flops")}
            row |= {"memory": None if memory is None else memory.total, "disk": stage.disk}
            rows.append(row | {f"memory/{part}": size for part, size in (vars(memory) if memory else {}).items()})
        return pd.DataFrame(rows)

    def lines(self) -> Iterator[str]:
        """The memory of the largest stage in a line, and warnings."""
        memory, capacity = self.total.memory, self.capacity
        if memory is not None:
            parts = sorted(vars(memory).items(), key=lambda part: -part[1])[:3]
            largest = ", ".join(f"{name} {shown_bytes(size)}" for name, size in parts if size)
            yield (
                f"memory: about {shown_bytes(memory.total)} ({largest}); {shown_bytes(capacity.available)} of "
                f"{shown_bytes(capacity.total)} {capacity.kind} are free"
            )
        yield from self.warnings


def forecast(experiment: Experiment, *, device: str = "auto", counted: bool = True) -> Forecast:
    """Remaining work of an experiment and its cost. Runs, loads, writes and downloads nothing.

    Args:
        counted: count tokens and FLOPs; without them it is faster.

    Raises:
        InputError: a benchmark, split, method or model that the run would refuse too.
    """
    from medunlearn.metrics.leakage import keywords

    settings, target = experiment.settings, experiment.target
    benchmark, built = _benchmark(experiment)
    benchmark.split(settings.split)
    keywords.inputs(benchmark, experiment.evaluate, metric_names(benchmark, experiment.evaluate))
    model = blueprint(benchmark, target)
    planner = Planner(benchmark, model, rendering_for(target), device, counted=counted)
    stages, folders = [built], dict[str, Path | None]()
    for name, train in (("target", target), ("retrained", experiment.retrained)):
        if train is not None:
            folders[name] = folder = run_folder(benchmark, train, name, train.model, settings.out)
            stages.append(_estimated(name, lambda: planner.training(name, train, folder)))  # noqa: B023
    trained = folders["target"]
    for method in experiment.methods:
        # The folder of a run depends on the trained target.
        known = trained is not None and is_complete(trained)
        below = run_folder(benchmark, method, method.method, trained, settings.out) if trained and known else None
        folders[method.method] = below
        stages.append(_estimated(method.method, lambda: planner.unlearning(method, below)))  # noqa: B023
    for name, where in folders.items():
        title = f"evaluate {name}"
        stages.append(_estimated(title, lambda: planner.evaluating(title, experiment.evaluate, where)))  # noqa: B023
    stages += _attacks_and_utility(experiment, benchmark, folders)
    stages.append(Stage("report", "to do"))
    doubts: tuple[str, ...] = (model.doubt,) if model.doubt else ()
    if planner.processes == 1 and any(one.sharding != "none" for one in (target, *experiment.methods)):
        doubts += (SHARDED_PLAN,)
    return Forecast(settings.name, tuple(stages), capacity_of(device, settings.out), doubts)


def _attacks_and_utility(
    experiment: Experiment, benchmark: Benchmark, folders: Mapping[str, Path | None]
) -> Iterator[Stage]:
    """Attacks and utility of every model; their cost is not estimated."""
    check_watched(benchmark, experiment.attack, experiment.utility)
    where: list[tuple[str, Callable[[Run], Path]]] = []
    if (attack := experiment.attack) is not None:
        from medunlearn.attacks.attack_run import attack_folder

        where.append(("attack", lambda run: attack_folder(run, benchmark, attack)))
    if (utility := experiment.utility) is not None:
        from medunlearn.pipeline.utility.harness_run import utility_folder

        where.append(("utility", lambda run: utility_folder(run, utility)))
    for verb, folder_of in where:
        for name, folder in folders.items():
            done = folder is not None and is_complete(folder) and is_complete(folder_of(Run.open(folder)))
            title = f"{verb} {name}"
            yield Stage(title, "done") if done else Stage(title, "to do", "cost not estimated")


def _estimated(name: str, estimate: Callable[[], Stage]) -> Stage:
    """A stage; or a note why it cannot be rehearsed, if a plug-in reads its tensors' values."""
    try:
        return estimate()
    except MedunlearnError:
        raise
    except Exception as error:
        why = str(error).strip().splitlines() or [type(error).__name__]
        return Stage(name, "to do", f"cannot be estimated: {type(error).__name__}: {why[0][:80]}")


def _benchmark(experiment: Experiment) -> tuple[Benchmark, Stage]:
    """The benchmark, built in memory if it is not there yet."""
    section, folder = experiment.settings.benchmark, benchmark_folder(experiment.settings)
    benchmark = open_section(section, folder)
    if "folder" in section or (folder / MANIFEST).exists():
        return benchmark, Stage("benchmark", "done")
    letters = sum(len(record.text) for record in benchmark.records)
    letters += sum(len(question.question) + len(question.answer) for question in benchmark.questions)
    return benchmark, Stage("benchmark", "to do", disk=letters)


def before_training(benchmark: Benchmark, settings: TrainSettings, out: Path, device: str) -> list[str]:
    """Lines to print before a run of ``train``; none where it is done."""

    def estimate() -> Forecast:
        planner = Planner(benchmark, blueprint(benchmark, settings), rendering_for(settings), device, counted=False)
        return Forecast("train", (planner.training("train", settings),), capacity_of(device, out))

    return _lines(estimate, out)


def before_unlearning(
    target: Run, benchmark: Benchmark, settings: UnlearnSettings, out: Path, device: str
) -> list[str]:
    """Lines to print before a run of ``unlearn``; none where it is done."""

    def estimate() -> Forecast:
        rendering = target.rendering(settings.template, settings.context)
        planner = Planner(benchmark, blueprint_of(str(target.model)), rendering, device, counted=False)
        return Forecast(settings.method, (planner.unlearning(settings),), capacity_of(device, out))

    return _lines(estimate, out)


def before_experiment(experiment: Experiment, device: str) -> list[str]:
    """Lines to print before an experiment; none where all of it is done."""
    return _lines(lambda: forecast(experiment, device=device, counted=False), None)


def _lines(estimate: Callable[[], Forecast], out: Path | None) -> list[str]:
    """The lines on rank 0; none on other ranks."""
    try:
        return [] if is_complete(out) or not join().main else list(estimate().lines())
    except Exception:
        # An estimate keeps no run from starting; mistakes in the settings the run reports itself.
        return []
