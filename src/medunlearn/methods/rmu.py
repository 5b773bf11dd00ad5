"""Representation misdirection for unlearning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from medunlearn.methods.protocol import Terms, View
from medunlearn.seeds import stable_seed


@dataclass(frozen=True)
class RMU:
    """Pushes the forget set's hidden states at one layer towards a random direction; holds the retain set's.

    ``mean_F ||h(x) - c u||^2 / W + alpha mean_R ||h(x) - h_ref(x)||^2 / W`` over answer positions, where u is a
    random unit vector, drawn uniformly from [0, 1)^W, the same for the whole run.

    Source: Li et al. 2024 (WMDP), arXiv 2403.03218, Section 4 and Algorithm 1; AMNESIA, Section 4.2 (layer 7).
    Defaults of the coefficient and of alpha are OpenUnlearning's (2 and 1); WMDP itself uses 6.5 to 300 and
    1,200, by model. The output at the prompt's last token is steered too, since it predicts the first
    answer token; OpenUnlearning starts one token later.

    Attributes:
        layer: decoder layer whose output is steered; 0 is the first. Nothing above it is run.
        coefficient: length c of the vector that is steered to.
        alpha: weight of the retain term.
        seed: of the direction.
    """

    title: ClassVar[str] = "RMU"

    layer: int = 7
    coefficient: float = 2.0
    alpha: float = 1.0
    seed: int = 0

    def trainable(self) -> str:
        """The MLPs' down-projections of the steered layer and the two before it (WMDP, Appendix B.4)."""
        layers = "|".join(str(layer) for layer in range(max(0, self.layer - 2), self.layer + 1))
        return rf"pattern:\.({layers})\.mlp\.down_proj\.weight$"

    def loss(self, forget: View, retain: View) -> Terms:
        steered = forget.hidden(self.layer)
        target = self.coefficient * self._direction(steered)
        kept, before = retain.hidden(self.layer), retain.reference.hidden(self.layer)
        return {
            "forget": forget.mean_over_tokens((steered - target).square().mean(dim=1)),
            "retain": self.alpha * retain.mean_over_tokens((kept - before).square().mean(dim=1)),
        }

    def _direction(self, like: torch.Tensor) -> torch.Tensor:
        source = torch.Generator().manual_seed(stable_seed("rmu", self.seed))
        direction = torch.rand(like.shape[1], generator=source)
        unit: torch.Tensor = direction / direction.norm()
        return unit.to(like)
