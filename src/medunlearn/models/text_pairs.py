"""Pairs of texts under a model: each different pair scored once, each different text encoded once.

A model under audit says the same thing again and again, and every sample of a probe is compared with the same
original. What a text's encoding is needed for is done before the encoding is let go, so that memory does not grow
with the number of pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from torch import Tensor

from medunlearn.errors import InputError

Pair = tuple[str, str]
States = Mapping[str, Tensor]

CHUNK = 256
"""Pairs whose encodings are held at the same time."""


def distinct_pairs(first: Sequence[str], second: Sequence[str]) -> Counter[Pair]:
    """Count of each distinct pair, in order of first occurrence.

    Raises:
        InputError: one list is longer than the other.
    """
    if len(first) != len(second):
        raise InputError(f"{len(first)} responses and {len(second)} references: give one reference a response.")
    return Counter(zip(first, second, strict=True))


def with_states(
    pairs: Sequence[Pair],
    texts_of: Callable[[Pair], Sequence[str]],
    encode: Callable[[Sequence[str]], dict[str, Tensor]],
    *,
    size: int = CHUNK,
) -> Iterator[tuple[Sequence[Pair], States]]:
    """Pairs, ``size`` at a time, with the encodings of their texts.

    Args:
        pairs: those of like length, and those that share a text, best side by side.
        texts_of: which texts of a pair are encoded.
        encode: different texts -> the encoding of each; asked for each text once.
    """
    chunks = [pairs[start : start + size] for start in range(0, len(pairs), size)]
    last = {text: number for number, chunk in enumerate(chunks) for pair in chunk for text in texts_of(pair)}
    states: dict[str, Tensor] = {}
    for number, chunk in enumerate(chunks):
        fresh = dict.fromkeys(text for pair in chunk for text in texts_of(pair) if text not in states)
        states |= encode(list(fresh))
        yield chunk, states
        for text in [text for text in states if last[text] == number]:
            del states[text]
