"""The optimizer's step at the settings' learning rate, or at one that the method finds along that step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from medunlearn.models.sequences import TokenSequence
from medunlearn.training.gradients import Training, probed
from medunlearn.training.objectives import rating
from medunlearn.training.settings import learning_rate


def step_by(
    training: Training,
    sequences: Mapping[str, Sequence[TokenSequence]],
    number: int,
    terms: Mapping[str, float],
    last_rate: float | None,
) -> float:
    """Step the optimizer with the gradients that are in the parameters.

    Args:
        terms: of the loss, with the weights as they are.
        last_rate: of the step before; None at the first.

    Returns:
        The rate of the step.
    """
    settings, optimizer = training.settings, training.optimizer
    method = rating(training.objective)
    if method is None:
        rate = learning_rate(number, training.plan.steps, settings)
    else:
        rate = settings.lr if last_rate is None else last_rate
    for group in optimizer.param_groups:
        group["lr"] = rate
    if method is None or not method.looks(number):
        optimizer.step()
        return rate
    before = {name: part.detach().clone() for name, part in training.parts.items()}
    # An optimizer's step is proportional to its rate: the step tried is the one to be made but for a factor.
    optimizer.step()
    ahead = probed(training, sequences, number)
    with torch.no_grad():
        for name, part in training.parts.items():
            part.neg_().add_(before[name], alpha=2)
    behind = probed(training, sequences, number)
    found = method.rate(rate, behind, {name: terms[name] for name in ahead}, ahead)
    with torch.no_grad():
        for name, part in training.parts.items():
            part.neg_().add_(before[name]).mul_(found / rate).add_(before[name])
    return found
