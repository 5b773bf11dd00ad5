"""MedForget's accuracies and Gen Score as computed by its published code.

The paper differs from its code: it scores cloze by "exact string matching" and classification by the most probable
option (Section 4.1), while the code tests whether a generated answer has a ROUGE-L of 1.

Source: https://github.com/fengli-wu/MedForget, ``eval.py`` and ``scripts/analyze_eval_results.py``.
"""

from __future__ import annotations

from medunlearn.metrics.judged import GEN_SCORE, NOT_JUDGED, ROUGE_SHARE, score_gen
from medunlearn.metrics.measure import SHARE, Item, Measure, PerItem, Score
from medunlearn.metrics.text import OTHER_SCRIPT, rouge_l_f, why_unread

CODE = "MedForget's code"


def _score_match(item: Item) -> Score:
    if why_unread(item.texts[1]) == OTHER_SCRIPT:
        return Score.unscored(OTHER_SCRIPT)
    return Score(float(rouge_l_f(*item.texts) == 1.0))


MATCH_BY_ROUGE = Measure(
    name="exact_match.rouge_l",
    title=f"Exact match, ROUGE-L = 1 ({CODE})",
    needs=("response",),
    meaning="0 or 1, 1 = the response is the reference's stemmed words; 0 for a reference of no word",
    source="MedForget's code, eval.py; on classification: of the generated answer",
    score=PerItem(_score_match),
    item_by_item=True,
    variant=CODE,
    range=SHARE,
    direction="higher",
)


def _score_failed_as_zero(item: Item) -> Score:
    judgement = item.judgement
    if judgement is None or judgement.rating is not None or judgement.reason == NOT_JUDGED:
        return score_gen(item)
    return Score(100 * ROUGE_SHARE * rouge_l_f(*item.texts))


GEN_SCORE_FAILED_ZERO = Measure(
    name="gen_score.failed_zero",
    title="Gen Score, failed judge 0 (MedForget's eval.py)",
    needs=GEN_SCORE.needs,
    meaning="0-100 percent, higher = truer and closer to the reference; factuality is 0 where judges failed",
    source="MedForget's code, eval.py (save_results); its analyze_eval_results.py leaves failed answers out",
    score=PerItem(_score_failed_as_zero),
    variant="MedForget's eval.py",
    range=(0.0, 100.0),
    direction="higher",
)
