"""Direct preference optimization: an answer to learn over the true one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from medunlearn.methods.protocol import Terms, View


@dataclass(frozen=True)
class DPO:
    """Preference optimization of an answer to learn over the true one, relative to the target.

    ``-(2 / beta) gamma mean_F log sigmoid(beta (r(y_a) - r(y_f))) + alpha L(R)`` with
    ``r(y) = log(p(y|x) / p_ref(y|x))``, y_a the answer to learn for forget question x, y_f the true one.

    Source: Rafailov et al. 2023, arXiv 2305.18290, Equation 7; as an unlearning loss, with the factor 2 / beta,
    locuslab/open-unlearning (src/trainer/utils.py). Its answers to learn are a column of its data sets; here they
    are the user's (``answers``: a JSONL file), else the target's answers about strangers.

    Attributes:
        answers: the answers to learn: ``strangers``, ``refusal`` or a JSONL file
            (:mod:`medunlearn.study.alternative_answers`).
        alternatives: number of answers to learn per forget sequence; each epoch uses another.
        beta: inverse temperature; larger stops sooner.
        gamma: weight of the preference.
        alpha: weight of the retain term; 0 leaves the retain set unused.
    """

    title: ClassVar[str] = "DPO"
    family: ClassVar[str] = "preference"
    retain_term: ClassVar[str] = "loss"
    capped: ClassVar[bool] = False

    answers: str = "strangers"
    alternatives: Annotated[int, Field(ge=1)] = 1
    beta: Annotated[float, Field(gt=0)] = 0.1
    gamma: Annotated[float, Field(ge=0)] = 1.0
    alpha: Annotated[float, Field(ge=0)] = 1.0

    def loss_with(self, forget: View, retain: View, alternatives: View) -> Terms:
        from torch.nn.functional import logsigmoid

        true = forget.reference.sequence_nll() - forget.sequence_nll()
        other = alternatives.reference.sequence_nll() - alternatives.sequence_nll()
        preference = -(2 / self.beta) * logsigmoid(self.beta * (other - true))
        terms = {"forget": self.gamma * forget.mean_over_sequences(preference)}
        if self.alpha:
            terms["retain"] = self.alpha * retain.nll()
        return terms


@dataclass(frozen=True)
class IdkDPO(DPO):
    """Preference optimization of refusals over the true answers.

    :class:`DPO` with refusals as answers to learn.

    Source: Maini et al. 2024 (TOFU), arXiv 2401.06121, "preference optimization", where the answers
    are variants of "I don't know"; the refusals here are our own (:mod:`medunlearn.data.refusals`), another one
    each epoch.
    """

    title: ClassVar[str] = "IdkDPO"
    family: ClassVar[str] = "preference"
    retain_term: ClassVar[str] = "loss"

    answers: str = "refusal"
    alternatives: Annotated[int, Field(ge=1)] = 8


@dataclass(frozen=True)
class AltPO(DPO):
    """Preference optimization of alternative answers over the true ones, relative to the target.

    :class:`DPO` with several alternative answers, drawn anew each epoch.

    Source: Mekala et al. 2024, arXiv 2409.13474 (beta = 0.1, five alternatives, and the retain loss).
    Their alternatives are written by the model when it is asked for other answers, which needs an
    instruction-tuned one; here they are the target's answers about strangers, as for every such method
    (:mod:`medunlearn.generation.counterfactuals`).
    """

    title: ClassVar[str] = "AltPO"
    family: ClassVar[str] = "preference"
    retain_term: ClassVar[str] = "loss"

    alternatives: Annotated[int, Field(ge=1)] = 5
