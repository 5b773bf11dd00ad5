"""Representation misdirection for unlearning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from medunlearn.methods.protocol import Terms, View
from medunlearn.seeds import stable_seed

if TYPE_CHECKING:
    from torch import Tensor

    from medunlearn.models.sequences import Positions

COEFFICIENTS = {"openunlearning": (2.0, 1.0), "wmdp": (6.5, 1200.0)}
"""Published length of the steering vector and weight of the retain term, by variant."""


def down_projections(first: int, last: int) -> str:
    """Choice of trained parameters: the MLPs' down-projections of layers ``first`` to ``last``."""
    return rf"pattern:\.({'|'.join(map(str, range(first, last + 1)))})\.mlp\.down_proj\.weight$"


@dataclass(frozen=True)
class RMU:
    """Pushes the forget set's hidden states at one layer towards a random direction; keeps the retain set's.

    ``mean_F ||h(x) - c u||^2 / W + alpha mean_R ||h(x) - h_ref(x)||^2 / W`` where u is a random unit vector, drawn
    uniformly from [0, 1)^W, the same for the whole run. Published in two variants, both of layer 7:

    - ``openunlearning`` (what AMNESIA, Section 4.2, refers to): all parameters are trained, c = 2, alpha = 1; over
      the answer tokens; a sequence's sum is divided by each token count of the batch, which equals the mean over
      sequences of their means if all have the same length.
    - ``wmdp`` (the method's authors): the MLPs' down-projections of the layer and the two before it, c = 6.5 and
      alpha = 1,200 (theirs for Zephyr-7B; 300 and 350 for Yi-34B); the mean over every token, prompt included.

    - ``adaptive``: as ``wmdp``, but c is 5 times the length of the target's own hidden state, ``c |h_ref(x)|`` at
      each token, so that no model needs a c of its own.

    Their code counts padding too, which is excluded here. Layers above get no gradient and are not trained.

    Source: Li et al. 2024 (WMDP), arXiv 2403.03218, and centerforaisafety/wmdp (rmu/unlearn.py);
    locuslab/open-unlearning (src/trainer/unlearn/rmu.py, configs/trainer/RMU.yaml).

    Attributes:
        variant: published implementation that sets parameters, coefficients, positions and averaging.
        layer: decoder layer whose output is steered; 0 is the first. Layers above are not run.
        coefficient: norm c of the target vector; the variant's by default.
        alpha: weight of the retain term; the variant's by default.
        seed: seed of the direction; the run's by default.
    """

    title: ClassVar[str] = "RMU"
    family: ClassVar[str] = "representation"
    retain_term: ClassVar[str] = "hidden states"

    variant: Literal["openunlearning", "wmdp"] = "openunlearning"
    layer: Annotated[int, Field(ge=0)] = 7
    coefficient: Annotated[float, Field(ge=0)] | None = None
    alpha: Annotated[float, Field(ge=0)] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, published in zip(("coefficient", "alpha"), COEFFICIENTS[self.variant], strict=True):
            if getattr(self, name) is None:
                object.__setattr__(self, name, published)

    def trainable(self) -> str:
        if self.variant == "openunlearning":
            return f"through:{self.layer}"
        return down_projections(max(0, self.layer - 2), self.layer)

    def loss(self, forget: View, retain: View) -> Terms:
        assert self.alpha is not None
        positions: Positions = "answer" if self.variant == "openunlearning" else "all"
        forget, retain = forget.at(positions), retain.at(positions)
        steered, states = forget.hidden(self.layer), retain.hidden(self.layer)
        target = self._target(forget, self._direction(steered))
        drift = states - retain.reference.hidden(self.layer)
        return {
            "forget": self._mean(forget, (steered - target).square().mean(dim=1)),
            "retain": self.alpha * self._mean(retain, drift.square().mean(dim=1)),
        }

    def _target(self, forget: View, direction: Tensor) -> Tensor:
        """Goal of the forget set's states, [W] or [N, W]."""
        assert self.coefficient is not None
        return self.coefficient * direction

    def _mean(self, view: View, values: Tensor) -> Tensor:
        if self.variant == "wmdp":
            return view.mean_over_tokens(values)
        return view.mean_over_sequences(view.sequence_sums(values)) * view.mean_inverse_tokens()

    def _direction(self, like: Tensor) -> Tensor:
        import torch

        source = torch.Generator().manual_seed(stable_seed("rmu", self.seed))
        direction = torch.rand(like.shape[1], generator=source)
        unit: Tensor = direction / direction.norm()
        return unit.to(like)


@dataclass(frozen=True)
class AdaptiveRMU(RMU):
    """RMU whose steering vector is as long as the state that it replaces, so that no model needs a length of its
    own.

    RMU of the variant ``wmdp`` with ``c |h_ref(x)| u`` in place of ``c u``, at each token.

    Source: Dang et al. 2025, arXiv 2408.06223 (their scale is 5 for Zephyr-7B; alpha 1,200).

    Attributes:
        coefficient: the vector's length as a multiple of the state's.
    """

    title: ClassVar[str] = "Adaptive RMU"
    family: ClassVar[str] = "representation"
    retain_term: ClassVar[str] = "hidden states"

    variant: Literal["openunlearning", "wmdp"] = "wmdp"
    coefficient: Annotated[float, Field(ge=0)] | None = 5.0
    alpha: Annotated[float, Field(ge=0)] | None = 1200.0

    def _target(self, forget: View, direction: Tensor) -> Tensor:
        lengths = forget.reference.hidden(self.layer).norm(dim=1, keepdim=True)
        target: Tensor = lengths * super()._target(forget, direction)
        return target
