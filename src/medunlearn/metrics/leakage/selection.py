"""Selection of weighted keywords: lexical relevance of phrases to a disease, weights, redundancy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from functools import cache

from medunlearn.metrics.leakage.phrases import terms, words_of

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
        """Relevance of a phrase in words with single spaces: 0-1, higher = nearer to the disease.

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


TOP = 5
"""Keywords that a note gives at most; questions and answers give all (AMNESIA, Algorithm 1, step 3)."""

MOST_COUNTED, PER_TIME = 5, 0.05

FIELDS = ("note", "question", "answer")


@dataclass(frozen=True, slots=True)
class Keyword:
    """A phrase that a response is searched for.

    Attributes:
        phrase: lower-cased words with single spaces.
        weight: 0.55-1.25, higher = nearer to the disease and more frequent.
        field: where it was selected: ``note``, ``question``, ``answer``, or several of them joined by ``+``.
    """

    phrase: str
    weight: float
    field: str


def weight(relevance: float, times: int) -> float:
    """``relevance + min(times, 5) * 0.05``: AMNESIA, Algorithm 1, step 2.

    Rounded to the hundredths of a thousandth, so that the same sum is the same number on every road to it.
    """
    return round(relevance + min(times, MOST_COUNTED) * PER_TIME, 5)


def scored(candidates: Mapping[str, int], seeds: Seeds) -> dict[str, float]:
    """The candidates of one field that are relevant enough, with their weights, heaviest first.

    Equally heavy ones stay in the order of the field.

    Args:
        candidates: phrase -> how often it stands in the field.
    """
    relevances = ((phrase, times, seeds.relevance(phrase)) for phrase, times in candidates.items())
    found = [(phrase, weight(near, times)) for phrase, times, near in relevances if near >= THRESHOLD]
    return dict(sorted(found, key=lambda one: -one[1]))


def top(found: Mapping[str, float], most: int = TOP) -> dict[str, float]:
    """The first, heaviest ones of what :func:`scored` gives."""
    return dict(list(found.items())[:most])


def merged(by_field: Mapping[str, Mapping[str, float]]) -> list[Keyword]:
    """The keywords of several fields; one that stands in several has the largest of its weights."""
    weights: dict[str, float] = {}
    fields: dict[str, list[str]] = {}
    for field, found in by_field.items():
        for phrase, heavy in found.items():
            weights[phrase] = max(heavy, weights.get(phrase, 0.0))
            fields.setdefault(phrase, []).append(field)
    return [Keyword(phrase, heavy, "+".join(fields[phrase])) for phrase, heavy in weights.items()]


def without_redundant(keywords: list[Keyword]) -> list[Keyword]:
    """Leave out a keyword in which another one stands as whole contiguous words; the shorter is kept."""
    rows = [f" {keyword.phrase} " for keyword in keywords]
    return [
        keyword
        for keyword, row in zip(keywords, rows, strict=True)
        if not any(other in row and other != row for other in rows)
    ]


def select(note: Mapping[str, float], question: Mapping[str, float], answer: Mapping[str, float]) -> list[Keyword]:
    """The keywords of one question: five of the note, all of question and answer, without redundant ones.

    Args:
        note, question, answer: what :func:`scored` gives for each field; of the note, :func:`top` of it is enough.

    Source: AMNESIA, Algorithm 1, step 3. (Appendix E.1 has redundant phrases leave the note's before the five are
    taken; where algorithm and text differ, the algorithm is followed.)
    """
    return without_redundant(merged({"note": top(note), "question": question, "answer": answer}))
