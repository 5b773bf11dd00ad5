"""Measures of a response's words: ROUGE-L, exact match, token F1, token entropy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from math import log2

import numpy as np
from rapidfuzz.distance import LCSseq
from rapidfuzz.process import cpdist

from medunlearn.metrics.measure import FIRST, SHARE, Item, Measure, PerItem, Score, Tools
from medunlearn.metrics.ngrams import token_entropies
from medunlearn.metrics.words import StemNumbers, plain_words, rouge_tokens, stem_sequences, unicode_sequences

NO_REFERENCE_TOKEN = "the reference has no letter a-z or digit, so there is nothing to recall"
OTHER_SCRIPT = "under half of the reference's letters are a-z, all that the published ROUGE reads: rouge_l_unicode"
NO_LETTER = "the reference has no letter or digit, so there is nothing to recall"
# Small enough for the cache of the processor, large enough to meet the same words often.
_AT_ONCE = 1 << 10


def rouge_l_recall(response: str, reference: str) -> float:
    """Length of the longest common subsequence of tokens over the number of reference tokens.

    Range 0-1, higher = more of the reference is in the response, in its order. 0 if either text has no
    token. Equal to ``RougeScorer(["rougeL"], use_stemmer=True)`` of rouge-score 0.1.2 to 1e-12.

    Source: Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries", Section 3.1; used by AMNESIA
    (Section 5.2, "Syntactic Overlap"), LUME and MedForget.
    """
    response_tokens, reference_tokens = rouge_tokens(response), rouge_tokens(reference)
    shared = LCSseq.similarity(response_tokens, reference_tokens)
    return shared / len(reference_tokens) if reference_tokens else 0.0


def why_unread(reference: str) -> str | None:
    """Why the published ROUGE cannot score a reference: it has no token, or mostly letters that are not read.

    A wrong answer in Russian or Chinese would have the recall of its digits, often 1. Letters are those of any
    script; digits count as letters a-z do.
    """
    if not rouge_tokens(reference):
        return NO_REFERENCE_TOKEN
    if reference.isascii():
        return None
    letters = [letter for letter in reference.lower() if letter.isalnum()]
    return OTHER_SCRIPT if 2 * sum(map(str.isascii, letters)) < len(letters) else None


def rouge_l_recalls(responses: Sequence[str], references: Sequence[str]) -> list[float | None]:
    """:func:`rouge_l_recall` of many pairs, many times faster per pair; None as :func:`why_unread` says.

    Raises:
        ValueError: not as many responses as references.
    """
    recalls = _batched_recalls(responses, references, stem_sequences)
    return [
        value if reference.isascii() or why_unread(reference) is None else None
        for value, reference in zip(recalls, references, strict=True)
    ]


def rouge_l_unicode_recalls(responses: Sequence[str], references: Sequence[str]) -> list[float | None]:
    """ROUGE-L recall of many pairs, with words of every script (:func:`~.words.unicode_tokens`).

    Equal to :func:`rouge_l_recalls` for ASCII texts; None if the reference has no letter and no digit.

    Raises:
        ValueError: not as many responses as references.
    """
    return _batched_recalls(responses, references, unicode_sequences)


Split = Callable[[Sequence[str], StemNumbers], list[Sequence[object]]]


def _batched_recalls(responses: Sequence[str], references: Sequence[str], split: Split) -> list[float | None]:
    if len(responses) != len(references):
        raise ValueError(f"{len(responses)} responses for {len(references)} references")
    recalls: list[float | None] = []
    numbers = StemNumbers()
    for start in range(0, len(responses), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        recalls += _recalls(split([*responses[part], *references[part]], numbers))
    return recalls


def _recalls(sequences: Sequence[Sequence[object]]) -> list[float | None]:
    """Recalls of as many responses as references, which follow them."""
    half = len(sequences) // 2
    ours, theirs = sequences[:half], sequences[half:]
    shared = cpdist(ours, theirs, scorer=LCSseq.similarity, dtype=np.int64).tolist()
    return [length / len(tokens) if tokens else None for length, tokens in zip(shared, theirs, strict=True)]


def text_columns(items: Sequence[Item]) -> tuple[list[str], list[str]]:
    """Responses and references as measures of text compare them."""
    texts = [item.texts for item in items]
    return [response for response, _ in texts], [reference for _, reference in texts]


def _score_recalls(items: Sequence[Item], tools: Tools) -> list[Score]:
    responses, references = text_columns(items)
    values = rouge_l_recalls(responses, references)
    return [
        Score.unscored(why_unread(reference) or NO_REFERENCE_TOKEN) if value is None else Score(value)
        for value, reference in zip(values, references, strict=True)
    ]


def _score_unicode_recalls(items: Sequence[Item], tools: Tools) -> list[Score]:
    values = rouge_l_unicode_recalls(*text_columns(items))
    return [Score.unscored(NO_LETTER) if value is None else Score(value) for value in values]


ROUGE_L = Measure(
    name="rouge_l",
    title="ROUGE-L recall",
    needs=("response",),
    meaning="0-1, higher = the response repeats more of the reference, in order",
    source="Lin 2004, Section 3.1; AMNESIA, Section 5.2",
    score=_score_recalls,
    item_by_item=True,
    range=SHARE,
    direction="higher",
    reads=FIRST,
)


ROUGE_L_UNICODE = Measure(
    name="rouge_l_unicode",
    title="ROUGE-L recall, every script",
    needs=("response",),
    meaning="0-1, higher = the response repeats more of the reference, in order; words of every script",
    source="Lin 2004, Section 3.1, with Unicode's letters; ours",
    score=_score_unicode_recalls,
    item_by_item=True,
    range=SHARE,
    direction="higher",
)


def rouge_l_f(response: str, reference: str, *, stemmed: bool = True) -> float:
    """Harmonic mean of ROUGE-L precision and recall, 0-1; 0 if either text has no token.

    MedForget's ROUGE-L reflects "both precision and recall" (Section 4.1), while AMNESIA's is recall only. Equal
    to the ``fmeasure`` of rouge-score's ``rougeL``, with or without stemming.
    """
    words = rouge_tokens if stemmed else plain_words
    response_tokens, reference_tokens = words(response), words(reference)
    # 2PR / (P + R), with P = shared / response and R = shared / reference.
    shared = LCSseq.similarity(response_tokens, reference_tokens)
    return 2 * shared / (len(response_tokens) + len(reference_tokens)) if shared else 0.0


def _score_rouge_l_f(item: Item) -> Score:
    if reason := why_unread(item.texts[1]):
        return Score.unscored(reason)
    return Score(rouge_l_f(*item.texts))


ROUGE_L_F = Measure(
    name="rouge_l_f",
    title="ROUGE-L F1",
    needs=("response",),
    meaning="0-1, higher = the response shares more with the reference and says less beside it",
    source="Lin 2004, Section 3.1; MUSE (arXiv 2407.06460), Section 3",
    score=PerItem(_score_rouge_l_f),
    item_by_item=True,
    range=SHARE,
    direction="higher",
)


def exact_match(response: str, reference: str) -> bool:
    """True if the two texts are equal, ignoring case and white space at the ends.

    Uses Unicode case folding (``ß`` = ``SS``). Any other difference is a miss, as in the paper: a final full stop,
    an article, two spaces for one, or "The answer is" before the answer.

    Source: LUME, the evaluation of question-answer prompts ("case insensitive exact match").
    """
    return response.strip().casefold() == reference.strip().casefold()


def _score_exact_match(item: Item) -> Score:
    if not item.texts[1].strip():
        # Otherwise silence would count as the right answer.
        return Score.unscored("the reference is empty")
    return Score(float(exact_match(*item.texts)))


EXACT_MATCH = Measure(
    name="exact_match",
    title="Exact match",
    needs=("response",),
    meaning="0 or 1, 1 = the response is the reference but for case",
    source="LUME, evaluation of knowledge",
    score=PerItem(_score_exact_match),
    item_by_item=True,
    range=SHARE,
    direction="higher",
)


_WORD = re.compile(r"[^\W_]+")


def f1_tokens(text: str) -> list[str]:
    """Case-folded runs of letters and digits of any script; everything else, including underscores, separates them.

    Not SQuAD's normalisation in two ways: articles (a, an, the) stay, because "a" may be a blood group or
    a vitamin here, and punctuation separates words where SQuAD deletes it ("x-ray" is two tokens). Nothing
    is stemmed.
    """
    return _WORD.findall(text.casefold())


def token_f1(response: str, reference: str) -> float:
    """Harmonic mean of precision and recall of the response's tokens, counted with multiplicity.

    Range 0-1, higher = more alike. 0 if no token is shared or either text has none.

    Source: Rajpurkar et al. 2016 (SQuAD), Section 6.1, with the normalisation of :func:`f1_tokens`.
    """
    return _f1(f1_tokens(response), f1_tokens(reference))


def _f1(response_tokens: Sequence[str], reference_tokens: Sequence[str]) -> float:
    counts = Counter(reference_tokens)
    shared = sum(min(times, counts[word]) for word, times in Counter(response_tokens).items() if word in counts)
    return 2.0 * shared / (len(response_tokens) + len(reference_tokens)) if shared else 0.0


def _score_token_f1(item: Item) -> Score:
    response_tokens, reference_tokens = map(f1_tokens, item.texts)
    if not reference_tokens:
        return Score.unscored("the reference has no letter or digit to compare with")
    return Score(_f1(response_tokens, reference_tokens))


TOKEN_F1 = Measure(
    name="token_f1",
    title="Token F1",
    needs=("response",),
    meaning="0-1, higher = the response shares more words with the reference",
    source="Rajpurkar et al. 2016 (SQuAD), Section 6.1",
    score=PerItem(_score_token_f1),
    item_by_item=True,
    range=SHARE,
    direction="higher",
)


def token_entropy(tokens: Sequence[Hashable]) -> float:
    """Unigram entropy of a response's tokens in bits, over the maximum for this number of tokens.

    With c_t the count of token t among n: ``-sum_t (c_t / n) log2(c_t / n) / log2(n)``. Exactly 0 if all tokens are
    equal or there is at most one; 1 if no token repeats.

    Range 0-1, higher = more varied.

    Source: AMNESIA, Section 5.2 ("normalized unigram entropy"), after R-TOFU (Yoon et al. 2025) and
    Yuan et al. (arXiv 2410.08109).
    """
    counts = Counter(tokens)
    n = len(tokens)
    if len(counts) <= 1:
        return 0.0
    bits = -sum(count / n * log2(count / n) for count in counts.values())
    # Rounding may step over 1 if no token repeats.
    return min(1.0, bits / log2(n))


def _score_entropies(items: Sequence[Item], tools: Tools) -> list[Score]:
    return [Score(value) for value in token_entropies([item.response_tokens or () for item in items]).tolist()]


TOKEN_ENTROPY = Measure(
    name="te",
    title="Token entropy",
    needs=("response_tokens",),
    meaning="0-1, higher = more varied; 0 = one token repeated, one token alone, or no text",
    source="AMNESIA, Section 5.2; R-TOFU (Yoon et al. 2025)",
    score=_score_entropies,
    item_by_item=True,
    range=SHARE,
    direction="neither",
)


def is_degenerate(tokens: Sequence[Hashable]) -> bool:
    """True if a response is empty, or one token repeated; a single token is not degenerate."""
    return len(tokens) != 1 and len(set(tokens)) <= 1


def _score_degenerate(item: Item) -> Score:
    return Score(float(is_degenerate(item.response_tokens or ())))


DEGENERATE = Measure(
    name="degenerate",
    title="Degenerate responses",
    needs=("response_tokens",),
    meaning="0-1, share of responses that are empty or repeat one token; DS also counts those of one token",
    source="ours, beside AMNESIA's equation 4",
    score=PerItem(_score_degenerate),
    item_by_item=True,
    range=SHARE,
    direction="neither",
)
"""The token entropy of a response of one token is 0 by its length, not by degeneration."""
