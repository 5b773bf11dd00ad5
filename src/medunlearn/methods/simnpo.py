"""SimNPO: negative preference optimization without a reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch.nn.functional import logsigmoid

from medunlearn.methods.protocol import Terms, View


@dataclass(frozen=True)
class SimNPO:
    """Treats forget answers as dispreferred by their length-normalised likelihood.

    ``-(2 gamma / beta) mean_F log sigmoid(-(beta / |y|) log p(y|x) - delta) + alpha L(R)``, where |y| counts the
    answer's tokens.

    Source: Fan et al. 2024, arXiv 2410.07163, Equation 4 (the margin, which the paper sets to 0, is ``delta``
    here); AMNESIA, Section 4.2. The defaults are the paper's for TOFU: beta 4.5, forget weight 0.125.

    Attributes:
        beta: inverse temperature.
        delta: margin of the reward.
        gamma: weight of the forget term.
        alpha: weight of the retain term.
    """

    title: ClassVar[str] = "SimNPO"

    beta: float = 4.5
    delta: float = 0.0
    gamma: float = 0.125
    alpha: float = 1.0

    def loss(self, forget: View, retain: View) -> Terms:
        reward = self.beta * forget.sequence_nll() / forget.sequence_tokens()
        preference = -(2 / self.beta) * logsigmoid(reward - self.delta)
        return {
            "forget": self.gamma * forget.mean_over_sequences(preference),
            "retain": self.alpha * retain.nll(),
        }
