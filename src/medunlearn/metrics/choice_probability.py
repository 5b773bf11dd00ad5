"""Choice probability: the right answer's share of what a model gives to it and the wrong ones together."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, fsum

from medunlearn.metrics.protocol import Item, Metric, Score, Tools
from medunlearn.metrics.truth_ratio import mean_log_prob


def choice_probability(options: Sequence[Sequence[float]], right: int) -> float:
    """P(right) / sum of P(option), each length-normalised: P(a | q) ** (1 / |a|).

    Args:
        options: log-probabilities of each option's tokens.
        right: place of the right one.

    Returns:
        0-1, higher = chooses the right answer more surely; 1 / options = a guess.

    Source: TOFU (arXiv 2401.06121), Section 2.2, "Probability" (real authors, world facts).
    """
    means = [mean_log_prob(one) for one in options]
    top = max(means)
    weights = [exp(one - top) for one in means]
    return weights[right] / fsum(weights)


def _score(items: Sequence[Item], tools: Tools) -> list[Score]:
    return [_score_one(item) for item in items]


def _score_one(item: Item) -> Score:
    options, place = item.alternative_log_probs, item.answer_index
    if options is None or place is None or len(options) < 2:
        return Score.unscored("the question has no wrong answers to choose from")
    if any(len(one) == 0 for one in options):
        return Score.unscored("an alternative answer has no token")
    return Score(choice_probability(options, place))


METRIC = Metric(
    name="choice_probability",
    title="Choice probability",
    needs=("alternative_log_probs",),
    meaning="0-1, higher = gives the right answer a larger share beside wrong ones",
    source="TOFU (arXiv 2401.06121), Section 2.2",
    score=_score,
    item_by_item=True,
)
