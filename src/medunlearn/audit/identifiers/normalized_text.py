"""Normalized words, numbers and ages of a text, with their offsets."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\U00020000-\U0003ffff"
"""Scripts that put no space between words, or attach particles: Thai, Lao, Burmese, Khmer, Kana, Han, Hangul."""
_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
"""Marks within a word: accents, Hebrew and Arabic vowels, and the scripts of India with their vowels."""
_ASCII_WORD = re.compile(r"[^\W_]+")
WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}](?:[^\W_{_UNSPACED}]|[{_MARKS}])*")
"""A word; in a script without spaces a character, so that a name of such characters is found inside a text."""
GAP = 3
"""Most characters between two neighbouring words of one identifier: ``Smith, J. (Ann)`` has 2 and 3."""
NUMBER_GAP = 2
"""Most characters between two parts of a number: ``(555) 010`` has 2."""
HEAD = 3
"""Characters of a number that runs of words are compared with first."""
PARTS = 6
"""Most parts that a number is written in."""
OLDEST = 120

_UNITS = r"(?:years?|yrs?|y)"
_PERSON = r"(?:woman|man|lady|gentleman|girl|boy|female|male)"
_YEARS = re.compile(r"(?<![\w])\d{1,3}(?!\d)")
_AGE_UNIT = re.compile(
    rf"[\s-]*{_UNITS}[\s.-]*(?:of[\s-]+age|old|o\b)|\s*(?:yo|y/o|y\.\s?o\.?)(?!\w)", re.IGNORECASE
)
_AGE_SEX = re.compile(rf"[\s-](?:{_UNITS}(?=[\s-]{_PERSON}\b)|(?:fe)?male\b)", re.IGNORECASE)
_AGE_LETTER = re.compile(
    r"(?:-?[FM]\b|\s[FM](?=\s?,?\s(?i:with|who|w/|h/o|s/p|c/o|p/w|in\b|for\b|present|here|admitted|hx|history)))"
    r"(?!\s?(?i:foley|cath|sheath|french|tube|drain|needle|introducer))"
)
_AGE_BEFORE = re.compile(rf"\b(?:aged?\s*|at\s+the\s+age\s+of\s*|age\s*:\s*|{_PERSON}\s+of\s+)$", re.IGNORECASE)
_SUBJECT_IS = re.compile(
    r"\b(?:he|she|who|patient|you|i)(?:\s(?:is|was|are|am)|['’](?:s|re|m))\s(?:now\s|currently\s|only\s|just\s)?$",
    re.IGNORECASE,
)
_SUBJECT_IS_ENDS = ("s", "re", "m", "now", "currently", "only", "just")
_END_OF_AGE = re.compile(r"\s?[,;)]|\.(?!\d)|\sand\b")
_DOSE = re.compile(r"\s*(?:mg|mm|%)", re.IGNORECASE)
_TEMPERATURE = re.compile(r"\b(?:temp\w*|t|tm|tmax|fever|febrile)\b[^.;\n]{0,20}$", re.IGNORECASE)
_FAHRENHEIT = range(94, 109)
_AGE_CONTEXT = 28
"""Characters before a number that may make it an age."""


@lru_cache(maxsize=1 << 16)
def folded(word: str) -> str:
    """The word in lower case and without accents."""
    if word.isascii():
        return word.lower()
    bare = unicodedata.normalize("NFKD", word.casefold())
    return "".join(letter for letter in bare if not unicodedata.combining(letter))


def lowered(text: str) -> str:
    """The text in lower case, of the same length (a few letters beyond ASCII become two)."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def words_of(text: str) -> tuple[str, ...]:
    """Folded words of a text in order; punctuation and underscores separate words."""
    if text.isascii():
        return tuple(_ASCII_WORD.findall(text.lower()))
    return tuple(folded(word) for word in WORD.findall(text))


def is_unspaced(word: str) -> bool:
    """True if a word is a character of a script that puts no space between words."""
    return re.match(f"[{_UNSPACED}]", unicodedata.normalize("NFC", word)) is not None


@dataclass(frozen=True)
class IndexedText:
    """A text, its folded words, and the offsets of each word in it."""

    raw: str
    words: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    @staticmethod
    @lru_cache(maxsize=32)
    def of(raw: str) -> IndexedText:
        places = [match.span() for match in (_ASCII_WORD if raw.isascii() else WORD).finditer(raw)]
        starts, ends = zip(*places, strict=True) if places else ((), ())
        # Lower-casing ASCII keeps offsets and is much faster than folding word by word.
        words = _ASCII_WORD.findall(raw.lower()) if raw.isascii() else [folded(raw[a:b]) for a, b in places]
        return IndexedText(raw, tuple(words), starts, ends)

    def joined(self, first: int, count: int, gap: int = GAP) -> bool:
        """True if ``count`` words from ``first`` on are close together in one paragraph."""
        for place in range(first, first + count - 1):
            between = self.raw[self.ends[place] : self.starts[place + 1]]
            if len(between) > gap or between.count("\n") > 1:
                return False
        return True

    def numbers(self, lengths: range, heads: Container[str] | None = None) -> Iterator[tuple[str, int, int]]:
        """Runs of up to six close words that may form a number: compact key, first word, number of words.

        Args:
            lengths: characters of a key, but for zeros in front.
            heads: the first one, two and three characters of every number; of others, runs may be left out.
        """
        words, starts, ends, digits = self.words, self.starts, self.ends, self._digits
        least, longest = lengths.start, lengths.stop - 1
        for first in sorted(digits | {place - 1 for place in digits if place}):
            head = words[first].lstrip("0")[:HEAD]
            if head and heads is not None and head not in heads:
                continue
            key = ""
            for place in range(first, min(first + PARTS, len(words))):
                gap = starts[place] - ends[place - 1] if place > first else 0
                if gap > NUMBER_GAP or (gap == 2 and self.raw[ends[place - 1] : starts[place]] == "\n\n"):
                    break
                key += words[place]
                if len(key) > longest and len(key.lstrip("0")) > longest:
                    break
                if place in digits and len(key) >= least:
                    yield key, first, place - first + 1

    @cached_property
    def _digits(self) -> set[int]:
        """Places of the words with a digit: those that are not letters alone."""
        return {place for place, word in enumerate(self.words) if not word.isalpha()}

    def word_at(self, place: int) -> int:
        """Number of words that begin before an offset."""
        return bisect_left(self.starts, place)


def number_starts(form: re.Pattern[str], text: str) -> list[int]:
    """Beginnings of forms that begin with digits, without a digit before them."""
    starts = (match.start() for match in form.finditer(text))
    return [start for start in starts if not (start and text[start - 1].isdecimal())]


def matches_at(form: re.Pattern[str], text: str, starts: Iterable[int]) -> Iterator[re.Match[str]]:
    """The matches of ``finditer`` for a form whose matches start at some of these places."""
    end = 0
    for start in starts:
        if start >= end and (match := form.match(text, start)):
            end = match.end()
            yield match


@lru_cache(maxsize=1 << 10)
def ages_in(text: str) -> tuple[tuple[int, int, int], ...]:
    """Every age in a text: start, end and years (0-120)."""
    ages = []
    for match in _YEARS.finditer(text):
        years = int(match.group())
        extent = _age_at(text, *match.span(), years) if years <= OLDEST else None
        if extent is not None:
            ages.append((*extent, years))
    return tuple(ages)


def _age_at(text: str, start: int, end: int, years: int) -> tuple[int, int] | None:
    """Start and end of the age that a number belongs to; None if it is not an age."""
    if unit := _AGE_UNIT.match(text, end):
        return start, unit.end()
    before = text[max(0, start - _AGE_CONTEXT) : start]
    # The last letters are checked first: a search costs ten times as much, and most numbers are no age.
    tail = before.rstrip().casefold()
    may_be_age = tail.removesuffix(":").rstrip().endswith(("age", "aged", "of"))
    if may_be_age and (cue := _AGE_BEFORE.search(before)) and not _DOSE.match(text, end):
        return start - len(before) + cue.start(), end
    if before[-1:] not in (".", ",", "/", ":", "-"):
        if sex := _AGE_SEX.match(text, end):
            return start, sex.end()
        letter = _AGE_LETTER.match(text, end) if end - start > 1 else None
        if letter and not _is_temperature(before, text[letter.end() : letter.end() + 8], letter.group()[-1], years):
            return start, letter.end()
    if tail.endswith(_SUBJECT_IS_ENDS) and _END_OF_AGE.match(text, end) and _SUBJECT_IS.search(before):
        return start, end
    return None


def _is_temperature(before: str, after: str, letter: str, years: int) -> bool:
    """True if ``98F`` is a temperature in degrees: by its size, or by the words around it."""
    person = re.match(r"\s?,?\s(?:with|who|w/)", after)
    degrees = years in _FAHRENHEIT and letter == "F" and not person
    return degrees or _TEMPERATURE.search(before) is not None
