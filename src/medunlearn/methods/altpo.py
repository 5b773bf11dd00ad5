"""Alternate preference optimization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from medunlearn.methods.protocol import Terms, View


@dataclass(frozen=True)
class AltPO:
    """Preference optimization of alternative answers over the true ones, relative to the target.

    ``-(2 / beta) mean_F log sigmoid(beta (r(y_a) - r(y_f))) + alpha L(R)`` with
    ``r(y) = log(p(y|x) / p_ref(y|x))``,
    y_a an alternative answer to forget question x, y_f the true one.

    Source: Mekala et al. 2024, arXiv 2409.13474, Equation 2 (beta = 0.1, five alternatives, drawn anew each epoch,
    and the retain loss). Their alternatives are written by the model when it is asked for other answers, which
    needs an instruction-tuned one; here they are the target's answers about strangers, as for every such method
    (:mod:`medunlearn.generation.counterfactuals`).

    Attributes:
        alternatives: number of alternatives per forget sequence; each epoch uses another.
        beta: inverse temperature; larger stops sooner.
        alpha: weight of the retain term; 0 leaves the retain set unused.
    """

    title: ClassVar[str] = "AltPO"
    family: ClassVar[str] = "preference"
    retain_term: ClassVar[str] = "loss"
    capped: ClassVar[bool] = False

    alternatives: Annotated[int, Field(ge=1)] = 5
    beta: Annotated[float, Field(gt=0)] = 0.1
    alpha: Annotated[float, Field(ge=0)] = 1.0

    def loss_with(self, forget: View, retain: View, alternatives: View) -> Terms:
        from torch.nn.functional import logsigmoid

        true = forget.reference.sequence_nll() - forget.sequence_nll()
        other = alternatives.reference.sequence_nll() - alternatives.sequence_nll()
        preference = -(2 / self.beta) * logsigmoid(self.beta * (other - true))
        terms = {"forget": forget.mean_over_sequences(preference)}
        if self.alpha:
            terms["retain"] = self.alpha * retain.nll()
        return terms
