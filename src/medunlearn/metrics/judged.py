"""Measures from stored judgements: factuality and Gen Score. No model or server is called."""

from __future__ import annotations

from medunlearn.metrics.measure import Item, Measure, PerItem, Score
from medunlearn.metrics.text import rouge_l_f, why_unread

FACTUALITY_SHARE, ROUGE_SHARE = 0.75, 0.25
LOWEST, HIGHEST = 1.0, 10.0
NOT_JUDGED = "it was not among the responses that were judged"
"""Reason of a response that no judge was asked about, where others were."""


def scaled(rating: float) -> float | None:
    """Convert a rating of 1-10 to a share: rating / 10, so 0.1-1. None for an invalid rating.

    The paper's scale has no 0: its lowest factuality, 10.00 of 100 (MedForget, Table 5), is a rating of 1.
    """
    return rating / HIGHEST if LOWEST <= rating <= HIGHEST else None


def _score_factuality(item: Item) -> Score:
    """One item's factuality; unscored, with the judges' reason, if they gave no rating."""
    if item.judgement is None or item.judgement.rating is None:
        reason = None if item.judgement is None else item.judgement.reason
        return Score.unscored(reason or "the judges gave no rating and no reason")
    value = scaled(item.judgement.rating)
    if value is None:
        return Score.unscored(f"a rating of {item.judgement.rating} is outside 1 to 10")
    return Score(value)


FACTUALITY = Measure(
    name="factuality",
    title="Factuality",
    needs=("response", "judgement"),
    meaning="0.1-1, higher = judges find the response closer to the reference in fact",
    source="MedForget, Section 4.1",
    score=PerItem(_score_factuality),
    range=(LOWEST / HIGHEST, 1.0),
    direction="higher",
)


def score_gen(item: Item) -> Score:
    """One item's Gen Score in percent; unscored if it has no factuality."""
    factual = _score_factuality(item)
    if factual.value is None:
        return factual
    if reason := why_unread(item.texts[1]):
        return Score.unscored(reason)
    return Score(100 * (FACTUALITY_SHARE * factual.value + ROUGE_SHARE * rouge_l_f(*item.texts)))


GEN_SCORE = Measure(
    name="gen_score",
    title="Gen Score",
    needs=("response", "judgement"),
    meaning="0-100 percent (7.5 at least), higher = the response is truer and closer to the reference's words",
    source="MedForget, Section 4.1",
    score=PerItem(score_gen),
    range=(100 * FACTUALITY_SHARE * LOWEST / HIGHEST, 100.0),
    direction="higher",
)
