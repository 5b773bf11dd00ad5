"""The optimizer's step from a gradient: at the schedule's learning rate, or as the method takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from medunlearn.models.sequences import TokenSequence
from medunlearn.training.gradients import Training, probe
from medunlearn.training.loop_settings import learning_rate
from medunlearn.training.objectives import stepping


@dataclass
class TrainingStep:
    """An :class:`~medunlearn.methods.protocol.OptimizerStep` of a training run."""

    training: Training
    sequences: Mapping[str, Sequence[TokenSequence]]
    number: int
    terms: Mapping[str, float]
    parts: Mapping[str, Tensor]
    scheduled_rate: float
    last_rate: float

    def take(self, rate: float) -> float:
        for group in self.training.optimizer.param_groups:
            group["lr"] = rate
        self.training.optimizer.step()
        return rate

    def probe(self) -> dict[str, float]:
        return probe(self.training, self.sequences, self.number)


def take_step(
    training: Training,
    sequences: Mapping[str, Sequence[TokenSequence]],
    number: int,
    terms: Mapping[str, float],
    last_rate: float | None,
) -> float:
    """Take the optimizer's step, and return its learning rate.

    Args:
        last_rate: of the previous step; None before the first.
    """
    settings = training.settings
    scheduled_rate = learning_rate(number, training.plan.steps, settings) * training.plan.rate_share(number)
    last_rate = settings.lr if last_rate is None else last_rate
    step = TrainingStep(training, sequences, number, terms, training.parts, scheduled_rate, last_rate)
    method = None if training.plan.rests(number) else stepping(training.objective)
    return method.step(step) if method else step.take(scheduled_rate)
