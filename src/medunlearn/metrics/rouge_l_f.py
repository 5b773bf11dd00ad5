"""ROUGE-L F-measure: what MUSE measures verbatim and knowledge memorization by."""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.metrics.gen_score import rouge_l_f
from medunlearn.metrics.protocol import Item, Metric, Score, Tools
from medunlearn.metrics.rouge import NO_REFERENCE_TOKEN
from medunlearn.metrics.words import rouge_tokens


def _score(items: Sequence[Item], tools: Tools) -> list[Score]:
    return [_score_one(item.response or "", item.reference) for item in items]


def _score_one(response: str, reference: str) -> Score:
    if not rouge_tokens(reference):
        return Score.unscored(NO_REFERENCE_TOKEN)
    return Score(rouge_l_f(response, reference))


METRIC = Metric(
    name="rouge_l_f",
    title="ROUGE-L F1",
    needs=("response",),
    meaning="0-1, higher = the response shares more with the reference and says less beside it",
    source="Lin 2004, Section 3.1; MUSE (arXiv 2407.06460), Section 3",
    score=_score,
    item_by_item=True,
)
