"""KL minimization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from medunlearn.methods.protocol import Terms, View


@dataclass(frozen=True)
class KLMin:
    """Gradient ascent on the forget set, with a KL penalty that keeps the retain set's distributions at the
    reference's.

    ``-gamma L(F) + alpha mean_t KL(p_ref(. | x_<t) || p(. | x_<t))`` over the retain set. In variant ``answers`` t
    runs over the answer positions. In variant ``openunlearning`` it runs over every token, prompt and last token
    included, as in TOFU's code and OpenUnlearning's; they count padding too, which is excluded here.

    Source: TOFU, arXiv 2401.06121 (KL Minimization), after Nguyen et al. 2020, arXiv 2010.12883;
    locuslab/open-unlearning (src/trainer/utils.py, compute_kl_divergence); AMNESIA, Section 4.2.

    Attributes:
        variant: positions of the divergence.
        gamma: weight of the forget term.
        alpha: weight of the divergence.
    """

    title: ClassVar[str] = "KL-Min"
    family: ClassVar[str] = "gradient ascent"
    retain_term: ClassVar[str] = "divergence"

    variant: Literal["answers", "openunlearning"] = "answers"
    gamma: Annotated[float, Field(ge=0)] = 1.0
    alpha: Annotated[float, Field(ge=0)] = 1.0

    def loss(self, forget: View, retain: View) -> Terms:
        retain = retain.at("predicting" if self.variant == "answers" else "all")
        return {
            "forget": -self.gamma * forget.nll(),
            "retain_kl": self.alpha * retain.mean_over_tokens(retain.divergence_from_reference()),
        }
