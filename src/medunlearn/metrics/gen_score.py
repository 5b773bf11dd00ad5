"""Gen Score: three quarters factuality and one quarter ROUGE-L, in percent."""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import LCSseq

from medunlearn.metrics import factuality
from medunlearn.metrics.protocol import Item, Metric, Score, Tools
from medunlearn.metrics.rouge import NO_REFERENCE_TOKEN
from medunlearn.metrics.words import rouge_tokens

FACTUALITY, ROUGE = 0.75, 0.25


def rouge_l_f(response: str, reference: str) -> float:
    """Harmonic mean of ROUGE-L precision and recall, 0-1; 0 where either text has no token.

    MedForget's ROUGE-L reflects "both precision and recall" (Section 4.1), where AMNESIA's is recall alone. Equal
    to the ``fmeasure`` of rouge-score's ``rougeL`` with stemming.
    """
    said, wanted = rouge_tokens(response), rouge_tokens(reference)
    # 2PR / (P + R) with P = shared / said and R = shared / wanted.
    return 2 * LCSseq.similarity(said, wanted) / (len(said) + len(wanted)) if said and wanted else 0.0


def _score(items: Sequence[Item], tools: Tools) -> list[Score]:
    return [_score_one(item) for item in items]


def _score_one(item: Item) -> Score:
    factual = factuality.score_of(item)
    if factual.value is None:
        return factual
    if not rouge_tokens(item.reference):
        return Score.unscored(NO_REFERENCE_TOKEN)
    return Score(100 * (FACTUALITY * factual.value + ROUGE * rouge_l_f(item.response or "", item.reference)))


METRIC = Metric(
    name="gen_score",
    title="Gen Score",
    needs=("response", "judgement"),
    meaning="0-100 percent (7.5 at least), higher = the response is truer and closer to the reference's words",
    source="MedForget, Section 4.1",
    score=_score,
)
