"""Verbatim overlap: runs of consecutive tokens that a response shares with the true suffix.

Exact at any length: the hash table of :func:`may_share` only rules pairs out. Token ids become characters of a
string, one per token, because substring search is Python's fastest exact search.

Notation: n, m tokens of the response and the suffix; k the length of a run.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError

Ids = npt.NDArray[np.uint32]
Tokens = Sequence[int] | npt.NDArray[np.integer]

RUN_LENGTHS = (30, 50)
"""Tokens in a row that count as verbatim memorization.

Source: Memorization in Large Language Models in Medicine, its verbatim measure.
"""

# Pairs per batch: what stays in the processor's cache is read several times as fast.
_BATCH = 64
# Above so many pairs of positions the linear suffix automaton is faster.
_LARGE = 2_000_000
_CHARACTERS = 0x110000
_BITS = 13
# Odd multipliers of the hash; they change how often may_share is True in vain, never a result.
_FIRST, _SECOND = np.uint32(0x9E3779B1), np.uint32(0x85EBCA77)


@dataclass(frozen=True, slots=True)
class SharedRun:
    """Consecutive tokens that two texts share.

    Attributes:
        length: in tokens; 0 if the texts share no token.
        in_response, in_suffix: position of the first token in each text, from 0.
    """

    length: int
    in_response: int
    in_suffix: int


def longest_run(response: Tokens, suffix: Tokens) -> SharedRun:
    """Longest common run of tokens; ties go to the earliest in the suffix, then in the response.

    ``SharedRun(0, 0, 0)`` if no token is shared. Length is 0 to min(n, m), higher = leaks more. Time O(n + m).

    Args:
        response, suffix: token ids of the response [n] and of the true continuation [m].

    Raises:
        InputError: an entry is not a token id.
    """
    text, true = map(as_text, as_ids([response, suffix]))
    if len(text) * len(true) > _LARGE:
        return SharedRun(*longest_common_substring(text, true))
    best = SharedRun(0, 0, 0)
    start = _start_of_run(text, true, 1)
    while start >= 0:
        length = _length_of_run(text, true, start, best.length + 1)
        best = SharedRun(length, text.find(true[start : start + length]), start)
        start = _start_of_run(text, true, length + 1, start + 1)
    return best


def runs_of_at_least(
    responses: Sequence[Tokens], suffixes: Sequence[Tokens], lengths: Sequence[int] = RUN_LENGTHS
) -> npt.NDArray[np.bool_]:
    """True for each pair that shares a run of each length, [pairs, lengths]; much faster than :func:`longest_run`.

    Raises:
        InputError: unequal numbers of texts, a length below 1, an entry that is not a token id.
    """
    ascending = sorted(range(len(lengths)), key=lambda place: lengths[place])
    shared = np.zeros((len(responses), len(lengths)), dtype=np.bool_)
    for row, ours, true in _candidates(responses, suffixes, min(lengths, default=1)):
        text, other, start = as_text(ours), as_text(true), 0
        for place in ascending:
            # A longer run begins no earlier than the first shorter one.
            start = _start_of_run(text, other, lengths[place], start)
            if start < 0:
                break
            shared[row, place] = True
    return shared


def shared_runs(
    responses: Sequence[Tokens], suffixes: Sequence[Tokens], at_least: int = RUN_LENGTHS[0]
) -> list[list[SharedRun]]:
    """Every maximal shared run of at least ``at_least`` tokens; a list per pair, in the response's order.

    Maximal: it cannot be extended on either side. Text at several positions gives a run for each pair of them.

    Raises:
        InputError: unequal numbers of texts, ``at_least`` below 1, an entry that is not a token id.
    """
    runs: list[list[SharedRun]] = [[] for _ in responses]
    for row, ours, true in _candidates(responses, suffixes, at_least):
        runs[row] = sorted(_maximal_runs(ours, true, at_least), key=lambda run: (run.in_response, run.in_suffix))
    return runs


def as_ids(texts: Sequence[Tokens]) -> list[Ids]:
    """Each text's token ids as an array.

    Raises:
        InputError: a value that is not a whole number from 0 to 1,114,111, the highest code point.
    """
    try:
        ids = [_token_array(tokens) for tokens in texts]
        line = np.concatenate(ids).astype(np.uint32) if ids else np.zeros(0, dtype=np.uint32)
        if line.max(initial=0) >= _CHARACTERS:
            raise OverflowError
    except (OverflowError, TypeError):
        raise InputError(f"token ids are whole numbers from 0 to {_CHARACTERS - 1:,}; an entry is not.") from None
    return [line[start:end] for start, end in pairwise(accumulate(map(len, ids), initial=0))]


def as_text(ids: Ids) -> str:
    """Token ids as a string of one character per token, for substring search only."""
    return ids.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


def may_share(responses: Sequence[Ids], suffixes: Sequence[Ids], length: int) -> npt.NDArray[np.bool_]:
    """Bloom filter [pairs]: False for pairs that surely share no run of ``length`` tokens.

    Hashes each response's pairs of neighbouring tokens; a shared run needs ``length - 1`` hits in a row.
    """
    pairs = len(responses)
    if length < 2 or not pairs:
        return np.ones(pairs, dtype=np.bool_)
    marks = np.zeros(pairs << _BITS, dtype=np.bool_)
    marks[_neighbours(responses)[0]] = True
    places, ends = _neighbours(suffixes)
    marked = marks[places]
    # The last token of one text and the first of the next are no neighbours.
    marked[ends[(ends >= 0) & (ends < len(marked))]] = False
    gaps = np.flatnonzero(np.concatenate(([True], ~marked, [True])))
    starts = gaps[:-1][np.diff(gaps) >= length]
    possible = np.zeros(pairs, dtype=np.bool_)
    possible[places[starts] >> _BITS] = True
    return possible


def _candidates(
    responses: Sequence[Tokens], suffixes: Sequence[Tokens], length: int
) -> Iterator[tuple[int, Ids, Ids]]:
    """Rows of pairs that may share a run of ``length``, with their ids."""
    if len(responses) != len(suffixes):
        raise InputError(f"{len(responses)} responses for {len(suffixes)} suffixes: give one suffix per response.")
    if length < 1:
        raise InputError(f"a run needs at least 1 token, not {length}.")
    for start in range(0, len(responses), _BATCH):
        ours, true = (as_ids(side[start : start + _BATCH]) for side in (responses, suffixes))
        for row in np.flatnonzero(may_share(ours, true, length)).tolist():
            yield start + row, ours[row], true[row]


def _neighbours(texts: Sequence[Ids]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Hash slot of each token and its successor, and the indices at which texts end."""
    line = np.concatenate(texts)
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    mixed = (line[:-1] * _FIRST + line[1:] * _SECOND) >> np.uint32(32 - _BITS)
    rows = np.repeat(np.arange(len(texts)) << _BITS, lengths)[:-1]
    return rows + mixed, np.cumsum(lengths) - 1


def _maximal_runs(ours: Ids, true: Ids, at_least: int) -> Iterator[SharedRun]:
    text, other = as_text(ours), as_text(true)
    starts: dict[str, list[int]] = defaultdict(list)
    for place in range(len(text) - at_least + 1):
        starts[text[place : place + at_least]].append(place)
    for in_suffix in range(len(other) - at_least + 1):
        for in_response in starts.get(other[in_suffix : in_suffix + at_least], ()):
            if in_suffix and in_response and other[in_suffix - 1] == text[in_response - 1]:
                continue
            more = _common_prefix(ours[in_response + at_least :], true[in_suffix + at_least :])
            yield SharedRun(at_least + more, in_response, in_suffix)


def _common_prefix(ours: Ids, true: Ids) -> int:
    length = min(len(ours), len(true))
    differs = np.flatnonzero(ours[:length] != true[:length])
    return int(differs[0]) if len(differs) else length


def _length_of_run(text: str, true: str, start: int, length: int) -> int:
    """Length of the run at ``true[start:]``, whose first ``length`` tokens are shared; by galloping search."""

    def is_shared(more: int) -> bool:
        return start + length + more <= len(true) and true[start : start + length + more] in text

    reach = 1
    while is_shared(reach):
        length += reach
        reach *= 2
    while reach:
        if is_shared(reach):
            length += reach
        reach //= 2
    return length


def _start_of_run(text: str, true: str, length: int, first: int = 0) -> int:
    """First position from ``first`` on of ``length`` suffix tokens that ``text`` contains; -1 without one.

    Neighbouring positions share a block of tokens: if the text lacks the block, none of them match.
    """
    last = len(true) - length
    if first > last:
        return -1
    piece = (length + 2) // 3
    step = length - piece + 1
    for shared in (*range(first + step - 1, last, step), last):
        if true[shared : shared + piece] in text:
            for start in range(max(first, shared - step + 1), shared + 1):
                if true[start : start + length] in text:
                    return start
    return -1


def _token_array(tokens: Tokens) -> npt.NDArray[np.integer]:
    if not isinstance(tokens, np.ndarray):
        # array.array reads a list several times as fast as numpy.
        return np.frombuffer(array("I", tokens), dtype=np.uintc)
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
        raise TypeError
    if tokens.itemsize > 4 and len(tokens) and not 0 <= tokens.min() <= tokens.max() < _CHARACTERS:
        raise OverflowError
    return tokens


class SuffixAutomaton:
    """Suffix automaton of one text, built token by token in linear time.

    One list entry per state: ``moves`` (next state by token), ``link`` (suffix link; -1 for the start), ``length``
    (of the longest substring) and ``first_end`` (end position of its first occurrence).

    Source: Blumer et al. 1985, "The smallest automaton recognizing the subwords of a text".
    """

    def __init__(self, text: str) -> None:
        self.moves: list[dict[str, int]] = []
        self.link: list[int] = []
        self.length: list[int] = []
        self.first_end: list[int] = []
        last = self._state({}, -1, 0, 0)
        for token in text:
            last = self._append(last, token)

    def _append(self, last: int, token: str) -> int:
        new = self._state({}, 0, self.length[last] + 1, self.length[last] + 1)
        at = last
        while at >= 0 and token not in self.moves[at]:
            self.moves[at][token] = new
            at = self.link[at]
        if at >= 0:
            self.link[new] = self._split(at, token)
        return new

    def _split(self, at: int, token: str) -> int:
        """The state after ``token`` whose longest substring is one longer than that of ``at``; cloned if needed."""
        to = self.moves[at][token]
        if self.length[to] == self.length[at] + 1:
            return to
        clone = self._state(dict(self.moves[to]), self.link[to], self.length[at] + 1, self.first_end[to])
        self.link[to] = clone
        while at >= 0 and self.moves[at].get(token) == to:
            self.moves[at][token] = clone
            at = self.link[at]
        return clone

    def _state(self, moves: dict[str, int], link: int, length: int, first_end: int) -> int:
        self.moves.append(moves)
        self.link.append(link)
        self.length.append(length)
        self.first_end.append(first_end)
        return len(self.moves) - 1


def longest_common_substring(text: str, other: str) -> tuple[int, int, int]:
    """Length, position in ``text`` and position in ``other``; ties go to the first in ``other``."""
    machine = SuffixAutomaton(text)
    best = (0, 0, 0)
    state = length = 0
    for place, token in enumerate(other):
        while state and token not in machine.moves[state]:
            state = machine.link[state]
            length = machine.length[state]
        if token in machine.moves[state]:
            state = machine.moves[state][token]
            length += 1
        if length > best[0]:
            best = (length, machine.first_end[state] - length, place + 1 - length)
    return best
