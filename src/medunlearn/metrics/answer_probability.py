"""Answer probability: how likely the model finds the reference answer."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, fsum

from medunlearn.metrics.protocol import Item, Metric, Score, Tools

# Log-softmax in half precision may step over 0 by this much; more is not a log-probability.
_ROUNDING = 1e-2


def answer_probability(log_probs: Sequence[float]) -> float:
    """Geometric mean of the answer tokens' probabilities, P(answer | question) ** (1 / tokens).

    Args:
        log_probs: natural-log probability of each token of the reference answer, teacher-forced, its EOS
            last and counted, shape [tokens + 1].

    Returns:
        0-1, higher = remembers more. NaN where a log-probability is NaN.

    Raises:
        ValueError: no token.

    Source: TOFU (Maini et al. 2024, arXiv 2401.06121), Section 2.2, "Probability".
    """
    if len(log_probs) == 0:
        raise ValueError("the answer has no token")
    mean = fsum(float(value) for value in log_probs) / len(log_probs)
    # Not min(1, exp(mean)): min would turn a NaN into a perfect 1.
    return 1.0 if mean > 0.0 else exp(mean)


def _score(items: Sequence[Item], tools: Tools) -> list[Score]:
    return [_score_one(item.answer_log_probs) for item in items]


def _score_one(log_probs: Sequence[float] | None) -> Score:
    if log_probs is None or len(log_probs) == 0:
        return Score.unscored("the reference answer has no token")
    above = next((value for value in log_probs if value > _ROUNDING), None)
    if above is not None:
        return Score.unscored(f"a log-probability is above 0 ({above:.4g})")
    return Score(answer_probability(log_probs))


METRIC = Metric(
    name="answer_probability",
    title="Answer probability",
    needs=("answer_log_probs",),
    meaning="0-1, higher = the model finds the reference answer likelier",
    source="TOFU (arXiv 2401.06121), Section 2.2",
    score=_score,
    item_by_item=True,
)
