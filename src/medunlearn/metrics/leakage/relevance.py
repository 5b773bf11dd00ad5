"""How near a phrase is to a disease, by its words alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set
from functools import cache

from medunlearn.metrics.leakage.phrases import words_of
from medunlearn.metrics.leakage.terms import terms

EXACT, CONTAINS, LARGEST_OVERLAP = 1.0, 0.9, 0.6
THRESHOLD = 0.5
"""A phrase of lower relevance is no keyword."""


class Seeds:
    """The seed terms of one disease, ready to be compared with phrases."""

    def __init__(self, seeds: Iterable[str]) -> None:
        rows = [tuple(words_of(seed)) for seed in seeds]
        self._rows = frozenset(rows)
        self._longest = max(map(len, rows), default=0)
        self._with_word: dict[str, set[frozenset[str]]] = defaultdict(set)
        for row in rows:
            for word in row:
                self._with_word[word].add(frozenset(row))
        self._of: dict[str, float] = {}

    def relevance(self, phrase: str) -> float:
        """Of a phrase in words with single spaces: 0-1, higher = nearer to the disease.

        1 if it is a seed; 0.9 if a seed stands in it as whole contiguous words; else 0.6 times the largest Jaccard
        similarity of its set of words with a seed's. Reaching :data:`THRESHOLD` takes a similarity of 5/6 then,
        which with Table 7's seeds only the same words in another order have.

        Source: AMNESIA, Appendix E.1. That the partial overlap is taken with the most similar seed, and scaled so
        that 0.6 would be all words shared, is ours: the paper says 0-0.6, "proportional to Jaccard similarity".
        """
        if phrase not in self._of:
            self._of[phrase] = self._relevance(tuple(phrase.split()))
        return self._of[phrase]

    def _relevance(self, words: tuple[str, ...]) -> float:
        if words in self._rows:
            return EXACT
        if any(
            words[start : start + length] in self._rows
            for length in range(1, min(self._longest, len(words)) + 1)
            for start in range(len(words) - length + 1)
        ):
            return CONTAINS
        mine = set(words)
        near = (seed for word in mine for seed in self._with_word.get(word, ()))
        return LARGEST_OVERLAP * max((jaccard(mine, seed) for seed in near), default=0.0)


def jaccard(first: Set[str], second: Set[str]) -> float:
    """Shared words over all words of two sets, 0-1; 0 for two empty ones."""
    return len(first & second) / len(first | second) if first or second else 0.0


@cache
def seeds_of(category: str) -> Seeds:
    """The seeds of one of Table 7's categories."""
    return Seeds(terms().seeds(category))
