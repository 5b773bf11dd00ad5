"""One stage of an experiment before it starts: what is left of it, and what that takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from medunlearn.config import (
    TINIES,
    Context,
    EpochFields,
    EvaluateSettings,
    Images,
    LongNotes,
    LoopFields,
    Template,
    TrainSettings,
    UnlearnSettings,
)
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question, Record
from medunlearn.data.storage import read_json
from medunlearn.methods.editing import EditMethod
from medunlearn.methods.protocol import default_trainable
from medunlearn.models.delta import LARGEST_SHARE
from medunlearn.models.load import pick_device
from medunlearn.models.precision import Precision
from medunlearn.models.sequences import Rendering, TokenSequence, question_sequence
from medunlearn.pipeline.editing.estimate import edited_bytes, editing
from medunlearn.pipeline.epochs.epoch_settings import epoch_settings, evaluations
from medunlearn.pipeline.estimate.amounts import Memory, Work
from medunlearn.pipeline.estimate.asking import asking
from medunlearn.pipeline.estimate.blueprint import Blueprint
from medunlearn.pipeline.estimate.estimate import Estimator
from medunlearn.pipeline.estimate.hollow import nbytes
from medunlearn.pipeline.evaluate import evaluation_folder
from medunlearn.pipeline.material import chosen, phase_plan, rendering_for, sequences, training_data
from medunlearn.pipeline.questioning import asked, longest_answer, store_of
from medunlearn.pipeline.unlearn import choose_parts, training_sides, unlearning_method
from medunlearn.results.runs import FILE, Run
from medunlearn.training.checkpoint import STATE
from medunlearn.training.objectives import NextToken, Objective, Unlearning
from medunlearn.training.optimizers import QUANTIZED
from medunlearn.training.plan import Plan
from medunlearn.training.trainable import choose_trainable

State = Literal["done", "resumes", "to do"]
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


class Planner:
    """Estimates the stages that train and ask one model.

    Args:
        template, context, long_notes, images: the target model's; its descendants are asked like it.
        counted: tokens and FLOPs are wanted too, not only memory.
        processes: that train together; memory is that of each.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        drawn: Blueprint,
        template: Template,
        context: Context,
        device: str,
        *,
        counted: bool = True,
        long_notes: LongNotes = "refuse",
        images: Images = "use",
        processes: int = 1,
    ) -> None:
        self.benchmark, self.blueprint, self.counted = benchmark, drawn, counted
        self.template, self.context, self.long_notes, self.images = template, context, long_notes, images
        self.device, self.processes = pick_device(device), processes
        self._estimators: dict[tuple[str, str, str], Estimator] = {}
        self._asking: dict[tuple[Any, ...], Work] = {}

    def training(self, name: str, settings: TrainSettings, folder: Path | None = None) -> Stage:
        """A run of ``train``."""
        if complete(folder):
            return Stage(name, "done")
        rendering = rendering_for(settings)
        records, questions = training_data(self.benchmark, settings.without)
        items = {
            "pretrain": (settings.pretrain_epochs, (records, [])),
            "finetune": (settings.epochs, chosen(records, questions, settings.train_on)),
        }
        weights = "fp32" if settings.model in TINIES else settings.weights
        work, notes = Work(), list[str]()
        for phase, (epochs, material) in items.items():
            if epochs:
                plan = phase_plan(settings, phase, epochs, self._sequences(*material, rendering))
                more, note = self._phase(folder, phase, plan, settings, settings.trainable, weights, NextToken())
                work, notes = work + more, notes + note
        work += self._watching(settings, None, work.memory)
        model = self.estimator(settings.trainable, weights, settings.precision).hollow.model
        return _stage(name, work, notes, nbytes(model), checkpoint_bytes(model, settings))

    def unlearning(self, settings: UnlearnSettings, folder: Path | None = None) -> Stage:
        """A run of ``unlearn``."""
        if complete(folder):
            return Stage(settings.method, "done")
        method = unlearning_method(settings)
        rendering = Rendering(
            settings.template or self.template,
            settings.context or self.context,
            settings.max_length,
            settings.long_notes or self.long_notes,
            self.images,
        )
        sides = training_sides(self.benchmark, settings, self.blueprint.language_model(), rendering)
        if isinstance(method, EditMethod):
            return self._editing(settings, method, [one for side in sides.values() for one in side])
        plan = Plan(sides, settings.batch_size, settings.epochs, settings.seed)
        trainable = default_trainable(method) if settings.trainable == "default" else settings.trainable
        self.estimator(
            trainable, settings.weights, settings.precision, lambda m: choose_parts(m, trainable, settings)
        )
        work, notes = self._phase(
            folder,
            "unlearn",
            plan,
            settings,
            trainable,
            settings.weights,
            Unlearning(method),
            budget=int(settings.keep_gb * 1e9),
        )
        work += self._watching(settings, settings.split, work.memory)
        model = self.estimator(trainable, settings.weights, settings.precision).hollow.model
        changed = _changed_bytes(model)
        whole = nbytes(model)
        disk = changed if changed < LARGEST_SHARE * whole else whole
        return _stage(settings.method, work, notes, disk, checkpoint_bytes(model, settings) + work.kept)

    def _editing(self, settings: UnlearnSettings, method: EditMethod, read: list[TokenSequence]) -> Stage:
        """A run of a method that edits the weights; cut off, it begins again."""
        hollow = self.estimator("all", settings.weights, "fp32").hollow
        work = editing(hollow, method, read, settings.micro_batch_size, counted=self.counted)
        changed, whole = edited_bytes(hollow.model, method), nbytes(hollow.model)
        return _stage(settings.method, work, [], changed if changed < LARGEST_SHARE * whole else whole)

    def evaluating(self, title: str, settings: EvaluateSettings, folder: Path | None) -> Stage:
        """An evaluation of the model in a run's folder."""
        questions = asked(self.benchmark, self.benchmark.split(settings.split), settings)
        limit = settings.max_new_tokens or longest_answer(self.blueprint.tokenizer, self.benchmark)
        rendering = Rendering(
            settings.template or self.template, settings.context or self.context, images=self.images
        )
        total = len(questions)
        if folder is not None and complete(folder):
            run = Run.open(folder)
            if complete(evaluation_folder(run, self.benchmark, settings)):
                return Stage(title, "done")
            known = store_of(run, self.benchmark, settings, rendering, limit).read()
            questions = [q for q in questions if (q.question_id, rendering.context, 0) not in known]
        tokenizer = self.blueprint.tokenizer
        items = [question_sequence(q, self.benchmark.record[q.record_id], tokenizer, rendering) for q in questions]
        # Models of one experiment are asked the same, so that it is found out once.
        key = (settings.weights, limit, settings.batch_size, tuple(item.key for item in items))
        if key not in self._asking:
            estimator = self.estimator("all", settings.weights, "fp32")
            self._asking[key] = asking(estimator, items, limit, settings.batch_size, counted=self.counted)
        work = self._asking[key]
        note = [f"{total - len(items)} of {total} answers are there"] if len(items) < total else []
        return _stage(title, work, note, BYTES_AN_ANSWER * len(items))

    def _watching(self, settings: EpochFields, split: str | None, training: Memory | None) -> Work:
        """The evaluations of a run's epochs; they stand beside the optimizer's moments and the reference.

        Those of a run that was cut off are counted again, and one that may end early is taken to go on.
        """
        evaluation = epoch_settings(settings, split)
        if evaluation is None or training is None:
            return Work()
        work = self.evaluating("", evaluation, None).work
        memory = work.memory and replace(work.memory, moments=training.moments, reference=training.reference)
        return sum([replace(work, memory=memory)] * evaluations(settings), Work())

    def estimator(
        self, trainable: str, weights: str, precision: Precision, choose: Callable[[Any], Any] | None = None
    ) -> Estimator:
        """The model that the settings name, ready to be rehearsed; made once.

        Args:
            choose: marks what is trained; ``choose_trainable`` where none is given.
        """
        key = (trainable, weights, precision)
        if key not in self._estimators:
            mark = choose or (lambda model: choose_trainable(model, trainable))
            self._estimators[key] = Estimator.of(
                lambda: mark(self.blueprint.model(weights)), self.device, precision
            )
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
        budget: int | None = None,
    ) -> tuple[Work, list[str]]:
        start = _resumes_at(folder, phase)
        estimator = self.estimator(trainable, weights, settings.precision)
        work = estimator.training(
            plan,
            settings,
            objective,
            budget=budget,
            start=start,
            counted=self.counted,
            processes=self.processes,
        )
        return work, [f"{phase} at step {start} of {plan.steps}"] if start else []

    def _sequences(
        self, records: list[Record], questions: list[Question], rendering: Rendering
    ) -> list[TokenSequence]:
        return sequences(records, questions, self.benchmark.record, self.blueprint.language_model(), rendering)


def _stage(name: str, work: Work, notes: list[str], disk: int, scratch: int = 0) -> Stage:
    return Stage(name, "resumes" if notes else "to do", ", ".join(notes), work, disk, scratch)


def complete(folder: Path | None) -> bool:
    """Whether a folder holds a run that finished."""
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


def checkpoint_bytes(model: Any, settings: LoopFields) -> int:
    """Weights and two moments of what is trained, twice: the older checkpoint goes when the newer is whole."""
    moment = 1 if settings.optimizer in QUANTIZED else 0
    tensors = [tensor for tensor in model.parameters() if tensor.requires_grad]
    return sum(2 * (tensor.nbytes + 2 * (moment or tensor.element_size()) * tensor.numel()) for tensor in tensors)


def _changed_bytes(model: Any) -> int:
    """Bytes of the tensors that a run changes: what it trains, or what a LoRA adapter is merged into."""
    adapted = [module for module in model.modules() if hasattr(module, "lora_A")]
    if adapted:
        return sum(int(module.base_layer.weight.nbytes) for module in adapted)
    return nbytes(model, trained=True)
