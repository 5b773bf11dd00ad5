"""PDU: forgetting under a budget of utility."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from medunlearn.methods.protocol import Terms, View

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class PDU:
    """Flattens the forget set's logits while the retain loss stays within a budget, by a dual variable.

    ``gamma mean_F (max_v z_v - mean_v z_v)^2 + lambda L(R)`` over answer tokens, z the logits. After each step
    ``lambda <- max(0, lambda + rate (excess - budget))``: lambda rises while the budget is exceeded and falls while
    it is not. The excess is the retain loss of the step's sequences above the target's (variant ``target``), or the
    retain loss itself (``openunlearning``).

    Source: Entesari et al. 2025, arXiv 2506.05314; locuslab/open-unlearning
    (src/trainer/unlearn/pdu.py), whose forget term averages over prompt and padding too and whose budget is of the
    retain loss itself, 0 by default. Ours is of what the loss rises by, so that one number fits every model.

    Attributes:
        variant: what the budget is of.
        budget: nats a token by which the retain loss may rise, or may be.
        gamma: weight of the forget term.
        alpha: the dual variable at the start, the weight of the retain term.
        rate: step size of the dual variable.
    """

    title: ClassVar[str] = "PDU"
    family: ClassVar[str] = "distillation"
    retain_term: ClassVar[str] = "loss"

    variant: Literal["target", "openunlearning"] = "target"
    budget: Annotated[float, Field(ge=0)] = 0.02
    gamma: Annotated[float, Field(ge=0)] = 1.0
    alpha: Annotated[float, Field(ge=0)] = 1.0
    rate: Annotated[float, Field(ge=0)] = 1.0

    def __post_init__(self) -> None:
        self._dual = self.alpha

    def loss(self, forget: View, retain: View) -> Terms:
        loss = retain.nll()
        excess = loss.detach() - (retain.reference.nll() if self.variant == "target" else 0.0)
        return {
            "forget": self.gamma * forget.mean_over_tokens(forget.margin()),
            "retain": self._dual * loss,
            "measured_excess": excess,
        }

    def after_step(self, terms: Mapping[str, float]) -> None:
        self._dual = max(0.0, self._dual + self.rate * (terms["measured_excess"] - self.budget))

    def state_dict(self) -> Mapping[str, Tensor]:
        import torch

        return {"dual": torch.tensor(self._dual, dtype=torch.float64)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self._dual = float(state["dual"])
