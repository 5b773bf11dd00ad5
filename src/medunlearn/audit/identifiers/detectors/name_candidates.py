"""Candidates for person names: runs of capitalized words, with their context."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from medunlearn.audit.identifiers.detectors.gazetteer import gazetteer
from medunlearn.audit.identifiers.normalized_text import folded

_CAPITALIZED = re.compile(r"[^\W\d_a-z][^\W\d_]*(?:['’-][^\W\d_]+)*")
MOST_WORDS = 5
"""Words of a name."""
_BEFORE, _AFTER = 48, 60
_GAP = re.compile(r"\.?[ \t]{1,2}\n?[ \t]*|\.?\n[ \t]*|\.(?=[A-Z])")
_PARTICLES = re.compile(r"\s(?:(?:de|del|los|las|da|dos|di|van|von|den|der|la|el|al|bin|ibn|ter|y)\s)+")
_ENDINGS = re.compile(
    r"(?:ing|ed|ly|tion|sion|osis|itis|emia|ectomy|otomy|oscopy|ology|ologist|graphy|graphic|ity|ness|ment|ance|ence|ical|"
    r"ous|ive|able|ible|ine|mab|pril|olol|statin|azole|cillin|mycin)$"
)


class CapitalizedWord(NamedTuple):
    """A capitalized word: its offsets, without ``'s``, and its folded form (lower case, no accents)."""

    start: int
    end: int
    lower: str


@dataclass(frozen=True)
class NameCandidate:
    """Adjacent capitalized words, none of them on the list of non-names."""

    text: str
    words: Sequence[CapitalizedWord]

    @property
    def start(self) -> int:
        return self.words[0].start

    @property
    def end(self) -> int:
        return self.words[-1].end

    @cached_property
    def before(self) -> str:
        """The text before it, at most 48 characters."""
        return self.text[max(0, self.start - _BEFORE) : self.start]

    @cached_property
    def after(self) -> str:
        """The text after it, at most 60 characters."""
        return self.text[self.end : self.end + _AFTER]

    @cached_property
    def full(self) -> Sequence[CapitalizedWord]:
        """Its words without initials and placeholders."""
        return [word for word in self.words if len(word.lower) > 1 and word.lower not in ("xyz", "abc")]

    @cached_property
    def has_given(self) -> bool:
        """True if one of its words is a given name, even one that is also another word."""
        lists = gazetteer()
        return any(word.lower in lists.given or word.lower in lists.ambiguous for word in self.full)

    @cached_property
    def is_plausible(self) -> bool:
        """True if it ends like a name and not like a word (``Ambulating``), or begins with a given name."""
        return ends_like_name(self.full[-1].lower) or self.full[0].lower in gazetteer().given

    @property
    def is_acronym(self) -> bool:
        """True for a single short word in capitals."""
        return len(self.full) == 1 and self.end - self.start < 5 and self.text[self.start : self.end].isupper()

    @property
    def starts_line(self) -> bool:
        return self.text[: self.start].rstrip(" \t")[-1:] in ("", "\n")

    @property
    def starts_sentence(self) -> bool:
        return self.before.rstrip()[-1:] in ("", ".", ":", "|")


def ends_like_name(word: str) -> bool:
    """True if a lower-case word lacks the endings of verbs, drugs, diseases and procedures."""
    return _ENDINGS.search(word) is None


def name_candidates(text: str, words: Iterable[CapitalizedWord]) -> Iterator[NameCandidate]:
    """Every candidate in a text, sorted by position.

    Args:
        words: of the text, by :func:`capitalized_words`.
    """
    run: list[CapitalizedWord] = []
    end = 0
    for word in words:
        gap = text[end : word.start]
        if run and not _joins_words(gap, run[-1]):
            yield NameCandidate(text, run[:MOST_WORDS])
            run = []
        if _may_be_name(text, word, run):
            run.append(word)
        elif run:
            yield NameCandidate(text, run[:MOST_WORDS])
            run = []
        end = word.end
    if run:
        yield NameCandidate(text, run[:MOST_WORDS])


def capitalized_words(text: str) -> Iterator[CapitalizedWord]:
    """Capitalized words of a text, in order."""
    for match in _CAPITALIZED.finditer(text):
        word, last = match.group(), match.end()
        if word.endswith(("'s", "’s", "'S")):
            word, last = word[:-2], last - 2
        if word[0].isupper():
            yield CapitalizedWord(match.start(), last, folded(word))


def _may_be_name(text: str, word: CapitalizedWord, run: Sequence[CapitalizedWord]) -> bool:
    lists = gazetteer()
    if (word.start and text[word.start - 1].isalnum()) or not text[word.start].isupper():
        return False
    masked = len(word.lower) > 1 and not word.lower.strip("x")
    if masked or text[word.end : word.end + 1].isdigit():
        return False
    # Behind a given name, Young and White are family names.
    behind_given = bool(run) and run[-1].lower in lists.given and word.lower in lists.family
    return behind_given or word.lower not in lists.no_names


def _joins_words(gap: str, last: CapitalizedWord) -> bool:
    if _GAP.fullmatch(gap):
        return gap[0] != "." or len(last.lower) == 1 or last.lower in ("st", "jr", "sr")
    return _PARTICLES.fullmatch(gap) is not None
