"""Longest common substring in linear time (suffix automaton)."""

from __future__ import annotations


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
    """Length, position in ``text`` and position in ``other``; of equally long ones the first in ``other``."""
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
