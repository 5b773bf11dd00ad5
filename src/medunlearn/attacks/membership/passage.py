"""One document under the attacked model, and the interface of what scores it. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from medunlearn.metrics.measure import Score

Floats = npt.NDArray[np.float64]
Need = Literal["moments", "reference", "gradient_norm", "conditional"]


@dataclass(frozen=True, slots=True)
class Passage:
    """One document under the attacked model; inputs that no attack needs are None.

    Attributes:
        log_probs: natural-log probability of each token but the first, EOS last, [n].
        means, variances: of the log-probability of the token that the model itself would draw in each place, [n].
        reference: log-likelihood of the document under the reference model, summed over its tokens.
        gradient_norm: Euclidean norm of the gradient, by all weights, of the mean loss over the n tokens.
        conditional: mean log-probability of the n tokens behind other documents that no model was trained on.
    """

    text: str
    log_probs: Floats
    means: Floats | None = None
    variances: Floats | None = None
    reference: float | None = None
    gradient_norm: float | None = None
    conditional: float | None = None


class PassageScorer(Protocol):
    """A membership attack as its runner and its results use it."""

    needs: ClassVar[tuple[Need, ...]]

    def score(self, passage: Passage) -> Score:
        """Score of the document: higher = more likely a member."""
        ...


_MISSING: dict[Need, tuple[str, str]] = {
    "moments": ("variances", "the model's distributions were not looked at"),
    "reference": ("reference", "there is no reference model: give --reference FOLDER, a run or a hub id"),
    "gradient_norm": ("gradient_norm", "the gradient was not computed"),
    "conditional": ("conditional", "the document was not read behind others: too few non-members, or no room"),
}
"""Need -> field of the passage, and the reason where that is None."""


def lacking(attack: PassageScorer, passage: Passage) -> str | None:
    """Reason why an attack cannot score a passage; None if it can."""
    if not len(passage.log_probs):
        return "the document has a single token, which nothing predicts"
    if np.isnan(passage.log_probs).any():
        return "the model gives no number (NaN) for this document"
    missing = (_MISSING[need] for need in attack.needs)
    return next((reason for field, reason in missing if getattr(passage, field) is None), None)
