"""KL minimization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from medunlearn.methods.protocol import Terms, View


@dataclass(frozen=True)
class KLMin:
    """Ascent on the forget set, while the retain set's distributions stay those of the reference.

    ``-gamma L(F) + alpha mean_t KL(p_ref(. | x_<t) || p(. | x_<t))`` over the retain set's answer tokens: over
    the answers alone, not over prompts or padding.

    Source: TOFU, arXiv 2401.06121, Section 3.2 (KL Minimization), after Nguyen et al. 2020, arXiv 2010.12883;
    AMNESIA, Section 4.2.

    Attributes:
        gamma: weight of the forget term.
        alpha: weight of the divergence.
    """

    title: ClassVar[str] = "KL-Min"

    gamma: float = 1.0
    alpha: float = 1.0

    def loss(self, forget: View, retain: View) -> Terms:
        divergence = retain.divergence_from_reference()
        return {
            "forget": -self.gamma * forget.nll(),
            "retain_kl": self.alpha * retain.mean_over_tokens(divergence),
        }
