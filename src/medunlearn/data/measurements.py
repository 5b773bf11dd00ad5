"""Index of the numbers and dates in all subjects' texts by the words around them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property

from medunlearn.data.facts import Fact, values_in

ENOUGH = 10
"""Other subjects with the same measurement from whom its usual values can be told."""
MOST = 400
"""Other subjects whose values are kept for one measurement."""
_WORDS = 3
_REACH = 80
_WORD = re.compile(r"[^\W\d_][\w'-]*|\d[\d.]*|%")
_UNIT = re.compile(r"\s?(%|[^\W\d_][\w^/%]*)")
_SENTENCE_END = re.compile(r"[.!?;]\s|\n")
Key = tuple[str, ...]


def words_around(text: str, fact: Fact) -> Key:
    """A fact's kind, up to three words before it in its sentence (numbers as ``#``), and one after it; "" without
    words.
    """
    before = _SENTENCE_END.split(text[max(0, fact.start - _REACH) : fact.start])[-1]
    words = ["#" if word[0].isdigit() else word.lower() for word in _WORD.findall(before)][-_WORDS:]
    unit = _UNIT.match(text, fact.end)
    return (fact.kind, *[""] * (_WORDS - len(words)), *words, unit.group(1).lower() if unit else "")


class Measurements:
    """Values of all subjects by the words around them.

    Args:
        texts: pairs of a subject and a text about it.
    """

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        self._texts = list(dict.fromkeys(texts))

    @cached_property
    def _index(self) -> tuple[Mapping[Key, dict[str, str]], Mapping[tuple[Key, str], set[str]]]:
        """Three indexes in one: context words -> subject -> value, and context words with a value -> subjects."""
        values: dict[Key, dict[str, str]] = defaultdict(dict)
        holders: dict[tuple[Key, str], set[str]] = defaultdict(set)
        for subject, text in self._texts:
            for fact in values_in(text):
                key = words_around(text, fact)
                holders[key, fact.of(text)].add(subject)
                for shorter in shorter_keys(key):
                    if len(values[shorter]) < MOST:
                        values[shorter].setdefault(subject, fact.of(text))
        return values, holders

    def of_others(self, text: str, fact: Fact, subject: str) -> list[str]:
        """One value of this measurement for each other subject; empty if fewer than :data:`ENOUGH` have it.

        Measurements are matched by the longest context that leaves enough subjects: three, two or one word before
        the value, and always the one after it.
        """
        for key in shorter_keys(words_around(text, fact)):
            others = [value for other, value in self._index[0].get(key, {}).items() if other != subject]
            if len(others) >= ENOUGH:
                return others
        return []

    def alike(self, text: str, fact: Fact, subject: str) -> tuple[int, int]:
        """Number of other subjects with the same value after the same word, and of those with any value there.

        A drug keeps its dose in any context. Of contexts of three, two or one word, the one with the largest share
        counts.
        """
        counts = []
        for key in shorter_keys(words_around(text, fact)):
            others = [value for other, value in self._index[0].get(key, {}).items() if other != subject]
            if others:
                counts.append((others.count(fact.of(text)), len(others)))
        return max(counts, key=lambda count: count[0] / count[1], default=(0, 0))

    def is_shared(self, text: str, fact: Fact, subject: str) -> bool:
        """True if the value occurs in a text about another subject, in the same context."""
        return bool(self._index[1].get((words_around(text, fact), fact.of(text)), set()) - {subject})


def shorter_keys(key: Key) -> list[Key]:
    """The words around a fact, with three, two and one word before it."""
    return [(key[0], *key[place:]) for place in range(1, _WORDS + 1) if key[_WORDS]]
