"""Fine-tuning on the forget set, for a task vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from medunlearn.methods.protocol import Terms, View


@dataclass(frozen=True)
class Memorize:
    """Learns the forget set still better: ``L(F)``. It unlearns nothing; its change of the weights is a task
    vector.

    :class:`~medunlearn.methods.merge.Merge` with a negative scale takes it off the target.

    Source: Ilharco et al. 2023, arXiv 2212.04089 (forgetting by negation: fine-tune, then subtract).
    """

    title: ClassVar[str] = "Memorize"
    family: ClassVar[str] = "weight editing"
    retain_term: ClassVar[str] = "none"

    def loss(self, forget: View, retain: View) -> Terms:
        return {"forget": forget.nll()}
