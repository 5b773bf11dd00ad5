"""Counts of n-grams of tokens, for many texts at once.

Notation: a text is a sequence of token ids; an n-gram is n consecutive tokens. All counts are exact: n-grams are
numbered, not hashed.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError

Tokens = Sequence[int] | npt.NDArray[np.integer]
Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

# Texts that are counted together: more would leave the cache of the processor, fewer would cost calls.
_AT_ONCE = 16
_LARGEST = 2**62
_LARGEST_TABLE = 2**20


@dataclass(frozen=True, slots=True)
class SharedNgrams:
    """N-gram counts of pairs of texts, each of shape [pairs].

    Attributes:
        shared: n-grams in both, each counted as often as in the text that has fewer.
        in_response, in_reference: all n-grams of one side, the denominators of precision and recall.
    """

    shared: Integers
    in_response: Integers
    in_reference: Integers


def token_entropies(texts: Sequence[Tokens]) -> Reals:
    """:func:`medunlearn.metrics.text.token_entropy` of each text, shape [texts], 0-1.

    Exactly 0 if all tokens are equal or there is at most one token, exactly 1 if no token repeats.
    """
    parts = [_entropies(texts[start : start + _AT_ONCE]) for start in range(0, len(texts), _AT_ONCE)]
    return np.concatenate([np.zeros(0), *parts])


def shared_ngrams(responses: Sequence[Tokens], references: Sequence[Tokens], n: int) -> SharedNgrams:
    """N-grams that a response and its reference share, clipped as in BLEU and ROUGE-N.

    Raises:
        InputError: n below 1, or not as many responses as references.

    Source: Papineni et al. 2002, "BLEU", Section 2.1 (clipped counts); Lin 2004, Section 2 (ROUGE-N).
    """
    if len(responses) != len(references):
        raise InputError(f"{len(responses)} responses for {len(references)} references: give one for each.")
    _refuse_order(n)
    parts = [
        _shared_counts(responses[start : start + _AT_ONCE], references[start : start + _AT_ONCE], n)
        for start in range(0, len(responses), _AT_ONCE)
    ]
    counts = np.concatenate([np.zeros((3, 0), dtype=np.int64), *parts], axis=1)
    return SharedNgrams(counts[0], counts[1], counts[2])


def _entropies(texts: Sequence[Tokens]) -> Reals:
    rows, ids, lengths = _flat(texts)
    least = ids.min(initial=0)
    tokens, bound = ids - least, int(ids.max(initial=0) - least) + 1
    if bound * len(texts) > _LARGEST:
        tokens, bound = _number_values(tokens)
    keys, counts = _count_keys(rows * bound + tokens)
    groups = keys // bound
    different = np.bincount(groups, minlength=len(texts))
    # -sum (c/n) log2(c/n) = log2 n - (1/n) sum c log2 c
    repeated = np.bincount(groups, weights=counts * np.log2(counts), minlength=len(texts))
    n = np.maximum(lengths, 2)
    share = 1.0 - repeated / (n * np.log2(n))
    return np.where(different <= 1, 0.0, np.clip(share, 0.0, 1.0))


def _shared_counts(responses: Sequence[Tokens], references: Sequence[Tokens], n: int) -> Integers:
    """The three counts of :class:`SharedNgrams`, shape [3, pairs]."""
    pairs = len(responses)
    rows, grams, bound = _ngrams([*responses, *references], n)
    keys, border = (rows % pairs) * bound + grams, np.searchsorted(rows, pairs)
    response_keys, response_times = _count_keys(keys[:border])
    reference_keys, reference_times = _count_keys(keys[border:])
    both = np.sort(np.concatenate((response_keys, reference_keys)))
    common = both[1:][both[1:] == both[:-1]]
    times = np.minimum(
        response_times[np.searchsorted(response_keys, common)],
        reference_times[np.searchsorted(reference_keys, common)],
    )
    shared = np.bincount(common // bound, weights=times, minlength=pairs).astype(np.int64)
    totals = np.bincount(rows, minlength=2 * pairs)
    return np.stack([shared, totals[:pairs], totals[pairs:]])


def _ngrams(texts: Sequence[Tokens], n: int) -> tuple[Integers, Integers, int]:
    """The text of each n-gram; its number, equal for equal n-grams; and a bound above all numbers."""
    rows, ids, _ = _flat(texts)
    tokens, different = _number_values(ids)
    grams, bound = tokens, different
    for later in range(1, n):
        if bound * different * len(texts) > _LARGEST:
            grams, bound = _number_values(grams)
        # The number of the n-gram so far beside the number of the next token.
        grams, bound = grams[: len(tokens) - later] * different + tokens[later:], bound * different
    within = rows[: len(grams)] == rows[len(rows) - len(grams) :]
    return rows[: len(grams)][within], grams[within], bound


def _count_keys(keys: Integers) -> tuple[Integers, Integers]:
    """The distinct keys in order, with their counts.

    Sorting plain numbers is several times as fast in numpy as an argsort.
    """
    keys = np.sort(keys)
    starts = np.flatnonzero(np.concatenate((np.ones(min(1, len(keys)), dtype=np.bool_), keys[1:] != keys[:-1])))
    return keys[starts], np.diff(starts, append=len(keys))


def _number_values(values: Integers) -> tuple[Integers, int]:
    """Values numbered from 0, equal numbers for equal values, and the number of distinct values."""
    if not len(values):
        return values, 1
    least, span = values.min(), int(values.max()) - int(values.min()) + 1
    if span > _LARGEST_TABLE:
        different, numbers = np.unique(values, return_inverse=True)
        return numbers, len(different)
    there = np.zeros(span, dtype=np.bool_)
    there[values - least] = True
    number = np.cumsum(there)
    return number[values - least] - 1, int(number[-1])


def _flat(texts: Sequence[Tokens]) -> tuple[Integers, Integers, Integers]:
    """All tokens concatenated: the text of each, its id, and the lengths of the texts."""
    ids = [_ids(text) for text in texts]
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    line = np.concatenate(ids) if ids else np.zeros(0, dtype=np.int64)
    return np.repeat(np.arange(len(ids)), lengths), line.astype(np.int64), lengths


def _ids(text: Tokens) -> npt.NDArray[np.integer]:
    # Through an array of the standard library a list is read several times as fast as by numpy.
    return text if isinstance(text, np.ndarray) else np.frombuffer(array("q", text), dtype=np.int64)


def _refuse_order(n: int) -> None:
    if n < 1:
        raise InputError(f"n-grams of {n} tokens do not exist: n is at least 1.")
