"""Token ids in forms that are searched fast, and a quick look at which pairs of texts can share a run at all."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError

Tokens = Sequence[int] | npt.NDArray[np.integer]
Ids = npt.NDArray[np.uint32]

_CHARACTERS = 0x110000
_BITS = 13
# Odd numbers without a pattern: what they are changes how often the quick look is in vain, never a result.
_FIRST, _SECOND = np.uint32(0x9E3779B1), np.uint32(0x85EBCA77)


def as_ids(many: Sequence[Tokens]) -> list[Ids]:
    """Each text's token ids as an array.

    Raises:
        InputError: a value that is no whole number from 0 to 1,114,111, the last character there is.
    """
    try:
        ids = [_checked(tokens) for tokens in many]
        line = np.concatenate(ids).astype(np.uint32) if ids else np.zeros(0, dtype=np.uint32)
        if line.max(initial=0) >= _CHARACTERS:
            raise OverflowError
    except (OverflowError, TypeError):
        raise InputError(f"token ids are whole numbers from 0 to {_CHARACTERS - 1:,}; one here is not.") from None
    return [line[start:end] for start, end in pairwise(accumulate(map(len, ids), initial=0))]


def as_text(ids: Ids) -> str:
    """Token ids as a string with one character a token, to be compared and searched, not to be read."""
    return ids.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


def may_share(responses: Sequence[Ids], suffixes: Sequence[Ids], length: int) -> npt.NDArray[np.bool_]:
    """False for pairs that surely share no run of ``length`` tokens, shape [pairs]; nearly so for the others.

    A run's pairs of neighbouring tokens all stand in the response. Each such pair of a response is a mark in a
    small table, where others may fall on it: that makes marks too many, so what is True has to be looked at.
    """
    pairs = len(responses)
    if length < 2 or not pairs:
        return np.ones(pairs, dtype=np.bool_)
    marks = np.zeros(pairs << _BITS, dtype=np.bool_)
    places, _ = _neighbours(responses)
    marks[places] = True
    places, ends = _neighbours(suffixes)
    marked = marks[places]
    # The last token of a text and the first of the next are no neighbours, so no run goes through there.
    marked[ends[(ends >= 0) & (ends < len(marked))]] = False
    gaps = np.flatnonzero(np.concatenate(([True], ~marked, [True])))
    starts = gaps[:-1][np.diff(gaps) >= length]
    found = np.zeros(pairs, dtype=np.bool_)
    found[places[starts] >> _BITS] = True
    return found


def _neighbours(texts: Sequence[Ids]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For each token and the next its place in the table of marks, and where among these the texts end."""
    line = np.concatenate(texts)
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    mixed = (line[:-1] * _FIRST + line[1:] * _SECOND) >> np.uint32(32 - _BITS)
    rows = np.repeat(np.arange(len(texts)) << _BITS, lengths)[:-1]
    return rows + mixed, np.cumsum(lengths) - 1


def _checked(tokens: Tokens) -> npt.NDArray[np.integer]:
    if not isinstance(tokens, np.ndarray):
        # Through an array of the standard library a list is read several times as fast as by numpy.
        return np.frombuffer(array("I", tokens), dtype=np.uintc)
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
        raise TypeError
    if tokens.itemsize > 4 and len(tokens) and not 0 <= tokens.min() <= tokens.max() < _CHARACTERS:
        raise OverflowError
    return tokens
