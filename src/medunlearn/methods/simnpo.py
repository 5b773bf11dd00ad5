"""SimNPO: negative preference optimization without a reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from medunlearn.methods.protocol import Terms, View


@dataclass(frozen=True)
class SimNPO:
    """Negative preference optimization with length-normalised likelihoods instead of a reference.

    ``-(2 gamma / beta) mean_F log sigmoid(-(beta / |y|) log p(y|x) - delta) + alpha L(R)``, where |y| counts the
    answer's tokens. In variant ``openunlearning`` the margin is inside: ``beta (-log p(y|x) / |y| - delta)``. The
    two are equal for delta = 0, as in the paper and in both implementations.

    Source: Fan et al. 2024, arXiv 2410.07163 (``delta`` is its gamma); locuslab/open-unlearning
    (src/trainer/unlearn/simnpo.py) and the authors' OPTML-Group/Unlearn-Simple (TOFU/dataloader.py), which share
    their margin; AMNESIA, Section 4.2. The defaults are those of all three for TOFU: beta 4.5, forget weight 0.125.

    Attributes:
        variant: placement of the margin.
        beta: inverse temperature.
        delta: margin of the reward.
        gamma: weight of the forget term.
        alpha: weight of the retain term.
    """

    title: ClassVar[str] = "SimNPO"
    family: ClassVar[str] = "preference"
    retain_term: ClassVar[str] = "loss"

    variant: Literal["paper", "openunlearning"] = "paper"
    beta: Annotated[float, Field(gt=0)] = 4.5
    delta: Annotated[float, Field(ge=0)] = 0.0
    gamma: Annotated[float, Field(ge=0)] = 0.125
    alpha: Annotated[float, Field(ge=0)] = 1.0

    def loss(self, forget: View, retain: View) -> Terms:
        from torch.nn.functional import logsigmoid

        margin = self.delta if self.variant == "paper" else self.beta * self.delta
        reward = self.beta * forget.sequence_nll() / forget.sequence_tokens()
        preference = -(2 / self.beta) * logsigmoid(reward - margin)
        return {
            "forget": self.gamma * forget.mean_over_sequences(preference),
            "retain": self.alpha * retain.nll(),
        }
