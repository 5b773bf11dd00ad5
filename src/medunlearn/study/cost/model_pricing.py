"""Price of training, unlearning and evaluating a model, from settings and the sizes of a benchmark. No torch.

Counted as in the engine: what a loss asks for, outputs of the reference and of frozen layers once where they are
cached, text that questions share once in a batch, decoding of at most ``max_new_tokens``, ranks of facts. Not
counted: options of questions, scores, models of measures, judges, general tasks, loading and saving.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import numpy as np

from medunlearn.config import TINIES, EvaluateSettings, LoopFields, TrainSettings, Unlearned, UnlearnSettings, What
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.fact_ranks import AT_ONCE
from medunlearn.data.records import Question
from medunlearn.methods.editing import EditMethod
from medunlearn.methods.protocol import (
    STRANGERS,
    AlternativesMethod,
    SteppingMethod,
    answers_of,
    default_trainable,
)
from medunlearn.models.layer_choice import chosen_layers
from medunlearn.models.sequences import Rendering
from medunlearn.models.shape import Shape
from medunlearn.probes.material import rendering_for, training_data
from medunlearn.probes.question_selection import questions_to_ask
from medunlearn.probes.score import metric_names
from medunlearn.study.cost.formulas import Cost, Load, decoding, forward, image_flops, training
from medunlearn.study.cost.memory import BYTES, Precision, trained_part
from medunlearn.study.cost.method_outputs import MethodOutputs
from medunlearn.study.cost.rank_sizes import RankLengths, rank_lengths
from medunlearn.study.cost.sizes import Array, Lengths, TokenSizes
from medunlearn.study.epochs.epoch_settings import epoch_settings, evaluations
from medunlearn.study.presets import unlearning_method

T = TypeVar("T")
BYTES_AN_ANSWER = 600


@dataclass
class ModelPricing:
    """Prices of one model's stages.

    Attributes:
        trained: settings of the target's training; of an adopted model only ``model`` matters.
        rendering: of the target model and its descendants.
        fast: precision ``auto`` on the device.
        growth: number of patients of the planned benchmark per patient of this one.
    """

    sizes: TokenSizes
    shape: Shape
    trained: TrainSettings
    rendering: Rendering
    fast: Precision = "fp32"
    processes: int = 1
    growth: float = 1.0
    _known: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def benchmark(self) -> Benchmark:
        return self.sizes.benchmark

    def training(self, settings: TrainSettings) -> Cost:
        """Price of a new `train` run."""
        phases = self.phases(settings).values()
        # Both phases write one model.
        cost = replace(sum(phases, Cost()), disk=max((phase.disk for phase in phases), default=0))
        return self._with_evaluations(cost, settings, None)

    def phases(self, settings: TrainSettings) -> dict[str, Cost]:
        """Price of each phase of a training, without the evaluations of its epochs."""
        row = settings.max_length if settings.pack_records else None
        phases: dict[str, tuple[What, int, int | None]] = {
            "pretrain": ("records", settings.pretrain_epochs, row),
            "finetune": (settings.train_on, settings.epochs, None),
        }
        return {name: self._phase(settings, *phase) for name, phase in phases.items() if phase[1]}

    def _phase(self, settings: TrainSettings, what: What, epochs: int, row: int | None) -> Cost:
        """Price of some epochs, in rows of a length if they are packed; full rows are counted."""
        rendering, all_steps = rendering_for(settings), settings.retrained_length == "steps"
        lengths, paced = (
            self._items(rendering, what, without)
            for without in (settings.without, None if all_steps else settings.without)
        )
        counts = (own.whole.sum() / row if row else len(own) for own in (paced, lengths))
        steps, steps_an_epoch = (math.ceil(math.ceil(count) / settings.batch_size) for count in counts)
        load = lengths.load(*_cut(settings)).times(epochs * steps / max(1, steps_an_epoch))
        batch = Load.of([row] * settings.micro_batch_size) if row else _micro_batch(lengths, settings)
        return self._trained(settings, settings.trainable, load, batch, epochs * steps)

    def unlearning(self, settings: UnlearnSettings) -> Cost:
        """Price of a new `unlearn` run."""
        method, rendering = unlearning_method(settings), self._rendering(settings)
        forget, retain = (
            self._items(rendering, settings.train_on, settings.split, forget=forget) for forget in (True, False)
        )
        if isinstance(method, EditMethod):
            return self._editing(method, Lengths.join(forget, retain), settings)
        outputs, draws = MethodOutputs.of(method), settings.epochs * len(forget)
        retained = draws * settings.retain_ratio
        sides = {"forget": forget, "retain": retain.drawn(retained, "retain", settings.seed)}
        if isinstance(method, AlternativesMethod):
            sides["alternatives"] = forget
        once = {view: lengths.load(*_cut(settings)) for view, lengths in sides.items()}
        counts = dict.fromkeys(once, draws) | {"retain": retained}
        drawn = {view: load.times(counts[view] / max(1.0, load.sequences)) for view, load in once.items()}
        load = sum((drawn[view] for view in outputs.views), Load())
        batch = sum((_micro_batch(sides[view], settings) for view in outputs.views), Load())
        steps = settings.epochs * -(-len(forget) // settings.batch_size)
        trainable = default_trainable(method) if settings.trainable == "default" else settings.trainable
        reference, reference_load = self._reference(settings, outputs, once, drawn, trainable)
        load = load.times(outputs.passes)
        if isinstance(method, SteppingMethod):
            reference_load += load.times(2 * sum(map(method.looks, range(steps))) / max(1, steps))
        cost = self._trained(
            settings,
            trainable,
            load,
            batch,
            steps,
            terms=outputs.gradient_sets,
            depth=None if outputs.reads else getattr(method, "layer", self.shape.layers - 1) + 1,
            reference=reference,
            reference_load=reference_load,
        )
        cost = replace(cost, tokens=self.growth * sum(own.tokens for own in drawn.values()))
        if isinstance(method, AlternativesMethod) and answers_of(method) == STRANGERS:
            longest = float(forget.scored.max(initial=1.0))
            answers = self._decoding(forget, longest, settings.batch_size, settings.weights)
            cost += answers.times(method.alternatives * self.growth)
        return self._with_evaluations(cost, settings, settings.split)

    def _editing(self, method: EditMethod, samples: Lengths, settings: UnlearnSettings) -> Cost:
        """Price of passes to the last edited layer."""
        layers = chosen_layers(method.layers, self.shape.layers)
        cost = self.reading(samples, settings.micro_batch_size, settings.weights, max(layers) + 1)
        disk = len(layers) * self.shape.mlp_matrices * BYTES[settings.weights]
        return self._with_images(replace(cost.times(method.passes(False) * self.growth), disk=disk))

    def _reference(
        self,
        settings: UnlearnSettings,
        outputs: MethodOutputs,
        once: Mapping[str, Load],
        drawn: Mapping[str, Load],
        trainable: str,
    ) -> tuple[Literal["none", "cached", "pass"], Load]:
        """Outputs of the model before unlearning and of frozen layers, and passes for them.

        They are cached before the first step if the budget holds them and a pass is spared: if sequences are drawn
        again, or the reference would be a copy of the whole model.
        """
        part = trained_part(self.shape, trainable)
        views = outputs.reference or (outputs.views if part.first else ())
        distinct = [min(once[view], drawn[view], key=lambda load: load.sequences) for view in views]
        cached = sum(distinct, Load())
        wide = self.shape.hidden if outputs.wide or not outputs.reference else 1
        size = 4 * wide * (cached.read if outputs.reads else cached.tokens) * self.growth
        again = all(drawn[view].sequences > once[view].sequences for view in views)
        if views and size <= settings.keep_gb * 1e9 and (again or not (part.first or part.rank)):
            return "cached", cached
        passed = sum((drawn[view] for view in outputs.reference), Load())
        return ("pass", passed) if outputs.reference else ("none", passed)

    def evaluating(self, settings: EvaluateSettings) -> Cost:
        """Price of an evaluation of a model."""

        def price() -> Cost:
            questions = questions_to_ask(self.benchmark, self.benchmark.split(settings.split), settings)
            return self.answering(questions, settings) + self.ranking(settings)

        return self._once(settings.model_dump_json(exclude={"replicates", "allow_broken", "other_texts"}), price)

    def answering(self, questions: Sequence[Question], settings: EvaluateSettings) -> Cost:
        """Price of answers to some questions, and of the likelihoods of the reference answers."""
        lengths, size = self.sizes.of_questions(questions, self._rendering(settings)), settings.batch_size
        limit = settings.max_new_tokens or self.sizes.longest_answer
        cost = self._decoding(lengths, limit, size, settings.weights)
        cost += replace(self.reading(lengths, size, settings.weights), disk=BYTES_AN_ANSWER * len(questions))
        return self._with_images(cost.times(self.growth if settings.limit is None else 1))

    def ranks(self, settings: EvaluateSettings) -> RankLengths:
        """Lengths of what an evaluation ranks."""
        names = metric_names(self.benchmark, settings)
        return rank_lengths(self.sizes, settings, names, self._rendering(settings), self.rendering.max_length)

    def ranking(self, settings: EvaluateSettings) -> Cost:
        """Price of an evaluation's ranks of facts."""
        ranks, size, weights = self.ranks(settings), settings.batch_size, settings.weights
        cost = self.reading(ranks.branches, AT_ONCE * size, weights) + self.reading(ranks.notes, size, weights)
        return cost.times(ranks.times * (self.growth if settings.ranked is None else 1))

    def reading(self, lengths: Lengths, size: int, weights: Precision, depth: int | None = None) -> Cost:
        """Price of a pass without gradients to likelihoods, or to the output of the first layers."""
        load, batch = lengths.load(size), lengths.longest(size)
        if depth is not None:
            load, batch = replace(load, read=0.0), replace(batch, read=0.0)
        return forward(self.shape, load, batch, weights=weights, depth=depth)

    def _decoding(self, lengths: Lengths, limit: float, size: int, weights: Precision) -> Cost:
        prompts = replace(lengths, whole=lengths.whole - lengths.scored)
        return decoding(self.shape, prompts.load(size), prompts.longest(size), limit, weights=weights)

    def _items(self, rendering: Rendering, what: Unlearned, split: str | None, *, forget: bool = False) -> Lengths:
        """Lengths of the train fold without a split's forget set, or of that alone."""

        def lengths() -> Lengths:
            records, questions = training_data(self.benchmark, None, what)
            return self.sizes.of_items(records, questions, rendering)

        def forgotten() -> Array:
            sides = self.benchmark.sides(self.benchmark.split(str(split)))
            return np.array([sides[record.record_id] == "forget" for record in self.benchmark.records])

        whole = self._once((rendering, what), lengths)
        return whole if split is None else whole.only(self._once(split, forgotten)[whole.record] == forget)

    def _once(self, key: Hashable, compute: Callable[[], T]) -> T:
        if key not in self._known:
            self._known[key] = compute()
        value: T = self._known[key]
        return value

    def _trained(
        self,
        settings: TrainSettings | UnlearnSettings,
        trainable: str,
        load: Load,
        batch: Load,
        steps: int,
        **more: Any,
    ) -> Cost:
        tiny = isinstance(settings, TrainSettings) and settings.model in TINIES
        cost = training(
            self.shape,
            load,
            batch,
            steps=steps,
            passes=-(-settings.batch_size // (settings.micro_batch_size * self.processes)),
            trainable=trainable,
            optimizer=settings.optimizer,
            weights="fp32" if tiny else settings.weights,
            precision=self.fast if settings.precision == "auto" else settings.precision,
            checkpointing=settings.gradient_checkpointing,
            offload=settings.offload == "optimizer",
            sharded=settings.sharding != "none",
            processes=self.processes,
            **more,
        )
        epochs = settings.epochs if _trains_tower(trainable) else 0
        return self._with_images(replace(cost.times(self.growth), disk=cost.disk), epochs)

    def _with_evaluations(self, cost: Cost, settings: TrainSettings | UnlearnSettings, split: str | None) -> Cost:
        """The price with the evaluations of epochs, which run beside the optimizer's moments and the reference."""
        evaluation, times = epoch_settings(settings, split), evaluations(settings)
        if evaluation is None:
            return cost
        once = self.evaluating(evaluation)
        memory = replace(once.memory, moments=cost.memory.moments, reference=cost.memory.reference)
        return cost + replace(once, memory=memory).times(times)

    def _with_images(self, cost: Cost, trained_epochs: int = 0) -> Cost:
        """The price with the image tower: each image once, or forward and backward in each epoch that trains it."""
        tower, images = self.shape.tower, self.sizes.images.values()
        flops = sum(image_flops(tower, tokens) for tokens in images) if tower is not None else 0.0
        return replace(cost, flops=cost.flops + flops * (3 * trained_epochs or 1))

    def _rendering(self, settings: UnlearnSettings | EvaluateSettings) -> Rendering:
        """The model's own, but for the settings; an evaluation's has no bound."""
        own = {name: getattr(settings, name, None) for name in ("template", "context", "long_notes")}
        overrides: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
        return replace(self.rendering, **overrides, max_length=getattr(settings, "max_length", None))


def _cut(settings: LoopFields) -> tuple[int, int]:
    """Sequences of a step, and of the batches that it is cut in."""
    return settings.batch_size, min(settings.micro_batch_size, settings.batch_size)


def _micro_batch(lengths: Lengths, settings: LoopFields) -> Load:
    """The largest micro-batch of a side."""
    step, size = _cut(settings)
    if settings.micro_batch_tokens is not None:
        size = min(size, max(1, int(settings.micro_batch_tokens // lengths.whole.max(initial=1.0))))
    return lengths.largest(step, size)


def _trains_tower(trainable: str) -> bool:
    of_pattern = trainable.startswith("pattern:") and "language_model" not in trainable
    return trainable == "all" or trainable.startswith("through:") or trainable.endswith(":names") or of_pattern
