"""Price of training, unlearning and evaluating a model, from settings and the sizes of a benchmark. No torch.

Counted as in the engine: what a loss asks for, outputs of the reference and of frozen layers once where they are
cached, text that questions share once in a batch, decoding of at most ``max_new_tokens``, ranks of facts. Not
counted: options of questions, scores, models of measures, judges, general tasks, loading and saving.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from medunlearn.config import TINIES, EvaluateSettings, LoopFields, TrainSettings, UnlearnSettings, What
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.fact_ranks import AT_ONCE
from medunlearn.data.records import Question
from medunlearn.methods.editing import EditMethod
from medunlearn.methods.protocol import AlternativesMethod, SteppingMethod, WeighingMethod, default_trainable
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
from medunlearn.study.cost.sizes import Lengths, TokenSizes
from medunlearn.study.epochs.epoch_settings import epoch_settings, evaluations
from medunlearn.study.presets import unlearning_method

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
        rendering, costs = rendering_for(settings), dict[str, Cost]()
        phases: tuple[tuple[str, What, int, int | None], ...] = (
            (
                "pretrain",
                "records",
                settings.pretrain_epochs,
                settings.max_length if settings.pack_records else None,
            ),
            ("finetune", settings.train_on, settings.epochs, None),
        )
        for phase, what, epochs, row in phases:
            if not epochs:
                continue
            lengths = self._items(rendering, what, settings.without)
            steps, passes = _steps(lengths, settings, row) * epochs, float(epochs)
            if settings.without is not None and settings.retrained_length == "steps":
                whole = _steps(self._items(rendering, what, None), settings, row) * epochs
                steps, passes = whole, passes * whole / max(1, steps)
            load = lengths.load(*_cut(settings))
            batch = _micro_batch(lengths, settings) if row is None else _rows(row, settings.micro_batch_size)
            costs[phase] = self._trained(settings, settings.trainable, load.times(passes), batch, steps)
        return costs

    def unlearning(self, settings: UnlearnSettings) -> Cost:
        """Price of a new `unlearn` run."""
        method, rendering = unlearning_method(settings), self._rendering(settings)
        forget = self._items(rendering, settings.train_on, settings.split, forget=True)
        sides = {"forget": forget, "retain": self._items(rendering, settings.train_on, settings.split)}
        if isinstance(method, EditMethod):
            layers = chosen_layers(method.layers, self.shape.layers)
            samples = Lengths.join(*sides.values())
            cost = self.reading(samples, settings.micro_batch_size, settings.weights, max(layers) + 1)
            cost = replace(cost, disk=len(layers) * self.shape.mlp_matrices * BYTES[settings.weights])
            passes = method.passes(False) * self.growth
            return self._with_images(replace(cost.times(passes), disk=cost.disk))
        outputs, draws = MethodOutputs.of(method), settings.epochs * len(forget)
        if isinstance(method, AlternativesMethod):
            sides["alternatives"] = forget
        sides["retain"] = sides["retain"].drawn(draws, "retain", settings.seed)
        loads: dict[str, Load] = {view: sides[view].load(*_cut(settings)) for view in outputs.views}
        if not outputs.reads:
            loads = {view: replace(load, read=0.0) for view, load in loads.items()}
        load = sum((own.times(draws / max(1.0, own.sequences)) for own in loads.values()), Load())
        batch = sum((_micro_batch(sides[view], settings, read=outputs.reads) for view in loads), Load())
        trainable = default_trainable(method) if settings.trainable == "default" else settings.trainable
        reference = self._reference(settings, outputs, loads, draws, trainable)
        steps = settings.epochs * -(-len(forget) // settings.batch_size)
        terms = len(outputs.views) if isinstance(method, WeighingMethod) else 1
        depth = None if outputs.reads else getattr(method, "layer", self.shape.layers - 1) + 1
        cost = self._trained(settings, trainable, load, batch, steps, terms=terms, depth=depth, **reference)
        tokens = sum(
            draws / max(1, len(own)) * own.load(*_cut(settings)).tokens for own in sides.values() if len(own)
        )
        cost = replace(cost, tokens=tokens * self.growth)
        if isinstance(method, SteppingMethod):
            looks = sum(map(method.looks, range(steps))) / max(1, steps)
            cost = replace(cost, flops=cost.flops + 2 * looks * forward(self.shape, load, batch).flops)
        if isinstance(method, AlternativesMethod):
            longest = float(forget.scored.max(initial=1.0))
            answers = self._decoding(forget, longest, settings.batch_size, settings.weights)
            cost += answers.times(method.alternatives * self.growth)
        return self._with_evaluations(cost, settings, settings.split)

    def evaluating(self, settings: EvaluateSettings) -> Cost:
        """Price of an evaluation of a model."""
        key = settings.model_dump_json(exclude={"replicates", "allow_broken", "other_texts"})
        if key not in self._known:
            questions = questions_to_ask(self.benchmark, self.benchmark.split(settings.split), settings)
            self._known[key] = self.answering(questions, settings) + self.ranking(settings)
        cost: Cost = self._known[key]
        return cost

    def answering(self, questions: Sequence[Question], settings: EvaluateSettings) -> Cost:
        """Price of answers to some questions, and of the likelihoods of the reference answers."""
        lengths, size = self.sizes.of_questions(questions, self._rendering(settings)), settings.batch_size
        limit = settings.max_new_tokens or self.sizes.longest_answer
        cost = self._decoding(lengths, limit, size, settings.weights)
        cost += self.reading(lengths, size, settings.weights)
        cost = replace(cost, disk=BYTES_AN_ANSWER * len(questions)).times(
            self.growth if settings.limit is None else 1
        )
        return self._with_images(cost)

    def ranks(self, settings: EvaluateSettings) -> RankLengths:
        """Lengths of what an evaluation ranks."""
        names = metric_names(self.benchmark, settings)
        return rank_lengths(self.sizes, settings, names, self._rendering(settings))

    def ranking(self, settings: EvaluateSettings) -> Cost:
        """Price of an evaluation's ranks of facts."""
        ranks, size, weights = self.ranks(settings), settings.batch_size, settings.weights
        cost = self.reading(ranks.branches, AT_ONCE * size, weights)
        cost += self.reading(ranks.notes, size, weights)
        return cost.times(ranks.times * (self.growth if settings.ranked is None else 1))

    def _items(self, rendering: Rendering, what: What, split: str | None, *, forget: bool = False) -> Lengths:
        """Lengths of the train fold without a split's forget set, or of that alone."""
        key = (rendering, what)
        if key not in self._known:
            records, questions = training_data(self.benchmark, None, what)
            parts = (
                self.sizes.of_records(records, rendering.max_length),
                self.sizes.of_questions(questions, rendering),
            )
            self._known[key] = Lengths.join(*parts)
        lengths: Lengths = self._known[key]
        return lengths if split is None else lengths.only(self._forgotten(split)[lengths.record] == forget)

    def _forgotten(self, split: str) -> Any:
        """Truth values, one per record of the benchmark: True for those of a split's forget set."""
        if split not in self._known:
            sides = self.benchmark.sides(self.benchmark.split(split))
            self._known[split] = np.array(
                [sides[record.record_id] == "forget" for record in self.benchmark.records]
            )
        return self._known[split]

    def _trained(
        self,
        settings: TrainSettings | UnlearnSettings,
        trainable: str,
        load: Load,
        batch: Load,
        steps: int,
        *,
        depth: int | None = None,
        **more: Any,
    ) -> Cost:
        tiny = isinstance(settings, TrainSettings) and settings.model in TINIES
        how: dict[str, Any] = {
            "steps": steps,
            "passes": -(-settings.batch_size // (settings.micro_batch_size * self.processes)),
            "trainable": trainable,
            "optimizer": settings.optimizer,
            "weights": "fp32" if tiny else settings.weights,
            "precision": self.fast if settings.precision == "auto" else settings.precision,
            "checkpointing": settings.gradient_checkpointing,
            "offload": settings.offload == "optimizer",
            "sharded": settings.sharding != "none",
            "processes": self.processes,
            **more,
        }
        cost = training(self.shape, load, batch, **how)
        if depth is not None and depth < self.shape.layers:
            # Layers above the one whose output a loss reads are not run.
            cost = replace(cost, flops=training(replace(self.shape, layers=depth), load, batch, **how).flops)
        epochs = settings.epochs if _trains_tower(trainable) else 0
        return self._with_images(replace(cost.times(self.growth), disk=cost.disk), epochs)

    def _reference(
        self,
        settings: UnlearnSettings,
        outputs: MethodOutputs,
        loads: Mapping[str, Load],
        draws: int,
        trainable: str,
    ) -> dict[str, Any]:
        """Arguments of the formula for outputs of the model before unlearning and of frozen layers.

        They are cached before the first step if the budget holds them and a pass is spared: if sequences are drawn
        again, or the reference would be a copy of the whole model.
        """
        part = trained_part(self.shape, trainable)
        views = outputs.reference or (outputs.views if part.first else ())
        if not views:
            return {}
        once = {view: loads[view].times(min(1.0, draws / max(1.0, loads[view].sequences))) for view in views}
        wide = 4 * self.shape.hidden if outputs.wide or not outputs.reference else 4
        size = sum(wide * (load.read or load.tokens) for load in once.values()) * self.growth
        repeated = all(draws > loads[view].sequences for view in views)
        if size <= settings.keep_gb * 1e9 and (repeated or not (part.first or part.rank)):
            return {"reference": "cached", "reference_load": sum(once.values(), Load())}
        if not outputs.reference:
            return {}
        passed = sum((loads[view].times(draws / max(1.0, loads[view].sequences)) for view in views), Load())
        return {"reference": "pass", "reference_load": passed}

    def reading(self, lengths: Lengths, size: int, weights: Precision, layers: int | None = None) -> Cost:
        """Price of a pass without gradients to likelihoods, or to the output of the first layers."""
        load, batch = lengths.load(size), lengths.longest(size)
        if layers is None:
            return forward(self.shape, load, batch, weights=weights)
        load, batch = replace(load, read=0.0), replace(batch, read=0.0)
        cost = forward(self.shape, load, batch, weights=weights)
        return replace(cost, flops=forward(replace(self.shape, layers=layers), load, batch).flops)

    def _decoding(self, lengths: Lengths, limit: float, size: int, weights: Precision) -> Cost:
        prompts = replace(lengths, whole=lengths.whole - lengths.scored, scored=np.ones(len(lengths)))
        return decoding(self.shape, prompts.load(size), prompts.longest(size), limit, weights=weights)

    def _with_evaluations(self, cost: Cost, settings: TrainSettings | UnlearnSettings, split: str | None) -> Cost:
        """The price with the evaluations of epochs, which run beside the optimizer's moments and the reference."""
        evaluation = epoch_settings(settings, split)
        if evaluation is None:
            return cost
        once = self.evaluating(evaluation)
        memory = replace(once.memory, moments=cost.memory.moments, reference=cost.memory.reference)
        disk = cost.disk + once.disk * evaluations(settings)
        return replace(cost + replace(once, memory=memory, disk=0).times(evaluations(settings)), disk=disk)

    def _with_images(self, cost: Cost, trained_epochs: int = 0) -> Cost:
        """The price with the image tower: each image once, or forward and backward in each epoch that trains it."""
        tower = self.shape.tower
        if tower is None or not self.sizes.images:
            return cost
        flops = sum(image_flops(tower, tokens) for tokens in self.sizes.images.values())
        return replace(cost, flops=cost.flops + flops * (3 * trained_epochs or 1))

    def _rendering(self, settings: UnlearnSettings | EvaluateSettings) -> Rendering:
        own: dict[str, Any] = {"template": settings.template, "context": settings.context}
        if isinstance(settings, UnlearnSettings):
            own |= {"max_length": settings.max_length, "long_notes": settings.long_notes}
        else:
            own |= {"max_length": None}
        overrides = {name: value for name, value in own.items() if value is not None or name == "max_length"}
        return replace(self.rendering, **overrides)


def _cut(settings: LoopFields) -> tuple[int, int]:
    """Sequences of a step, and of the batches that it is cut in."""
    return settings.batch_size, min(settings.micro_batch_size, settings.batch_size)


def _rows(row: int, count: int) -> Load:
    """Packed rows of one length."""
    return Load(count, row * count, row**2 * count, row * count, row)


def _steps(lengths: Lengths, settings: LoopFields, row: int | None) -> int:
    """Optimizer steps of an epoch; packed rows are full."""
    count = len(lengths) if row is None else -(-lengths.whole.sum() // row)
    return int(-(-count // settings.batch_size))


def _micro_batch(lengths: Lengths, settings: LoopFields, *, read: bool = True) -> Load:
    """The largest micro-batch of a side."""
    step, size = _cut(settings)
    if settings.micro_batch_tokens is not None:
        size = min(size, max(1, int(settings.micro_batch_tokens // lengths.whole.max(initial=1.0))))
    load = lengths.largest(step, size)
    return load if read else replace(load, read=0.0)


def _trains_tower(trainable: str) -> bool:
    of_pattern = trainable.startswith("pattern:") and "language_model" not in trainable
    return trainable == "all" or trainable.startswith("through:") or trainable.endswith(":names") or of_pattern
