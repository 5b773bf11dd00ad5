"""Selection of weighted keywords: lexical relevance of phrases to a disease, weights, redundancy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import islice
from typing import NamedTuple

from medunlearn.metrics.leakage.phrases import terms, words_of

EXACT, CONTAINS, LARGEST_OVERLAP = 1.0, 0.9, 0.6
THRESHOLD = 0.5
"""A phrase of lower relevance is not a keyword."""
MOST_COUNTED, PER_TIME = 5, 0.05
TOP = 5
"""Keywords that a note gives at most; questions and answers give all (AMNESIA, Algorithm 1, step 3)."""


class Keyword(NamedTuple):
    """A phrase to search for in responses.

    Attributes:
        phrase: lower-cased words with single spaces.
        weight: 0.55-1.25, higher = more relevant to the disease and more frequent.
        field: field of its selection: ``note``, ``question``, ``answer``, or several of them joined by ``+``.
    """

    phrase: str
    weight: float
    field: str


class Seeds:
    """The seed terms of one disease, prepared for comparison with phrases."""

    def __init__(self, seeds: Iterable[str]) -> None:
        rows = [tuple(words_of(seed)) for seed in seeds]
        self._rows = frozenset(rows)
        self._longest = max(map(len, rows), default=0)
        self._with_word: dict[str, set[frozenset[str]]] = defaultdict(set)
        for row in rows:
            for word in row:
                self._with_word[word].add(frozenset(row))
        self._relevances: dict[str, float] = {}

    def relevance(self, phrase: str) -> float:
        """Relevance of a phrase in words with single spaces: 0-1, higher = more relevant to the disease.

        1 if it is a seed; 0.9 if it contains a seed as whole contiguous words; else 0.6 times the largest Jaccard
        similarity of its set of words with a seed's. Reaching :data:`THRESHOLD` then takes a similarity of 5/6,
        which with Table 7's seeds only a permutation of the words reaches.

        Source: AMNESIA, Appendix E.1. That the partial overlap is taken with the most similar seed, and scaled so
        that 0.6 would be all words shared, is ours: the paper says 0-0.6, "proportional to Jaccard similarity".
        """
        if phrase not in self._relevances:
            self._relevances[phrase] = self._relevance(tuple(phrase.split()))
        return self._relevances[phrase]

    def _relevance(self, words: tuple[str, ...]) -> float:
        if words in self._rows:
            return EXACT
        if any(
            words[start : start + length] in self._rows
            for length in range(1, min(self._longest, len(words)) + 1)
            for start in range(len(words) - length + 1)
        ):
            return CONTAINS
        own = set(words)
        near = (seed for word in own for seed in self._with_word.get(word, ()))
        return LARGEST_OVERLAP * max((len(own & seed) / len(own | seed) for seed in near), default=0.0)


@cache
def seeds_of(category: str) -> Seeds:
    """The seeds of one of Table 7's categories."""
    return Seeds(terms().seeds(category))


def weight(relevance: float, times: int) -> float:
    """``relevance + min(times, 5) * 0.05``: AMNESIA, Algorithm 1, step 2.

    Rounded to the hundredths of a thousandth, so that equal sums are equal in every order of addition.
    """
    return round(relevance + min(times, MOST_COUNTED) * PER_TIME, 5)


def scored(candidates: Mapping[str, int], seeds: Seeds) -> dict[str, float]:
    """The relevant candidates (phrase -> count) of one field with their weights, heaviest first, stable."""
    relevances = ((phrase, times, seeds.relevance(phrase)) for phrase, times in candidates.items())
    weights = [(phrase, weight(near, times)) for phrase, times, near in relevances if near >= THRESHOLD]
    return dict(sorted(weights, key=lambda entry: -entry[1]))


def select(note: Mapping[str, float], question: Mapping[str, float], answer: Mapping[str, float]) -> list[Keyword]:
    """The keywords of one question from the :func:`scored` phrases: the note's first five, and all of the other
    fields.

    A phrase of several fields has the largest of its weights. A phrase that contains another one as whole
    contiguous words is dropped.

    Source: AMNESIA, Algorithm 1, step 3. (Appendix E.1 has redundant phrases leave the note's before the five are
    taken; where algorithm and text differ, the algorithm is followed.)
    """
    weights: dict[str, float] = {}
    fields: dict[str, list[str]] = defaultdict(list)
    for field, phrases in (("note", dict(islice(note.items(), TOP))), ("question", question), ("answer", answer)):
        for phrase, heavy in phrases.items():
            weights[phrase] = max(heavy, weights.get(phrase, 0.0))
            fields[phrase].append(field)
    rows = [f" {phrase} " for phrase in weights]
    return [
        Keyword(phrase, heavy, "+".join(fields[phrase]))
        for (phrase, heavy), row in zip(weights.items(), rows, strict=True)
        if not any(other in row and other != row for other in rows)
    ]
