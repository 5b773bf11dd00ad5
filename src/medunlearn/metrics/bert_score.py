"""BERTScore: the response's and the reference's tokens find each other in context."""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.errors import MedunlearnError
from medunlearn.metrics.protocol import Item, Metric, Score, Tools

NO_TEXT = "response or reference has no token that counts"


def _score(items: Sequence[Item], tools: Tools) -> list[Score]:
    if tools.bert is None:
        raise MedunlearnError("bert_score needs an encoder: pass Tools(bert=...).")
    if not items:
        return []
    found = tools.bert.score([item.response or "" for item in items], [item.reference for item in items])
    return [Score.unscored(NO_TEXT) if one is None else Score(one.f1) for one in found]


METRIC = Metric(
    name="bert_score",
    title="BERTScore",
    needs=("response", "bert"),
    meaning="-1 to 1, in practice 0.3-1; higher = the response's tokens are more like the reference's in context",
    source="Zhang et al. 2020 (arXiv 1904.09675), Section 3",
    score=_score,
)
