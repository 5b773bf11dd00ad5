"""Dates and ages that follow from a date before them in the same text.

A discharge is a few days after an admission, and an age goes with a birth date: whoever reads the first can tell
the second, without having seen the patient.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property

import numpy as np

from medunlearn.data.facts import Fact, values_in
from medunlearn.data.measurements import ENOUGH, Key, shorter_keys, words_around

NEAREST = 3
"""Dates before a date from which it may follow."""
_AGE_BEFORE = re.compile(
    r"\b(?:aged?(?: of)?|(?:wo)?man of|boy of|girl of|person of|(?:fe)?male of)\s*:?\s*$", re.IGNORECASE
)
_AGE_AFTER = re.compile(r"[\s-]*(?:(?:years?|yrs?|months?)[\s-]*old|y/?o)\b", re.IGNORECASE)
_BIRTH = re.compile(r"\b(?:born|birth\w*|d\.?o\.?b)\b", re.IGNORECASE)
_REACH = 30


@dataclass(frozen=True, slots=True)
class EarlierDate:
    """A date from which a later one of the same text follows.

    Attributes:
        value: the date, in ISO form.
        intervals: days from it to the later date, one for each other subject; empty if too few have both.
    """

    value: str
    intervals: tuple[int, ...]


class DateIntervals:
    """Intervals between the dates of each subject's texts, by the words around both.

    Args:
        texts: pairs of a subject and a text about it.
    """

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        self._texts = list(dict.fromkeys(texts))

    def before(self, text: str, fact: Fact, subject: str) -> EarlierDate | None:
        """The date before a date at which it stands most regularly, of the nearest ones; None without any."""
        pairs = [(earlier, keys) for later, earlier, keys in _pairs(text) if later.start == fact.start]
        choices = [EarlierDate(earlier.of(text), self._of_others(keys, subject)) for earlier, keys in pairs]
        # The first one without others, if none has any.
        return min(choices, key=lambda choice: spread_of(choice.intervals), default=None)

    def _of_others(self, keys: Iterable[tuple[Key, Key]], subject: str) -> tuple[int, ...]:
        for key in keys:
            days = [days for who, days in self._index.get(key, {}).items() if who != subject]
            if len(days) >= ENOUGH:
                return tuple(days)
        return ()

    @cached_property
    def _index(self) -> Mapping[tuple[Key, Key], Mapping[str, int]]:
        index: dict[tuple[Key, Key], dict[str, int]] = defaultdict(dict)
        for subject, text in self._texts:
            for later, earlier, keys in _pairs(text):
                days = (date.fromisoformat(later.of(text)) - date.fromisoformat(earlier.of(text))).days
                for key in keys:
                    index[key].setdefault(subject, days)
        return index


def spread_of(days: Iterable[int]) -> float:
    """Standard deviation of numbers of days; infinite for fewer than two."""
    values = [*days]
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("inf")


def follows_from_birth(before: str, text: str, fact: Fact, births: Collection[str] = ()) -> bool:
    """True if a fact is an age behind a birth date, or the other way round.

    Args:
        before: text before ``text``, such as a question.
        births: known birth dates; others are told by a word before them.
    """
    whole, place = before + "\n" + text, len(before) + 1
    tied = birth_with_age(whole[: fact.end + place] + whole[fact.end + place :][:_REACH], births)
    return fact.start + place in tied and fact.start + place > min(tied)


def birth_with_age(text: str, births: Collection[str] = ()) -> set[int]:
    """Start of each birth date and each age of a text that gives both; empty if it gives but one.

    Args:
        births: as of :func:`follows_from_birth`.
    """
    values = values_in(text)
    dates = [fact for fact in values if fact.kind == "date"]
    born = {fact.start for fact in dates if fact.of(text) in births or _is_birth(text, fact)}
    ages = {fact.start for fact in values if fact.kind == "number" and is_age(text, fact)}
    return born | ages if born and ages else set()


def is_age(text: str, fact: Fact) -> bool:
    """True if a number is given as somebody's age."""
    before, behind = text[max(0, fact.start - 20) : fact.start], text[fact.end : fact.end + 20]
    return _AGE_BEFORE.search(before) is not None or _AGE_AFTER.match(behind) is not None


def _is_birth(text: str, fact: Fact) -> bool:
    return _BIRTH.search(text[max(0, fact.start - _REACH) : fact.start]) is not None


def _pairs(text: str) -> Iterator[tuple[Fact, Fact, list[tuple[Key, Key]]]]:
    """Each date with each of those before it, and the words around both, the most specific first."""
    dates = [fact for fact in values_in(text) if fact.kind == "date"]
    for place, later in enumerate(dates):
        for earlier in dates[max(0, place - NEAREST) : place]:
            keys = (shorter_keys(words_around(text, fact)) for fact in (later, earlier))
            yield later, earlier, [*zip(*keys, strict=False)]
