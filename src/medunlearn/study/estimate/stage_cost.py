"""Cost of each stage of an experiment: training, unlearning, evaluation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import torch

from medunlearn.config import (
    TINIES,
    EvaluateSettings,
    LongNotes,
    TrainSettings,
    UnlearnSettings,
)
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.fact_ranks import IN_RECORD, rank_settings, stored_ranks
from medunlearn.data.records import Question
from medunlearn.data.responses import Responses
from medunlearn.generation.fact_ranking import AT_ONCE, RankSequences
from medunlearn.methods.editing import EditMethod
from medunlearn.methods.protocol import AlternativesMethod, default_trainable
from medunlearn.models.decoder import decoder_layers
from medunlearn.models.delta import LARGEST_SHARE
from medunlearn.models.load import LanguageModel
from medunlearn.models.mlps import chosen_layers, mlps
from medunlearn.models.precision import Precision
from medunlearn.models.pretrained import pick_device
from medunlearn.models.sequences import Rendering, TokenSequence
from medunlearn.probes.evaluate import evaluation_folder
from medunlearn.probes.material import phase_plans, rendering_for
from medunlearn.probes.question_selection import questions_to_ask
from medunlearn.probes.questioning import longest_answer, store_of
from medunlearn.probes.rank_plan import RankPlan, rank_plan
from medunlearn.probes.score import metric_names
from medunlearn.results.runs import Run, is_complete
from medunlearn.study.alternative_answers import SIDE, stand_ins
from medunlearn.study.epochs.epoch_settings import epoch_settings, evaluations
from medunlearn.study.estimate.blueprint import Blueprint, blueprint, blueprint_of
from medunlearn.study.estimate.step_cost import Rehearsal
from medunlearn.study.estimate.work import Work, moments, nbytes
from medunlearn.study.part_check import choose_parts
from medunlearn.study.presets import unlearning_method
from medunlearn.study.unlearn import training_sides
from medunlearn.training.batch_plan import Plan
from medunlearn.training.checkpoint import STATE
from medunlearn.training.objectives import NextToken, Objective, Unlearning
from medunlearn.training.processes import join
from medunlearn.training.trainable import choose_trainable

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
BYTES_AN_ANSWER = 600
BACKWARD = 2
"""Work of a backward pass to all weights, in forward passes."""


@dataclass(frozen=True)
class Stage:
    """One stage of an experiment, and its remaining work.

    Attributes:
        note: where the stage resumes.
        disk, scratch: bytes of its results, and of its temporary checkpoints.
    """

    name: str
    state: Literal["done", "resumes", "to do"]
    note: str = ""
    work: Work = field(default_factory=Work)
    disk: int = 0
    scratch: int = 0


class Planner:
    """Estimates the stages that train and evaluate one model.

    Args:
        rendering: rendering of the target model and its descendants.
        growth: number of patients of the planned benchmark per patient of this one.
    """

    def __init__(
        self, benchmark: Benchmark, model: Blueprint, rendering: Rendering, device: str, growth: float = 1.0
    ) -> None:
        self.benchmark, self.blueprint, self.rendering, self.growth = benchmark, model, rendering, growth
        images: Any = model.images
        self.language_model = LanguageModel(None, model.tokenizer, "blueprint", images)
        self.on_gpu, self.processes = pick_device(device).type != "cpu", join().world
        self._rehearsals: dict[tuple[str, str, str], Rehearsal] = {}
        self._answers: dict[tuple[Any, ...], Work] = {}

    def training(self, name: str, settings: TrainSettings, folder: Path | None = None) -> Stage:
        """Stage of a `train` run."""
        if is_complete(folder):
            return Stage(name, "done")
        weights = "fp32" if settings.model in TINIES else settings.weights
        trainable = self._of_decoder(settings.trainable)
        mark = lambda model: choose_trainable(model, trainable)  # noqa: E731
        rehearsal = self.rehearsal(trainable, weights, settings.precision, mark)
        phases = {
            phase: (plan, NextToken())
            for phase, plan in phase_plans(self.benchmark, settings, self.language_model).items()
        }
        tower = self._tower_bytes(weights)
        return self._trained(name, settings, folder, rehearsal, phases, nbytes(rehearsal.model) + tower)

    def unlearning(self, settings: UnlearnSettings, folder: Path | None = None) -> Stage:
        """Stage of an `unlearn` run."""
        if is_complete(folder):
            return Stage(settings.method, "done")
        method = unlearning_method(settings)
        rendering = self._rendering(settings, settings.max_length, settings.long_notes)
        sides = training_sides(self.benchmark, settings, self.language_model, rendering)
        if isinstance(method, EditMethod):
            rehearsal = self.rehearsal("all", settings.weights, "fp32")
            model, samples = rehearsal.model, [sequence for side in sides.values() for sequence in side]
            changed = sum(matrix.rows.nbytes for mlp in mlps(model, method.layers) for matrix in mlp.matrices)
            layers = max(chosen_layers(method.layers, len(decoder_layers(model)))) + 1
            reading = rehearsal.reading(samples, settings.micro_batch_size, layers)
            work = sum([reading] * method.passes(False), Work()).times(self.growth)
            work = self._seeing(work, settings.weights)
            return Stage(settings.method, "to do", "", work, _delta_bytes(model, changed))
        trainable = default_trainable(method) if settings.trainable == "default" else settings.trainable
        trainable = self._of_decoder(trainable)
        mark = lambda model: choose_parts(model, trainable, settings)  # noqa: E731
        rehearsal = self.rehearsal(trainable, settings.weights, settings.precision, mark)
        modules, changed = rehearsal.model.modules(), nbytes(rehearsal.model, trained=True)
        # A LoRA adapter is merged into the matrices that it adapts.
        adapted = sum(module.base_layer.weight.nbytes for module in modules if hasattr(module, "lora_A"))
        disk = _delta_bytes(rehearsal.model, adapted or changed)
        partners = {}
        if isinstance(method, AlternativesMethod):
            sides["forget"], partners[SIDE] = stand_ins(sides["forget"], method)
        plan = Plan(sides, settings.batch_size, settings.epochs, settings.seed, partners=partners)
        stage = self._trained(
            settings.method, settings, folder, rehearsal, {"unlearn": (plan, Unlearning(method))}, disk
        )
        if not partners:
            return stage
        partner_sequences = [one for own in partners[SIDE].values() for one in own]
        making = rehearsal.answering(
            partner_sequences, max(one.scored for one in partner_sequences), settings.batch_size
        )
        return replace(stage, work=stage.work + making.times(self.growth))

    def evaluating(self, name: str, settings: EvaluateSettings, folder: Path | None) -> Stage:
        """Stage of an evaluation of the model in a run's folder."""
        benchmark, tokenizer = self.benchmark, self.blueprint.tokenizer
        questions = questions_to_ask(benchmark, benchmark.split(settings.split), settings)
        limit = settings.max_new_tokens or (longest_answer(tokenizer, benchmark) if questions else 1)
        total = len(questions)
        rendering = self._rendering(settings, None, None)
        if folder is not None and is_complete(folder):
            run = Run.open(folder)
            if is_complete(evaluation_folder(run, benchmark, settings)):
                return Stage(name, "done")
            stored = store_of(run, benchmark, settings, rendering, limit).read()
            questions = [q for q in questions if (q.question_id, rendering.context, 0) not in stored]
        remaining = len(questions)
        note = f"{total - remaining} of {total} answers are there" if remaining < total else ""
        work = self._seeing(self.answering(questions, settings) + self.ranking(settings, folder), settings.weights)
        return Stage(name, "resumes" if note else "to do", note, work, BYTES_AN_ANSWER * remaining)

    def answering(self, questions: Sequence[Question], settings: EvaluateSettings) -> Work:
        """Work of answering some questions, by the settings of an evaluation."""
        benchmark, model = self.benchmark, self.language_model
        rendering = self._rendering(settings, None, None)
        limit = settings.max_new_tokens or (longest_answer(model.tokenizer, benchmark) if questions else 1)
        items = [model.question_sequence(q, benchmark.record[q.record_id], rendering) for q in questions]
        # Models of one experiment are asked the same questions; one of a context level has its id.
        key = (settings.weights, limit, settings.batch_size, tuple(items))
        if key not in self._answers:
            rehearsal = self.rehearsal("all", settings.weights, "fp32")
            growth = self.growth if settings.limit is None else 1.0
            self._answers[key] = rehearsal.answering(items, limit, settings.batch_size).times(growth)
        return self._answers[key]

    def ranking(self, settings: EvaluateSettings, folder: Path | None = None) -> Work:
        """Work of the fact ranks missing from a run's store."""
        benchmark, rendering = self.benchmark, self._rendering(settings, None, None)
        plan = rank_plan(benchmark, settings.split, settings, metric_names(benchmark, settings))
        stored: Responses = {}
        if folder is not None and is_complete(folder):
            ranks = rank_settings(settings.alternatives, settings.versions)
            stored = store_of(Run.open(folder), benchmark, settings, rendering, 0, ranks=ranks).read()
        finished_ranks = {
            *stored_ranks(plan.questions, stored, rendering.context),
            *stored_ranks(plan.records, stored, IN_RECORD),
        }
        key = (plan, settings.weights, settings.batch_size, rendering.context, frozenset(finished_ranks))
        if key not in self._answers:
            rehearsal = self.rehearsal("all", settings.weights, "fp32")
            branches, notes = self._rank_sequences(plan, rendering, finished_ranks)
            work = rehearsal.reading(branches, AT_ONCE * settings.batch_size)
            growth = self.growth if settings.ranked is None else 1.0
            self._answers[key] = (work + rehearsal.reading(notes, settings.batch_size)).times(growth)
        return self._answers[key]

    def _rank_sequences(
        self, plan: RankPlan, rendering: Rendering, done: Collection[str]
    ) -> tuple[list[TokenSequence], list[TokenSequence]]:
        """Branches of facts, and whole notes with their versions, for questions and records without stored
        ranks.
        """
        records, length = self.benchmark.record, self.rendering.max_length
        sequences = RankSequences(self.blueprint.tokenizer, records, rendering, length)
        questions = {question.question_id: question for question in self.benchmark.questions}
        branches, notes = list[TokenSequence](), list[TokenSequence]()
        for key, facts in plan.questions.items():
            for fact, alternatives in facts if key not in done else ():
                if alternatives.texts:
                    branches += chain.from_iterable(sequences.of_answer(questions[key], fact, alternatives))
        for key, facts in plan.records.items():
            for fact, alternatives in facts if key not in done else ():
                if alternatives.texts:
                    of_fact = chain.from_iterable(sequences.in_record(key, fact, alternatives))
                    (notes if fact.kind == "note" else branches).extend(of_fact)
        return branches, notes

    def rehearsal(
        self, trainable: str, weights: str, precision: Precision, mark: Callable[[Any], Any] = lambda model: model
    ) -> Rehearsal:
        """Rehearsal of the model with the settings' trained parameters, built once; ``mark`` marks the trained
        ones.
        """
        key = (trainable, weights, precision)
        if key not in self._rehearsals:
            self._rehearsals[key] = Rehearsal(lambda: mark(self.blueprint.make(DTYPES[weights])), precision)
        return self._rehearsals[key]

    def _trained(
        self,
        name: str,
        settings: TrainSettings | UnlearnSettings,
        folder: Path | None,
        rehearsal: Rehearsal,
        phases: Mapping[str, tuple[Plan, Objective]],
        disk: int,
    ) -> Stage:
        """Stage of a run with several phases, each from its last checkpoint on, with its epoch evaluations."""
        work, notes, model = Work(), list[str](), rehearsal.model
        if self.growth != 1.0 and isinstance(settings, UnlearnSettings):
            # So that the same share of what repeats is cached.
            settings = settings.model_copy(update={"keep_gb": settings.keep_gb / self.growth})
        for phase, (plan, objective) in phases.items():
            checkpoints = folder.glob(f"checkpoints/{phase}/step-*/{STATE}") if folder else ()
            start = max((int(path.parent.name.split("-")[1]) for path in checkpoints), default=0)
            work += rehearsal.training(
                plan, settings, objective, start=start, processes=self.processes, on_gpu=self.on_gpu
            )
            notes += [f"{phase} at step {start} of {plan.steps}"] if start else []
        choice = getattr(settings, "trainable", "")
        again = choice == "all" or choice.startswith("through:") or choice.endswith(":names")
        again |= choice.startswith("pattern:") and "language_model" not in choice
        weights = getattr(settings, "weights", "fp32")
        work = self._seeing(work.times(self.growth), weights, trained_epochs=settings.epochs if again else 0)
        scratch = 2 * (nbytes(model, trained=True) + moments(model, settings.optimizer)) + work.kept
        evaluation, peak = epoch_settings(settings, getattr(settings, "split", None)), work.memory
        if evaluation is not None and peak is not None:
            # Beside moments and reference; all of them are counted, also of a run that was cut off.
            answers = self.evaluating("", evaluation, None).work
            memory = answers.memory and replace(answers.memory, moments=peak.moments, reference=peak.reference)
            work += sum([replace(answers, memory=memory)] * evaluations(settings), Work())
        return Stage(name, "resumes" if notes else "to do", ", ".join(notes), work, disk, scratch)

    def _of_decoder(self, trainable: str) -> str:
        """A choice of parameters restricted to the language model, whose tensors have other names than in the
        whole.
        """
        return "all" if self.blueprint.images and trainable.startswith("pattern:") else trainable

    def _tower_bytes(self, weights: str) -> int:
        images = self.blueprint.images
        return images.tower.parameters * DTYPES[weights].itemsize if images else 0

    def _seeing(self, work: Work, weights: str, trained_epochs: int = 0) -> Work:
        """Work including the vision tower: each image once, or forward and backward in each epoch that trains the
        tower.
        """
        images, memory = self.blueprint.images, work.memory
        if images is None or memory is None:
            return work
        size, passes = self._tower_bytes(weights), (1 + BACKWARD) * trained_epochs or 1
        more = {"gradients": size, "moments": 8 * images.tower.parameters} if trained_epochs else {}
        memory = replace(
            memory,
            weights=memory.weights + size,
            **{part: getattr(memory, part) + added for part, added in more.items()},
        )
        return replace(work, flops=work.flops + passes * images.work(self.benchmark.records), memory=memory)

    def _rendering(
        self, settings: UnlearnSettings | EvaluateSettings, max_length: int | None, long_notes: LongNotes | None
    ) -> Rendering:
        target = self.rendering
        template, context = settings.template or target.template, settings.context or target.context
        return Rendering(template, context, max_length, long_notes or target.long_notes, target.images)


def train_stage(benchmark: Benchmark, settings: TrainSettings, device: str) -> Stage | None:
    """Stage of a new `train` run; None if its model is not on this machine."""
    model = blueprint(benchmark, settings)
    if model.doubt:
        return None
    planner = Planner(benchmark, model, rendering_for(settings), device)
    return planner.training("train", settings)


def unlearn_stage(target: Run, benchmark: Benchmark, settings: UnlearnSettings, device: str) -> Stage:
    """Stage of a new `unlearn` run."""
    return Planner(benchmark, blueprint_of(str(target.model)), target.rendering(), device).unlearning(settings)


def _delta_bytes(model: Any, changed: int) -> int:
    """Bytes of a saved model with this many changed parameters."""
    return changed if changed < LARGEST_SHARE * nbytes(model) else nbytes(model)
