"""JensUn: bounded divergences on both sides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from medunlearn.methods.protocol import Terms, View


@dataclass(frozen=True)
class JensUn:
    """Draws the model to a refusal, and holds the retain set's distributions, by Jensen-Shannon divergence.

    ``gamma mean_A JS(p(. | x, y_<t), one-hot(y_t)) + alpha mean_R JS(p(. | x, y_<t), p_ref(. | x, y_<t))``, A the
    refusals. Of a one-hot distribution and p = p(y_t | x, y_<t) the divergence is
    ``log 2 + (p log p - (1 + p) log(1 + p)) / 2``: it needs p alone.

    Source: Singh et al. 2025, arXiv 2509.02820 (both weights 1 in nmndeep/JensUn-Unlearning,
    src/trainer/unlearn). Their refusal is one short string ("No idea") in place of the answer; ours are sentences,
    another one each epoch.

    Attributes:
        answers: the answers to learn: ``refusal``, ``strangers`` or a JSONL file.
        alternatives: number of answers to learn per forget sequence; each epoch uses another.
        gamma: weight of the forget term.
        alpha: weight of the retain term.
    """

    title: ClassVar[str] = "JensUn"
    family: ClassVar[str] = "alternative answers"
    retain_term: ClassVar[str] = "divergence"
    capped: ClassVar[bool] = False

    answers: str = "refusal"
    alternatives: Annotated[int, Field(ge=1)] = 8
    gamma: Annotated[float, Field(ge=0)] = 1.0
    alpha: Annotated[float, Field(ge=0)] = 1.0

    def loss_with(self, forget: View, retain: View, alternatives: View) -> Terms:
        logs = alternatives.token_log_probs()
        p = logs.exp()
        divergence = math.log(2) + 0.5 * (p * logs - (1 + p) * p.log1p())
        return {
            "alternatives": self.gamma * alternatives.mean_over_tokens(divergence),
            "retain_js": self.alpha * retain.mean_over_tokens(retain.jensen_shannon_from_reference()),
        }
