"""Redirection of hidden states to those of other answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from medunlearn.methods.protocol import Terms, View
from medunlearn.methods.rmu import down_projections


@dataclass(frozen=True)
class Redirect:
    """Moves the forget set's hidden states at one layer to where the target's are on other answers.

    ``mean_F |h(x) - h_ref(x) - c d|^2 / W + alpha mean_R |h(x) - h_ref(x)|^2 / W`` over answer positions, where d
    is the target's mean state over the other answer of the same question less that over the true one. The states
    stay ones that the model has, unlike those of RMU.

    Source: after Shen et al. 2025 (LUNAR), arXiv 2502.07218, which moves them by one vector c d for the
    whole set, c = 2: from the forget set's prompts to prompts that the model refuses, and fits the down-projection
    of one layer in closed form or by gradient descent. Small models refuse nothing, so d comes from answers here
    (refusals of our own words, or answers about strangers), one for each question, and the retain set is weighted.

    Attributes:
        answers: whose states are the goal: ``refusal``, ``strangers`` or a JSONL file.
        alternatives: number of other answers per forget sequence; each epoch uses another.
        layer: decoder layer whose output is moved; 0 is the first. Layers above are not run.
        coefficient: length of the move, as a multiple of the difference of the states.
        alpha: weight of the retain term.
        trains: ``layer``: the down-projection of the layer's MLP, as in LUNAR; ``through``: everything up to it.
    """

    title: ClassVar[str] = "Redirect"
    family: ClassVar[str] = "representation"
    retain_term: ClassVar[str] = "hidden states"
    capped: ClassVar[bool] = False

    answers: str = "refusal"
    alternatives: Annotated[int, Field(ge=1)] = 8
    layer: Annotated[int, Field(ge=0)] = 7
    coefficient: Annotated[float, Field(gt=0)] = 2.0
    alpha: Annotated[float, Field(ge=0)] = 1.0
    trains: Literal["layer", "through"] = "layer"

    def trainable(self) -> str:
        return down_projections(self.layer, self.layer) if self.trains == "layer" else f"through:{self.layer}"

    def loss_with(self, forget: View, retain: View, alternatives: View) -> Terms:
        before, other = forget.reference.hidden(self.layer), alternatives.reference.hidden(self.layer)
        away = alternatives.sequence_means(other) - forget.sequence_means(before)
        goal = before + self.coefficient * forget.of_sequences(away)
        drift = retain.hidden(self.layer) - retain.reference.hidden(self.layer)
        return {
            "forget": forget.mean_over_tokens((forget.hidden(self.layer) - goal).square().mean(dim=1)),
            "retain": self.alpha * retain.mean_over_tokens(drift.square().mean(dim=1)),
        }
