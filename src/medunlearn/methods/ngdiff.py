"""Normalized gradient difference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from medunlearn.methods.protocol import OptimizerStep, Terms, View


@dataclass(frozen=True)
class NGDiff:
    """Ascent on the forget set and descent on the retain set, with normalised gradients.

    The descent direction is ``g_R / |g_R| - g_F / |g_F|``: whichever loss has the larger gradient, neither side
    overrules the other, and the direction never raises the retain loss or lowers the forget loss to first order.

    The learning rate is adapted: every few steps the retain loss is measured one step ahead of the weights and one
    step behind, a parabola is fitted to these two values and the current one, and the rate becomes that of the
    parabola's minimum. Without a minimum ahead, the rate stays. The step is the optimizer's (AdamW's unless
    ``optimizer=sgd``, with which it is the direction itself).

    Source: Bu, Jin et al. 2024, arXiv 2410.22086 (the direction; AutoLR, every 10 steps), after Bu and Xu 2024,
    arXiv 2407.02772 (GeN: the parabola along an optimizer's step). The bound ``trust`` on the change per fit is
    ours: a parabola is unreliable far from the fitted points.

    Attributes:
        automatic: adapt the rate, starting from ``lr``. Otherwise rates follow the settings.
        every: steps between two fits; the first is at the first step.
        trust: largest factor by which one fit changes the rate, up or down.
    """

    title: ClassVar[str] = "NGDiff"
    family: ClassVar[str] = "normalized gradient ascent"
    retain_term: ClassVar[str] = "loss"

    automatic: bool = True
    every: Annotated[int, Field(ge=1)] = 10
    trust: Annotated[float, Field(ge=1)] = 10.0

    def loss(self, forget: View, retain: View) -> Terms:
        return {"forget": -forget.nll(), "retain": retain.nll()}

    def weigh(self, products: Mapping[tuple[str, str], float]) -> Mapping[str, float]:
        """One over each gradient's norm; a zero gradient has no direction and keeps weight 0."""
        lengths = {name: math.sqrt(products[name, name]) for name in ("forget", "retain")}
        return {name: 1.0 / length if length else 0.0 for name, length in lengths.items()}

    def step(self, step: OptimizerStep) -> float:
        """Take the step at the settings' rate, at the last one, or at the one that a line search finds."""
        if not self.automatic:
            return step.take(step.scheduled_rate)
        return self._search(step) if self.looks(step.number) else step.take(step.last_rate)

    def _search(self, step: OptimizerStep) -> float:
        import torch

        rate, before = step.last_rate, {name: part.detach().clone() for name, part in step.parts.items()}
        # An optimizer's step is proportional to its rate: the step tried is the one to be made but for a factor.
        step.take(rate)
        ahead = step.probe()
        with torch.no_grad():
            for name, part in step.parts.items():
                part.neg_().add_(before[name], alpha=2)
        behind = step.probe()
        best = self.rate(rate, behind, step.terms, ahead)
        with torch.no_grad():
            for name, part in step.parts.items():
                part.neg_().add_(before[name]).mul_(best / rate).add_(before[name])
        return best

    def looks(self, step: int) -> bool:
        return self.automatic and step % self.every == 0

    def probe(self, forget: View, retain: View) -> Terms:
        return {"retain": retain.nll()}

    def rate(
        self, rate: float, behind: Mapping[str, float], here: Mapping[str, float], ahead: Mapping[str, float]
    ) -> float:
        """The rate of the parabola's minimum, from the retain loss one step back at ``rate``, here, and ahead."""
        slope = (ahead["retain"] - behind["retain"]) / 2
        curvature = ahead["retain"] - 2 * here["retain"] + behind["retain"]
        if not (math.isfinite(curvature) and slope < 0 < curvature):
            return rate
        return rate * min(max(-slope / curvature, 1 / self.trust), self.trust)
