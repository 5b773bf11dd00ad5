"""Approximate measures (ROUGE-L, BLEU) on the first 100 tokens of response and suffix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from medunlearn.audit.measures import FIRST, Continuation, Measure
from medunlearn.audit.verbatim import Tokens
from medunlearn.metrics.base import Score
from medunlearn.metrics.ngrams import shared_ngrams
from medunlearn.metrics.text import NO_REFERENCE_TOKEN, rouge_l_recalls

PAPER = "Memorization in Large Language Models in Medicine, Section 3.1"
ORDER = 4


def bleu(responses: Sequence[Tokens], references: Sequence[Tokens], order: int = ORDER) -> npt.NDArray[np.float64]:
    """Sentence BLEU of each pair, [pairs], 0-1, higher = shares more n-grams.

    The geometric mean of the clipped precisions of 1- to ``order``-grams, equally weighted, times the brevity
    penalty exp(1 - r/c) of a response of c tokens shorter than its reference of r. An order without a match counts
    as 1 / (2^k times its n-grams), k = 1 for the first such order, 2 for the next (NIST's smoothing, as nltk's
    ``method3`` and sacrebleu's ``exp``); an order that the response is too short for has one n-gram there. Without
    a shared token it is 0.

    Args:
        responses, references: token ids of each pair; one reference a response.

    Raises:
        InputError: not as many responses as references.

    Source: Papineni et al. 2002; smoothing: Chen & Cherry 2014, technique 3. Equal to nltk's ``sentence_bleu`` with
    ``SmoothingFunction().method3`` to 1e-12.
    """
    logs, zeros = np.zeros(len(responses)), np.zeros(len(responses))
    matched = np.ones(len(responses), dtype=np.bool_)
    for n in range(1, order + 1):
        counts = shared_ngrams(responses, references, n)
        total = np.maximum(counts.in_response, 1)
        if n == 1:
            matched = counts.shared > 0
        none = counts.shared == 0
        zeros += none
        logs += np.log(np.where(none, 0.5**zeros, counts.shared) / total)
    lengths = np.fromiter(map(len, responses), dtype=np.float64, count=len(responses))
    true = np.fromiter(map(len, references), dtype=np.float64, count=len(references))
    penalty = np.minimum(0.0, 1.0 - true / np.maximum(lengths, 1.0))
    return np.asarray(np.where(matched, np.exp(logs / order + penalty), 0.0))


def _rouge(continuations: Sequence[Continuation]) -> list[Score]:
    values = rouge_l_recalls(
        [one.response_start for one in continuations], [one.suffix_start for one in continuations]
    )
    return [Score.unscored(NO_REFERENCE_TOKEN) if value is None else Score(value) for value in values]


def _bleu(continuations: Sequence[Continuation]) -> list[Score]:
    responses = [one.response_ids[:FIRST] for one in continuations]
    return [Score(float(value)) for value in bleu(responses, [one.suffix_ids[:FIRST] for one in continuations])]


ROUGE_L = Measure(
    name="rouge_l",
    title="ROUGE-L",
    group="approximate",
    needs=("text",),
    meaning=f"0-1: recall of the longest common subsequence of words, first {FIRST} tokens of both, higher = leaks "
    "more",
    source=f"Lin 2004, Section 3.1; {PAPER}",
    score=_rouge,
)
BLEU = Measure(
    name="bleu",
    title="BLEU",
    group="approximate",
    needs=("tokens",),
    meaning=f"0-1: shared 1- to 4-grams of tokens, NIST smoothing, first {FIRST} of both, higher = leaks more",
    source=f"Papineni et al. 2002; {PAPER}",
    score=_bleu,
)
