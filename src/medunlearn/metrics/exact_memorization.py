"""Exact memorization: how many answer tokens the model puts first, teacher-forced."""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.metrics.protocol import Item, Metric, Score, Tools


def exact_memorization(answer_hits: Sequence[bool]) -> float | None:
    """Share of answer tokens whose arg-max prediction is right, position by position.

    Args:
        answer_hits: one truth value a token of the reference answer, the EOS that ends it last, shape
            [tokens + 1]. The EOS is left out: every model that ends its answers would get it free.

    Returns:
        0-1, higher = remembers more; None for an answer of nothing but EOS.

    Source: AMNESIA, Section 5.2 ("position-aligned token Exact Memorization"), after OpenUnlearning (Dorna et al.).
    """
    hits = [bool(hit) for hit in answer_hits[:-1]]
    return sum(hits) / len(hits) if hits else None


def _score(items: Sequence[Item], tools: Tools) -> list[Score]:
    return [_score_one(item.answer_hits or ()) for item in items]


def _score_one(answer_hits: Sequence[bool]) -> Score:
    value = exact_memorization(answer_hits)
    if value is None:
        return Score.unscored("the reference answer has no token before its EOS")
    return Score(value)


METRIC = Metric(
    name="em",
    title="Exact memorization",
    needs=("answer_hits",),
    meaning="0-1, higher = the model puts more of the answer's tokens first",
    source="AMNESIA, Section 5.2; OpenUnlearning (Dorna et al. 2025)",
    score=_score,
    item_by_item=True,
)
