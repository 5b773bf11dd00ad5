"""UNDIAL: self-distillation with adjusted logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from medunlearn.methods.protocol import Terms, View


@dataclass(frozen=True)
class UNDIAL:
    """Distils the target into itself with the true token's logit lowered.

    ``gamma mean_F CE(softmax(z_ref - beta e_y), p) + alpha L(R)``, over answer tokens: z_ref the target's logits,
    e_y the one-hot vector of the true token.

    Source: Dong et al. 2024, arXiv 2402.10052; beta = 10 and no retain term as in
    locuslab/open-unlearning (configs/trainer/UNDIAL.yaml). Its code averages over prompt and padding too; here the
    mean is over answer tokens.

    Attributes:
        beta: what is taken off the true token's logit.
        gamma: weight of the forget term.
        alpha: weight of the retain term; 0 leaves the retain set unused.
    """

    title: ClassVar[str] = "UNDIAL"
    family: ClassVar[str] = "distillation"
    retain_term: ClassVar[str] = "loss"

    beta: Annotated[float, Field(gt=0)] = 10.0
    gamma: Annotated[float, Field(ge=0)] = 1.0
    alpha: Annotated[float, Field(ge=0)] = 0.0

    def loss(self, forget: View, retain: View) -> Terms:
        distance = forget.distillation(forget.reference, self.beta)
        terms = {"forget": self.gamma * forget.mean_over_tokens(distance)}
        if self.alpha:
            terms["retain"] = self.alpha * retain.nll()
        return terms
