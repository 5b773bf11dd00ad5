"""Min-K%: a document that was never seen has a few tokens that surprise the model much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from medunlearn.attacks.protocol import Floats, Need, Passage
from medunlearn.errors import InputError
from medunlearn.metrics.base import Score


@dataclass(frozen=True)
class MinK:
    """Mean log-probability of the least likely share ``k`` of the tokens. At most 0, higher = more likely a member.

    Source: Shi et al. 2024, "Detecting pretraining data from large language models", with its k = 20%.
    """

    kind: ClassVar[str] = "membership"
    title: ClassVar[str] = "Min-K%"
    source: ClassVar[str] = "Shi et al. 2024"
    needs: ClassVar[tuple[Need, ...]] = ()
    k: float = 0.2

    def __post_init__(self) -> None:
        check_share("min_k", self.k)

    def score(self, passage: Passage) -> Score:
        return Score(mean_of_lowest(passage.log_probs, self.k))


def mean_of_lowest(values: Floats, share: float) -> float:
    """Mean of the lowest ``share`` of the values: as many as fit into it whole, at least one."""
    # 0.2 * 15 is a little above 3 and 0.29 * 100 a little below 29: neither is meant.
    count = max(1, int(round(share * len(values), 9)))
    return float(np.partition(values, count - 1)[:count].mean())


def check_share(name: str, k: float) -> None:
    """Refuse what is no share of the tokens.

    Raises:
        InputError: k outside (0, 1].
    """
    if not 0.0 < k <= 1.0:
        raise InputError(f"{name}.k={k}: k is a share of the tokens, above 0 and at most 1 (20% is 0.2).")
