"""Fine-tuning on refusals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from medunlearn.methods.protocol import Terms, View


@dataclass(frozen=True)
class IdkNLL:
    """Learns refusals to the forget set's questions: ``gamma L(A) + alpha L(R)``, A the refusals.

    Source: locuslab/open-unlearning (IdkNLL of its TOFU leaderboard: GradDiff's terms without the minus sign, on
    "I don't know" answers), after Maini et al. 2024, arXiv 2401.06121. The refusals here are our own
    (:mod:`medunlearn.data.refusals`). The true answers are not used: they stay as likely as refusals leave them.

    Attributes:
        answers: the answers to learn: ``refusal``, ``strangers`` or a JSONL file.
        alternatives: number of answers to learn per forget sequence; each epoch uses another.
        gamma: weight of the likelihood of the answers to learn.
        alpha: weight of the retain term.
    """

    title: ClassVar[str] = "IdkNLL"
    family: ClassVar[str] = "alternative answers"
    retain_term: ClassVar[str] = "loss"
    capped: ClassVar[bool] = False

    answers: str = "refusal"
    alternatives: Annotated[int, Field(ge=1)] = 8
    gamma: Annotated[float, Field(ge=0)] = 1.0
    alpha: Annotated[float, Field(ge=0)] = 1.0

    def loss_with(self, forget: View, retain: View, alternatives: View) -> Terms:
        return {"alternatives": self.gamma * alternatives.nll(), "retain": self.alpha * retain.nll()}
