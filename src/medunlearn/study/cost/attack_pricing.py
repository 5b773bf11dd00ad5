"""Price of the attacks on one model: forward passes, decoded tokens and training steps of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from medunlearn.attacks.attack_run import AttackBattery
from medunlearn.attacks.recovery.attacked_model import AttackedModel
from medunlearn.attacks.recovery.measuring import StateMeasurer
from medunlearn.attacks.recovery.recovery_attacks import RecoveryAttack
from medunlearn.config import AttackSettings, EvaluateSettings, What
from medunlearn.data.records import Question, Record
from medunlearn.errors import InputError, first_line
from medunlearn.models.shape import shape_of
from medunlearn.study.cost.formulas import Cost, training
from medunlearn.study.cost.model_pricing import ModelPricing
from medunlearn.study.plans.forecast import PlannedStage


def attack_stages(pricing: ModelPricing, settings: AttackSettings) -> Iterator[PlannedStage]:
    """A stage for each family of the attacks, on the model or one derived from it."""
    sizes = PricedSizes(pricing, settings)
    for name, job in AttackBattery(pricing.benchmark, settings).jobs.items():
        try:
            yield PlannedStage(name, cost=sum(job.cost(sizes), Cost()))
        except Exception as error:
            # A plug-in may read values of weights, which a plan has not.
            reason = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
            yield PlannedStage(name, note=f"{name} is not counted: {reason}{first_line(error)}")


class PlannedModel(StateMeasurer):
    """A model of which only the questions are known; its weights are an empty mapping."""

    @contextmanager
    def changed(self) -> Iterator[Mapping[str, Any]]:
        yield {}


@dataclass(frozen=True)
class PricedSizes:
    """Prices of the parts of an attack (:class:`~medunlearn.attacks.attack_sizes.AttackSizes`)."""

    pricing: ModelPricing
    settings: AttackSettings

    @property
    def trained_on(self) -> What:
        return self.pricing.trained.train_on

    def reading(
        self, records: Sequence[Record], *, model: str | None = None, backward: bool = False, bytes_a_token: int = 0
    ) -> Cost:
        pricing, size = self.pricing, self.settings.batch_size
        if model is not None:
            pricing = replace(pricing, shape=shape_of(model))
        lengths = pricing.sizes.of_records(records, pricing.trained.max_length)
        cost = pricing.reading(lengths, size, self.settings.weights).times(pricing.growth)
        if backward:
            memory = replace(cost.memory, gradients=cost.memory.weights)
            cost = replace(cost, flops=3 * cost.flops, memory=memory)
        return replace(cost, disk=bytes_a_token * cost.tokens)

    def answering(self, questions: Sequence[Question], settings: EvaluateSettings) -> Cost:
        return self.pricing.answering(questions, settings)

    @property
    def layers(self) -> int:
        return self.pricing.shape.layers

    def scoring(self, questions: Sequence[Question], passes: float, *, models: int = 1) -> Cost:
        pricing, size = self.pricing, self.settings.batch_size
        lengths = pricing.sizes.of_items([], list(questions), pricing.rendering)
        cost = pricing.reading(lengths, size, self.settings.weights).times(passes * pricing.growth)
        others = (models - 1) * cost.memory.weights
        return replace(cost, memory=replace(cost.memory, reference=others))

    def model(self, attack: RecoveryAttack) -> AttackedModel:
        missing: Any = None
        return PlannedModel(missing, self.pricing.benchmark, attack, self.settings, missing, True)

    def measuring(
        self, model: AttackedModel, questions: Sequence[Question], times: int, *, answers: bool = True
    ) -> Cost:
        share = len(questions) / len(model.questions)
        once = self.pricing.answering(questions, model.evaluation) if answers else Cost()
        once += self.pricing.ranking(model.evaluation).times(share)
        return _beside_a_copy(once.times(times))

    def sampling(self, model: AttackedModel, questions: Sequence[Question], samples: int) -> Cost:
        return self.pricing.answering(questions, model.evaluation).times(samples)

    def training(
        self,
        records: list[Record],
        questions: list[Question],
        *,
        trainable: str,
        batch_size: int,
        steps: int,
        seed: int,
    ) -> Cost:
        sizes, rendering = self.pricing.sizes, self.pricing.rendering
        lengths, weights = sizes.of_items(records, questions, rendering), self.settings.weights
        load, batch = lengths.load(batch_size), lengths.largest(batch_size, min(batch_size, 8))
        drawn = load.times(steps * batch_size / max(1.0, load.sequences))
        how: dict[str, Any] = {"steps": steps, "trainable": trainable, "precision": "bf16", "weights": weights}
        return _beside_a_copy(training(self.pricing.shape, drawn, batch, **how))


def _beside_a_copy(cost: Cost) -> Cost:
    """The price with an additional copy of the model's own weights in memory, to restore them at the end."""
    return replace(cost, memory=replace(cost.memory, reference=cost.memory.weights))
