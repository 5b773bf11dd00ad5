"""What an attack is, and what a membership attack is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from medunlearn.metrics.base import Score

Floats = npt.NDArray[np.float64]
Need = Literal["moments", "reference", "gradient_norm"]


class Attack(Protocol):
    """A dataclass whose fields are the attack's settings.

    Attributes:
        kind: what is attacked: a key of :data:`medunlearn.attacks.KINDS`.
        title: its name in reports.
        source: paper and section.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]


@dataclass(frozen=True, slots=True)
class Passage:
    """One document as the attacked model sees it; what no attack needs is None.

    Attributes:
        text: the document.
        log_probs: natural-log probability of each token that has one before it, the document's EOS last, [n].
        means, variances: of the log-probability of the token that the model itself would draw in each place, [n].
        reference: log-likelihood of the document under the reference model: the sum over its tokens.
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
        needs: what of a :class:`Passage` must be computed besides the log-probabilities. A passage that lacks it is
            unscored before the attack sees it.
    """

    needs: ClassVar[tuple[Need, ...]]

    def score(self, passage: Passage) -> Score:
        """The document's score: higher = more likely a member."""
        ...


def lacking(attack: MembershipAttack, passage: Passage) -> str | None:
    """Why an attack cannot score a passage; None where it can."""
    if not len(passage.log_probs):
        return "the document has a single token, which nothing predicts"
    if np.isnan(passage.log_probs).any():
        return "the model gives no number (NaN) for this document"
    found = {
        "moments": passage.means is not None and passage.variances is not None,
        "reference": passage.reference is not None,
        "gradient_norm": passage.gradient_norm is not None,
    }
    words = {
        "moments": "the model's distributions were not looked at",
        "reference": "there is no reference model: give --reference FOLDER, a run or a hub id",
        "gradient_norm": "the gradient was not computed",
    }
    return next((words[need] for need in attack.needs if not found[need]), None)
