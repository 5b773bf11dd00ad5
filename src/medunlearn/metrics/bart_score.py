"""BARTScore: how likely the reference is, given the response."""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.errors import MedunlearnError
from medunlearn.metrics.protocol import Item, Metric, Score, Tools

NO_TEXT = "response or reference is empty"


def _score(items: Sequence[Item], tools: Tools) -> list[Score]:
    if tools.bart is None:
        raise MedunlearnError("bart_score needs a sequence-to-sequence model: pass Tools(bart=...).")
    if not items:
        return []
    found = tools.bart.score([item.response or "" for item in items], [item.reference for item in items])
    return [Score.unscored(NO_TEXT) if one is None else Score(one) for one in found]


METRIC = Metric(
    name="bart_score",
    title="BARTScore",
    needs=("response", "bart"),
    meaning="at most 0, mean log-probability of a token; higher = the reference is likelier given the response",
    source="Yuan et al. 2021 (arXiv 2106.11520), equation 2 (recall)",
    score=_score,
)
