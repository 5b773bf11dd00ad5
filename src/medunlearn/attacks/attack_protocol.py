"""Interfaces of attacks, and the input of a membership attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from medunlearn.metrics.measure import Score

Floats = npt.NDArray[np.float64]
Need = Literal["moments", "reference", "gradient_norm"]


class Attack(Protocol):
    """A dataclass whose fields are the attack's settings.

    Attributes:
        kind: a key of :data:`medunlearn.attacks.KINDS`.
        title: name in reports.
        source: paper and section.
        variant: published implementation that it reproduces where that differs from ours; "" for our own. The name
            of a kind does not include variants.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    variant: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """One document under the attacked model; inputs that no attack needs are None.

    Attributes:
        log_probs: natural-log probability of each token but the first, EOS last, [n].
        means, variances: of the log-probability of the token that the model itself would draw in each place, [n].
        reference: log-likelihood of the document under the reference model, summed over its tokens.
        gradient_norm: Euclidean norm of the gradient, by all weights, of the mean loss over the n tokens.
    """

    text: str
    log_probs: Floats
    means: Floats | None = None
    variances: Floats | None = None
    reference: float | None = None
    gradient_norm: float | None = None


class MembershipAttack(Attack, Protocol):
    """A score that is higher for documents that the model was trained on.

    Attributes:
        needs: inputs besides the log-probabilities. A passage that lacks one is unscored before the attack sees it.
    """

    kind: ClassVar[str] = "membership"
    needs: ClassVar[tuple[Need, ...]] = ()

    def score(self, passage: Passage) -> Score:
        """Score of the document: higher = more likely a member."""
        ...


_MISSING: dict[Need, tuple[str, str]] = {
    "moments": ("variances", "the model's distributions were not looked at"),
    "reference": ("reference", "there is no reference model: give --reference FOLDER, a run or a hub id"),
    "gradient_norm": ("gradient_norm", "the gradient was not computed"),
}
"""Need -> field of the passage, and the reason where that is None."""


def lacking(attack: MembershipAttack, passage: Passage) -> str | None:
    """Reason why an attack cannot score a passage; None if it can."""
    if not len(passage.log_probs):
        return "the document has a single token, which nothing predicts"
    if np.isnan(passage.log_probs).any():
        return "the model gives no number (NaN) for this document"
    missing = (_MISSING[need] for need in attack.needs)
    return next((reason for field, reason in missing if getattr(passage, field) is None), None)
