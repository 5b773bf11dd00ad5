"""Loss: a document that was trained on has a low loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from medunlearn.attacks.protocol import Need, Passage
from medunlearn.metrics.base import Score


@dataclass(frozen=True)
class Loss:
    """Minus the loss: the mean log-probability of a token. At most 0, higher = more likely a member.

    Source: Yeom et al. 2018, "Privacy risk in machine learning"; the attack of LUME, Section 2.3.
    """

    kind: ClassVar[str] = "membership"
    title: ClassVar[str] = "Loss"
    source: ClassVar[str] = "Yeom et al. 2018; LUME, Section 2.3"
    needs: ClassVar[tuple[Need, ...]] = ()

    def score(self, passage: Passage) -> Score:
        return Score(float(passage.log_probs.mean()))
