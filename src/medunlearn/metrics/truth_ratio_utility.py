"""The truth ratio as a part of TOFU's model utility: max(0, 1 - ratio)."""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.metrics.protocol import Item, Metric, Score, Tools
from medunlearn.metrics.truth_ratio import ratio_of


def truth_ratio_utility(ratio: float) -> float:
    """0-1, higher = the model finds the right answer likelier than wrong ones; 0 where it does not.

    Source: TOFU (arXiv 2401.06121), Section 2.2, "Model Utility".
    """
    return 1.0 - ratio if ratio < 1.0 or ratio != ratio else 0.0


def _score(items: Sequence[Item], tools: Tools) -> list[Score]:
    found = (ratio_of(item) for item in items)
    return [one if isinstance(one, Score) else Score(truth_ratio_utility(one)) for one in found]


METRIC = Metric(
    name="truth_ratio_utility",
    title="Truth ratio as utility",
    needs=("alternative_log_probs",),
    meaning="0-1, max(0, 1 - truth ratio), higher = finds the right answer likelier than wrong ones",
    source="TOFU (arXiv 2401.06121), Section 2.2",
    score=_score,
    item_by_item=True,
)
