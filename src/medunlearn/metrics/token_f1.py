"""Token F1: the overlap of two bags of words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from medunlearn.metrics.protocol import Item, Metric, Score, Tools

_WORD = re.compile(r"[^\W_]+")


def f1_tokens(text: str) -> list[str]:
    """Case-folded runs of letters and digits of any script; all else, underscores too, separates them.

    Not SQuAD's normalisation in two ways: articles (a, an, the) stay, because "a" may be a blood group or
    a vitamin here, and punctuation separates words where SQuAD deletes it ("x-ray" is two tokens). Nothing
    is stemmed.
    """
    return _WORD.findall(text.casefold())


def token_f1(response: str, reference: str) -> float:
    """Harmonic mean of precision and recall of the response's tokens, counted with multiplicity.

    Range 0-1, higher = more alike. 0 where no token is shared or either text has none.

    Source: Rajpurkar et al. 2016 (SQuAD), Section 6.1, with the normalisation of :func:`f1_tokens`.
    """
    return _f1(f1_tokens(response), f1_tokens(reference))


def _f1(said: Sequence[str], wanted: Sequence[str]) -> float:
    counts = Counter(wanted)
    shared = sum(min(times, counts[word]) for word, times in Counter(said).items() if word in counts)
    return 2.0 * shared / (len(said) + len(wanted)) if shared else 0.0


def _score(items: Sequence[Item], tools: Tools) -> list[Score]:
    return [_score_one(item.response or "", item.reference) for item in items]


def _score_one(response: str, reference: str) -> Score:
    wanted = f1_tokens(reference)
    if not wanted:
        return Score.unscored("the reference has no letter or digit to compare with")
    return Score(_f1(f1_tokens(response), wanted))


METRIC = Metric(
    name="token_f1",
    title="Token F1",
    needs=("response",),
    meaning="0-1, higher = the response shares more words with the reference",
    source="Rajpurkar et al. 2016 (SQuAD), Section 6.1",
    score=_score,
    item_by_item=True,
)
