"""Factuality: how true a judge found a response. Read from stored judgements; no model or network is asked."""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.metrics.protocol import Item, Metric, Score, Tools

LOWEST, HIGHEST = 1.0, 10.0


def scaled(rating: float) -> float | None:
    """A rating of 1-10 as a share: rating / 10, so 0.1-1. None for what is no rating.

    The paper's scale has no 0: its lowest factuality, 10.00 of 100 (MedForget, Table 5), is a rating of 1.
    """
    return rating / HIGHEST if LOWEST <= rating <= HIGHEST else None


def score_of(item: Item) -> Score:
    """One item's factuality; unscored, with the judges' reason, where they gave no rating."""
    if item.judgement is None or item.judgement.rating is None:
        reason = None if item.judgement is None else item.judgement.reason
        return Score.unscored(reason or "the judges gave no rating and no reason")
    value = scaled(item.judgement.rating)
    if value is None:
        return Score.unscored(f"a rating of {item.judgement.rating} is outside 1 to 10")
    return Score(value)


def _score(items: Sequence[Item], tools: Tools) -> list[Score]:
    return [score_of(item) for item in items]


METRIC = Metric(
    name="factuality",
    title="Factuality",
    needs=("response", "judgement"),
    meaning="0.1-1, higher = judges find the response closer to the reference in fact",
    source="MedForget, Section 4.1",
    score=_score,
)
