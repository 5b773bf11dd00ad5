"""A text cut into words that compare equal where people would call them so, each with its place in the text."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

WORD = re.compile(r"[^\W_]+")
GAP = 3
"""Most characters between two neighbouring words of one identifier: ``Smith, J. (Ann)`` has 2 and 3."""
NUMBER_GAP = 2
"""Most characters between two parts of a number: ``(555) 010`` has 2."""
PARTS = 6
"""Most parts that a number is written in."""


def folded(word: str) -> str:
    """A word without case and accents."""
    if word.isascii():
        return word.lower()
    bare = unicodedata.normalize("NFKD", word.casefold())
    return "".join(letter for letter in bare if not unicodedata.combining(letter))


def words_of(text: str) -> tuple[str, ...]:
    """The folded words of a text, in order; punctuation and underscores stand between words."""
    return tuple(folded(word) for word in WORD.findall(text))


def compact(text: str) -> str:
    """A number without what is written between its parts: ``HX-123 456`` is ``hx123456``."""
    return "".join(words_of(text))


@dataclass(frozen=True)
class Text:
    """A text and its words.

    Attributes:
        raw: the text as it is; places are in it.
        words: folded.
        starts, ends: places of each word's first character and past its last.
    """

    raw: str
    words: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    @staticmethod
    def of(raw: str) -> Text:
        places = [match.span() for match in WORD.finditer(raw)]
        starts, ends = tuple(start for start, _ in places), tuple(end for _, end in places)
        # In ASCII a lower-case text has the same places, and is cut much faster than word by word.
        words = WORD.findall(raw.lower()) if raw.isascii() else [folded(raw[a:b]) for a, b in places]
        return Text(raw, tuple(words), starts, ends)

    def joined(self, first: int, count: int, gap: int = GAP) -> bool:
        """Whether ``count`` words from ``first`` on stand close enough to be one thing, in one paragraph."""
        return all(self._close(place, gap) for place in range(first, first + count - 1))

    def _close(self, place: int, gap: int) -> bool:
        between = self.raw[self.ends[place] : self.starts[place + 1]]
        return len(between) <= gap and between.count("\n") < 2

    @cached_property
    def numbers(self) -> tuple[tuple[str, int, int], ...]:
        """Every run of up to six close words that may be a number, compact: key, first word, how many words."""
        return tuple(self._numbers())

    def _numbers(self) -> Iterator[tuple[str, int, int]]:
        words, starts, ends, last = self.words, self.starts, self.ends, len(self.words)
        # What is a word and not of letters alone has a digit in it.
        digits = [place for place, word in enumerate(words) if not word.isalpha()]
        there = set(digits)
        for first in sorted({*digits, *(place - 1 for place in digits if place)}):
            key = ""
            for place in range(first, min(first + PARTS, last)):
                gap = starts[place] - ends[place - 1] if place > first else 0
                if gap > NUMBER_GAP or (gap == 2 and self.raw[ends[place - 1] : starts[place]] == "\n\n"):
                    break
                key += words[place]
                if place in there:
                    yield key, first, place - first + 1

    def word_at(self, place: int) -> int:
        """How many words begin before a place."""
        return bisect_left(self.starts, place)
