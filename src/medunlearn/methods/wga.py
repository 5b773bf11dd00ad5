"""Weighted gradient ascent: WGA, and SatImp's weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from medunlearn.methods.protocol import Terms, View

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class WGA:
    """Gradient ascent in which a token weighs by how well the model still knows it.

    ``gamma mean_F p^beta log p + alpha L(R)``, p the true token's current probability; the weight p^beta is taken
    without gradient, so that a token that is forgotten pushes no further.

    Source: Wang et al. 2025, arXiv 2502.19301 (WGA); beta = 1 and both weights 1 as in
    locuslab/open-unlearning (configs/trainer/WGA.yaml).

    Attributes:
        beta: exponent of the probability.
        gamma: weight of the forget term.
        alpha: weight of the retain term.
    """

    title: ClassVar[str] = "WGA"
    family: ClassVar[str] = "gradient ascent"
    retain_term: ClassVar[str] = "loss"

    beta: Annotated[float, Field(ge=0)] = 1.0
    gamma: Annotated[float, Field(ge=0)] = 1.0
    alpha: Annotated[float, Field(ge=0)] = 1.0

    def loss(self, forget: View, retain: View) -> Terms:
        log_probs = forget.token_log_probs()
        ascent = self.weights(log_probs.detach().exp()) * log_probs
        return {"forget": self.gamma * forget.mean_over_tokens(ascent), "retain": self.alpha * retain.nll()}

    def weights(self, probabilities: Tensor) -> Tensor:
        """Weight of each token from its probability, [N] -> [N], >= 0."""
        return probabilities**self.beta


@dataclass(frozen=True)
class SatImp(WGA):
    """Gradient ascent in which a token weighs by saturation and importance.

    ``gamma mean_F p^beta (1 - p)^beta2 log p + alpha L(R)``: p^beta is the saturation (what is unlikely already
    counts little), (1 - p)^beta2 the importance (so do words that anybody would say).

    Source: Yang et al. 2025, arXiv 2505.11953 (SatImp); 5, 1, gamma = 0.1 and alpha = 1 as in
    locuslab/open-unlearning (configs/trainer/SatImp.yaml; beta is its beta1).

    Attributes:
        beta2: exponent of the probability of all other tokens.
    """

    title: ClassVar[str] = "SatImp"
    family: ClassVar[str] = "gradient ascent"
    retain_term: ClassVar[str] = "loss"

    beta: Annotated[float, Field(ge=0)] = 5.0
    gamma: Annotated[float, Field(ge=0)] = 0.1
    beta2: Annotated[float, Field(ge=0)] = 1.0

    def weights(self, probabilities: Tensor) -> Tensor:
        return super().weights(probabilities) * (1 - probabilities) ** self.beta2
