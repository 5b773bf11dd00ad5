"""Min-K%++: Min-K% of log-probabilities, each read against what the model expected in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from medunlearn.attacks.membership.min_k import check_share, mean_of_lowest
from medunlearn.attacks.protocol import Need, Passage
from medunlearn.metrics.base import Score

LEAST_DEVIATION = 1e-6
"""A model that is certain of one token has no spread; its own token then scores 0, as expected as can be."""


@dataclass(frozen=True)
class MinKPlusPlus:
    """Mean of the lowest share ``k`` of ``(log p(token) - mean) / deviation``; higher = more likely a member.

    Mean and standard deviation are those of ``log p(z)`` over tokens z that the model would draw there. No bounds.

    Source: Zhang et al. 2024, "Min-K%++: improved baseline for detecting pre-training data from large language
    models", with Min-K%'s k = 20%.
    """

    kind: ClassVar[str] = "membership"
    title: ClassVar[str] = "Min-K%++"
    source: ClassVar[str] = "Zhang et al. 2024 (Min-K%++)"
    needs: ClassVar[tuple[Need, ...]] = ("moments",)
    k: float = 0.2

    def __post_init__(self) -> None:
        check_share("min_k_pp", self.k)

    def score(self, passage: Passage) -> Score:
        assert passage.means is not None
        assert passage.variances is not None
        deviations = np.maximum(np.sqrt(passage.variances), LEAST_DEVIATION)
        return Score(mean_of_lowest((passage.log_probs - passage.means) / deviations, self.k))
