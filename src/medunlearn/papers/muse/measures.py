"""ROUGE-L as computed by MUSE's code: unstemmed words, and answers cut where a model asks another question."""

from __future__ import annotations

import re
from functools import partial

from medunlearn.metrics.measure import SHARE, Item, Measure, PerItem, Score
from medunlearn.metrics.text import rouge_l_f, why_unread

_NEXT_QUESTION = re.compile("\n\n|\nQuestion|Question:")
_SOURCE = "MUSE (arXiv 2407.06460), Section 3; swj0419/muse_bench"


def muse_rouge_l(response: str, reference: str, *, cut: bool) -> float:
    """F1 of the longest common subsequence of unstemmed words, 0-1.

    Args:
        cut: cut the response at a blank line or at another question, since a model with in-context examples tends
            to continue them.
    """
    return rouge_l_f(_NEXT_QUESTION.split(response)[0] if cut else response, reference, stemmed=False)


def _score(item: Item, *, cut: bool) -> Score:
    response, reference = item.texts
    if reason := why_unread(reference):
        return Score.unscored(reason)
    return Score(muse_rouge_l(response, reference, cut=cut))


def _measure(name: str, of: str, meaning: str, cut: bool) -> Measure:
    return Measure(
        name=f"rouge_l_f.{name}",
        title=f"ROUGE-L F1 ({of})",
        needs=("response",),
        meaning=f"0-1, higher = {meaning}",
        source=_SOURCE,
        score=PerItem(partial(_score, cut=cut)),
        item_by_item=True,
        range=SHARE,
        direction="higher",
        variant="MUSE's code",
    )


VERBMEM = _measure("verbmem", "MUSE's VerbMem", "goes on more as the document does; words unstemmed", cut=False)
KNOWMEM = _measure(
    "knowmem", "MUSE's KnowMem", "answers more as the reference does; unstemmed, cut at the next question", cut=True
)
