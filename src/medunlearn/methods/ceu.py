"""CE-U: cross-entropy without the true token."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from medunlearn.methods.protocol import Terms, View


@dataclass(frozen=True)
class CEU:
    """Draws the model to its own distribution without the true token.

    ``gamma mean_F CE(q, p) + alpha L(R)``, q the model's current distribution with the true token's logit at minus
    infinity, without gradient. The gradient is bounded, unlike gradient ascent's.

    Source: Yang 2025, arXiv 2503.01224; locuslab/open-unlearning (src/trainer/unlearn/ceu.py), both
    without a retain term. They leave out each answer's first token; here every answer token counts.

    Attributes:
        gamma: weight of the forget term.
        alpha: weight of the retain term; 0 leaves the retain set unused.
    """

    title: ClassVar[str] = "CE-U"
    family: ClassVar[str] = "distillation"
    retain_term: ClassVar[str] = "loss"

    gamma: Annotated[float, Field(ge=0)] = 1.0
    alpha: Annotated[float, Field(ge=0)] = 0.0

    def loss(self, forget: View, retain: View) -> Terms:
        distance = forget.distillation(forget, math.inf)
        terms = {"forget": self.gamma * forget.mean_over_tokens(distance)}
        if self.alpha:
            terms["retain"] = self.alpha * retain.nll()
        return terms
