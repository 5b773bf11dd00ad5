"""ROUGE-L recall, identical to the rouge-score package and fast enough for every response."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache

from rapidfuzz.distance import LCSseq

from medunlearn.metrics.protocol import Item, Metric, Score, Tools

_WORD = re.compile("[a-z0-9]+")
_SHORTEST_STEMMED = 4


def rouge_tokens(text: str) -> list[str]:
    """Lower-cased runs of a-z and 0-9, Porter-stemmed where longer than three characters.

    Everything else separates words, so an accented letter splits its word: the rouge-score package's rule,
    kept so that numbers agree with published ones.
    """
    words = _WORD.findall(text.lower())
    stems = (_stem(word) if len(word) >= _SHORTEST_STEMMED else word for word in words)
    return [stem for stem in stems if stem]


def rouge_l_recall(response: str, reference: str) -> float:
    """Length of the longest common subsequence of tokens over the number of reference tokens.

    Range 0-1, higher = more of the reference is in the response, in its order. 0 where either text has no
    token. Equal to ``RougeScorer(["rougeL"], use_stemmer=True)`` of rouge-score 0.1.2 to 1e-12.

    Source: Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries", Section 3.1; used by AMNESIA
    (Section 5.2, "Syntactic Overlap"), LUME and MedForget.
    """
    return _recall(rouge_tokens(response), rouge_tokens(reference))


def _recall(said: Sequence[str], wanted: Sequence[str]) -> float:
    return LCSseq.similarity(said, wanted) / len(wanted) if wanted else 0.0


def _score(items: Sequence[Item], tools: Tools) -> list[Score]:
    return [_score_one(item.response or "", item.reference) for item in items]


def _score_one(response: str, reference: str) -> Score:
    wanted = rouge_tokens(reference)
    if not wanted:
        return Score.unscored(NO_REFERENCE_TOKEN)
    return Score(_recall(rouge_tokens(response), wanted))


NO_REFERENCE_TOKEN = "the reference has no letter a-z or digit, so there is nothing to recall"


@lru_cache(maxsize=1 << 17)
def _stem(word: str) -> str:
    return _stemmer()(word)


@cache
def _stemmer() -> Callable[[str], str]:
    # nltk imports SciPy and scikit-learn where they are installed: over a second that only a score pays.
    from nltk.stem.porter import PorterStemmer

    stem: Callable[[str], str] = PorterStemmer().stem
    return stem


METRIC = Metric(
    name="rouge_l",
    title="ROUGE-L recall",
    needs=("response",),
    meaning="0-1, higher = the response repeats more of the reference, in order",
    source="Lin 2004, Section 3.1; AMNESIA, Section 5.2",
    score=_score,
)
