"""Exact match: the knowledge score of LUME."""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.metrics.protocol import Item, Metric, Score, Tools


def exact_match(response: str, reference: str) -> bool:
    """Whether the two texts are the same but for case and for white space at their ends.

    Case is folded as Unicode says (``ß`` = ``SS``). Nothing else is forgiven: a full stop at the end, an
    article, two spaces for one, or "The answer is" before the answer make a miss, as in the paper.

    Source: LUME, the evaluation of question-answer prompts ("case insensitive exact match").
    """
    return response.strip().casefold() == reference.strip().casefold()


def _score(items: Sequence[Item], tools: Tools) -> list[Score]:
    return [_score_one(item.response or "", item.reference) for item in items]


def _score_one(response: str, reference: str) -> Score:
    if not reference.strip():
        # Otherwise silence would count as the right answer.
        return Score.unscored("the reference is empty")
    return Score(float(exact_match(response, reference)))


METRIC = Metric(
    name="exact_match",
    title="Exact match",
    needs=("response",),
    meaning="0 or 1, 1 = the response is the reference but for case",
    source="LUME, evaluation of knowledge",
    score=_score,
    item_by_item=True,
)
