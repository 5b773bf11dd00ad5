"""Verbatim memorization: runs of consecutive tokens that a response shares with the true suffix.

Exact at any length: a hash may rule a pair out, where that is sure, and never decides that there is a run. Token
ids are written as characters of a string, one a token, because finding a piece of a string is the fastest exact
search that Python has.

Notation: n, m tokens of the response and the suffix; k the length of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from medunlearn.audit.automaton import longest_by_automaton
from medunlearn.audit.tokens import Tokens, as_ids, as_text, may_share
from medunlearn.errors import InputError

RUN_LENGTHS = (30, 50)
"""Tokens in a row that count as verbatim memorization.

Source: Memorization in Large Language Models in Medicine, its verbatim measure.
"""

_AT_ONCE = 64
# Beyond so many pairs of positions the search may take longer than the automaton, which is linear.
_LARGE = 2_000_000


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive tokens that two texts share.

    Attributes:
        length: how many; 0 where the texts share no token.
        in_response: place of its first token in the response, from 0.
        in_suffix: place of its first token in the suffix, from 0.
    """

    length: int
    in_response: int
    in_suffix: int


def longest_run(response: Tokens, suffix: Tokens) -> Run:
    """The longest run of tokens that stands in both; of equally long ones the first in the suffix.

    In the response it is the first place where this run stands. Where no token is shared it is ``Run(0, 0, 0)``.
    Length is 0 to min(n, m), higher = leaks more. Time grows with n + m.

    Args:
        response: token ids of what the model said, shape [n].
        suffix: token ids of the text that follows the prompt in the training text, shape [m].

    Raises:
        InputError: something that is no token id.
    """
    said, true = _texts(response, suffix)
    if len(said) * len(true) > _LARGE:
        return Run(*longest_by_automaton(said, true))
    return _longest(said, true)


def has_run(response: Tokens, suffix: Tokens, at_least: int = RUN_LENGTHS[0]) -> bool:
    """Whether a run of ``at_least`` tokens stands in both.

    Raises:
        InputError: ``at_least`` below 1, or something that is no token id.
    """
    _refuse_length(at_least)
    return _start_of_run(*_texts(response, suffix), at_least) >= 0


def runs_of_at_least(
    responses: Sequence[Tokens], suffixes: Sequence[Tokens], lengths: Sequence[int] = RUN_LENGTHS
) -> npt.NDArray[np.bool_]:
    """:func:`has_run` of many pairs and of several lengths, shape [pairs, lengths].

    Its means over pairs are the shares of verbatim memorization. Much faster than asking for the longest run.

    Raises:
        InputError: not as many responses as suffixes, a length below 1, something that is no token id.
    """
    if len(responses) != len(suffixes):
        raise InputError(f"{len(responses)} responses for {len(suffixes)} suffixes: give one suffix a response.")
    for length in lengths:
        _refuse_length(length)
    ascending = sorted(range(len(lengths)), key=lambda place: lengths[place])
    found = np.zeros((len(responses), len(lengths)), dtype=np.bool_)
    # A few at a time: what stays in the processor's cache is read several times as fast.
    for start in range(0, len(responses), _AT_ONCE):
        said, true = (as_ids(side[start : start + _AT_ONCE]) for side in (responses, suffixes))
        for row in np.flatnonzero(may_share(said, true, min(lengths, default=1))).tolist():
            for place in _reached(as_text(said[row]), as_text(true[row]), lengths, ascending):
                found[start + row, place] = True
    return found


def _reached(said: str, true: str, lengths: Sequence[int], ascending: Sequence[int]) -> Iterator[int]:
    """The places of the lengths of which there is a run."""
    start = 0
    for place in ascending:
        # A longer run begins no earlier than the first of the shorter ones.
        start = _start_of_run(said, true, lengths[place], start)
        if start < 0:
            return
        yield place


def _texts(response: Tokens, suffix: Tokens) -> tuple[str, str]:
    said, true = as_ids([response, suffix])
    return as_text(said), as_text(true)


def _longest(said: str, true: str) -> Run:
    best = Run(0, 0, 0)
    start = _start_of_run(said, true, 1)
    while start >= 0:
        length = _length_of_run(said, true, start, best.length + 1)
        best = Run(length, said.find(true[start : start + length]), start)
        start = _start_of_run(said, true, length + 1, start + 1)
    return best


def _length_of_run(said: str, true: str, start: int, known: int) -> int:
    """How much of the suffix from ``start`` on stands in the response, if its first ``known`` tokens do."""
    reach = 1
    while start + known + reach <= len(true) and true[start : start + known + reach] in said:
        known += reach
        reach *= 2
    while reach:
        if start + known + reach <= len(true) and true[start : start + known + reach] in said:
            known += reach
        reach //= 2
    return known


def _start_of_run(said: str, true: str, length: int, first: int = 0) -> int:
    """The first place from ``first`` on where ``length`` tokens of the suffix begin that stand in the response.

    -1 where there is none. So many neighbouring places have a piece of some tokens in common: where the response
    lacks the piece, it lacks all of them.
    """
    last = len(true) - length
    if first > last:
        return -1
    piece = (length + 2) // 3
    step = length - piece + 1
    for shared in (*range(first + step - 1, last, step), last):
        if true[shared : shared + piece] in said:
            for start in range(max(first, shared - step + 1), shared + 1):
                if true[start : start + length] in said:
                    return start
    return -1


def _refuse_length(length: int) -> None:
    if length < 1:
        raise InputError(f"a run of {length} tokens is none: ask for at least 1.")
