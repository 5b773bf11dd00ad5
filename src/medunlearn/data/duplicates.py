"""Near-duplicate detection by the exact Jaccard similarity of word trigrams."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

SIZE = 3
ALIKE = 0.5
"""Overlap from which two texts count as nearly the same.

Of LUME's 1,733 released documents no two of one task come above 0.35 (stories 0.08, public biographies 0.17;
personal ones, which share their wording, 0.35), while a copy with every tenth word changed comes at about 0.54.
"""

_ROUNDING = 1e-9
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A near-duplicate of an earlier text.

    Attributes:
        like: the earlier text with the largest overlap.
        overlap: of the two, in [0, 1].
    """

    name: str
    like: str
    overlap: float


def shingles(text: str, size: int = SIZE) -> frozenset[str]:
    """Distinct runs of ``size`` words, in lower case with spaces between; a shorter text is one run."""
    words = _WORD.findall(text.casefold())
    return frozenset(" ".join(words[start : start + size]) for start in range(max(1, len(words) - size + 1)))


def overlap(first: str, second: str, size: int = SIZE) -> float:
    """Jaccard similarity of two texts' shingles: shared over all, 0-1, 1 = the same words in the same order."""
    first_shingles, second_shingles = shingles(first, size), shingles(second, size)
    return len(first_shingles & second_shingles) / len(first_shingles | second_shingles)


class DuplicateIndex:
    """Index of texts that finds the near-duplicate of a new one.

    All shingles have an order, from the last that was seen to the first, as common wording is seen early. What two
    texts share begins at a place in each, and no more than the rest of each behind it can be shared. So texts whose
    first common shingle comes late are not compared, and shingles that come late are not listed: of texts from one
    template few are compared, and no near-duplicate is missed.

    Args:
        alike: overlap from which two texts are near-duplicates, above 0; above 1, none are.

    Source: Xiao et al. 2008, Efficient Similarity Joins for Near Duplicate Detection (prefix filter).
    """

    def __init__(self, alike: float = ALIKE) -> None:
        self.alike = alike
        self._names: list[str] = []
        self._texts: list[frozenset[int]] = []
        self._numbers: dict[str, int] = {}
        self._holders: dict[int, list[int]] = {}
        """Shingle -> texts that hold it among their first ones."""

    def add(self, name: str, text: str) -> Duplicate | None:
        """Add a text, unless it is a near-duplicate; then return the earlier text."""
        new = shingles(text)
        known = [self._numbers[shingle] for shingle in new if shingle in self._numbers]
        known.sort(reverse=True)
        shared_with = set(known)
        nearest, largest = -1, 0.0
        for place in self._comparable(known, len(new)):
            shared = len(shared_with & self._texts[place])
            share = shared / (len(new) + len(self._texts[place]) - shared)
            if share > largest:
                nearest, largest = place, share
        if nearest >= 0 and largest >= self.alike:
            return Duplicate(name, self._names[nearest], largest)
        own = [self._numbers.setdefault(shingle, len(self._numbers)) for shingle in new]
        for number in sorted(own, reverse=True)[: int((1 - self.alike) * len(own) + _ROUNDING) + 1]:
            self._holders.setdefault(number, []).append(len(self._names))
        self._names.append(name)
        self._texts.append(frozenset(own))
        return None

    def _comparable(self, known: Sequence[int], size: int) -> list[int]:
        """Sorted places of the texts that may be near-duplicates of a new one.

        Args:
            known: the new text's shingles that others hold, in order; the others come before them.
            size: number of all its shingles.
        """
        # Near-duplicates with a and b shingles share at least this part of a + b.
        part, may_be = self.alike / (1 + self.alike), dict[int, bool]()
        for rest, number in zip(range(len(known), 0, -1), known, strict=True):
            longest = (rest + _ROUNDING) / part - size
            if longest < self.alike * size - _ROUNDING:
                break
            for place in self._holders.get(number, ()):
                if place not in may_be:
                    may_be[place] = len(self._texts[place]) <= longest
        return sorted(place for place, comparable in may_be.items() if comparable)
