"""The longest run that two long texts share, in time that grows with the sum of their lengths."""

from __future__ import annotations


class SuffixAutomaton:
    """The smallest machine that reads every piece of one text, and nothing else.

    A state stands for all pieces that end at the same places. Built token by token in linear time.

    Attributes, each a list with one entry a state:
        moves: the next state by token.
        link: the state of the longest proper ending that ends in more places; -1 for the start.
        length: of the state's longest piece.
        first_end: where a piece of the state first ends, as the number of tokens before it.

    Source: Blumer et al. 1985, "The smallest automaton recognizing the subwords of a text".
    """

    def __init__(self, text: str) -> None:
        self.moves: list[dict[str, int]] = [{}]
        self.link = [-1]
        self.length = [0]
        self.first_end = [0]
        last = 0
        for token in text:
            last = self._append(last, token)

    def _append(self, last: int, token: str) -> int:
        new = self._state({}, 0, self.length[last] + 1, self.length[last] + 1)
        at = last
        while at >= 0 and token not in self.moves[at]:
            self.moves[at][token] = new
            at = self.link[at]
        if at >= 0:
            self.link[new] = self._exactly(at, token)
        return new

    def _exactly(self, at: int, token: str) -> int:
        """The state after ``token`` whose longest piece is one longer than that of ``at``; split off if need be."""
        to = self.moves[at][token]
        if self.length[to] == self.length[at] + 1:
            return to
        copy = self._state(dict(self.moves[to]), self.link[to], self.length[at] + 1, self.first_end[to])
        self.link[to] = copy
        while at >= 0 and self.moves[at].get(token) == to:
            self.moves[at][token] = copy
            at = self.link[at]
        return copy

    def _state(self, moves: dict[str, int], link: int, length: int, first_end: int) -> int:
        self.moves.append(moves)
        self.link.append(link)
        self.length.append(length)
        self.first_end.append(first_end)
        return len(self.moves) - 1


def longest_by_automaton(said: str, true: str) -> tuple[int, int, int]:
    """Length of the longest shared run, its place in the response, its place in the suffix.

    The first in the suffix among equally long ones, and its first place in the response.
    """
    machine = SuffixAutomaton(said)
    best = (0, 0, 0)
    state = length = 0
    for place, token in enumerate(true):
        while state and token not in machine.moves[state]:
            state = machine.link[state]
            length = machine.length[state]
        if token in machine.moves[state]:
            state = machine.moves[state][token]
            length += 1
        if length > best[0]:
            best = (length, machine.first_end[state] - length, place + 1 - length)
    return best
