"""Truth ratio: how much likelier the model finds wrong answers than the right one in other words."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, fsum, isnan, log

from medunlearn.metrics.protocol import Item, Metric, Score, Tools

_LARGEST = 700.0  # exp of more overflows


def mean_log_prob(log_probs: Sequence[float]) -> float:
    """Log of the length-normalised probability P(a | q) ** (1 / |a|), EOS counted.

    Args:
        log_probs: natural-log probability of each token of an answer, shape [tokens + 1].

    Raises:
        ValueError: no token.
    """
    if len(log_probs) == 0:
        raise ValueError("an answer has no token")
    return fsum(float(value) for value in log_probs) / len(log_probs)


def truth_ratio(right: Sequence[float], wrong: Sequence[Sequence[float]]) -> float:
    """Mean length-normalised probability of the wrong answers over that of the right one.

    Args:
        right: log-probabilities of the tokens of the right answer in other words (TOFU's paraphrase).
        wrong: those of each wrong answer of the same form.

    Returns:
        0 and up. Below 1 the model finds the right answer likelier; around 1 it cannot tell them apart, as one that
        never learned them. The mean is that of the paper's equation; its code takes the mean of the logarithms.
        Infinite where the right answer is so unlikely that no number can say it.

    Raises:
        ValueError: no wrong answer, or an answer without a token.

    Source: TOFU (Maini et al. 2024, arXiv 2401.06121), Section 2.2, "Truth Ratio".
    """
    if not wrong:
        raise ValueError("a truth ratio needs at least one wrong answer")
    means = [mean_log_prob(one) for one in wrong]
    top = max(means)
    logarithm = top + log(fsum(exp(one - top) for one in means) / len(means)) - mean_log_prob(right)
    if isnan(logarithm):
        return logarithm
    return exp(logarithm) if logarithm < _LARGEST else float("inf")


def ratio_of(item: Item) -> float | Score:
    """The truth ratio of an item's options, or why it has none."""
    options, place = item.alternative_log_probs, item.answer_index
    if options is None or place is None or len(options) < 2:
        return Score.unscored("the question has no wrong answers to compare with")
    if any(len(one) == 0 for one in options):
        return Score.unscored("an alternative answer has no token")
    wrong = [one for number, one in enumerate(options) if number != place]
    return truth_ratio(options[place], wrong)


def _score(items: Sequence[Item], tools: Tools) -> list[Score]:
    found = (ratio_of(item) for item in items)
    return [one if isinstance(one, Score) else Score(one) for one in found]


METRIC = Metric(
    name="truth_ratio",
    title="Truth ratio",
    needs=("alternative_log_probs",),
    meaning="0 and up, below 1 = finds the right answer likelier than wrong ones, higher = cannot tell them apart",
    source="TOFU (arXiv 2401.06121), Section 2.2",
    score=_score,
    item_by_item=True,
)
