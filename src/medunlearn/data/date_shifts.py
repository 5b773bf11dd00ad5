"""Shift of all dates of a note by one number of days, within the dates of other notes.

Differences stay: an admission before its discharge, an age at a date. Dates in another form than
ISO are shifted by fours of years, so that day and month need not be told apart: these are 1461 days (1901 to 2099).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from medunlearn.data.facts import is_date
from medunlearn.data.records import Record
from medunlearn.data.value_draws import DAYS

FOUR_YEARS = 1461
_ISO = re.compile(r"(?<![\w-])\d{4}-\d{2}-\d{2}(?![\d-])")
_MONTH = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\.?"
_ORDINAL = r"\d{1,2}(?:st|nd|rd|th)?[.,]?\s+"
_WRITTEN = re.compile(
    rf"(?<![\w./-])(?:\d{{1,2}}([./-])\d{{1,2}}\1(?P<short>(?:(?:19|20)\d\d|\d\d))"
    rf"|(?:(?:{_ORDINAL})?(?:of\s+)?{_MONTH}\s+(?:{_ORDINAL})?|(?:in|since|until|year)\s+)(?P<year>(?:19|20)\d\d))"
    r"(?![\w/-]|[.,]\d|\s*%)",
    re.IGNORECASE,
)
"""Dates of three numbers, or words and a year."""
_AMOUNT = re.compile(r"\s*(?:[munpk]?[gl]|ml|mm|cm|units?|u|iu)\b", re.IGNORECASE)


@dataclass(frozen=True)
class DateShift:
    """A shift of dates.

    Attributes:
        days: added to each date; a multiple of :data:`FOUR_YEARS` for a note with written dates.
    """

    days: int

    def changes(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Start, end and new text of each date in a text."""
        for start, end, day in _iso_dates(text):
            yield start, end, (day + timedelta(days=self.days)).isoformat()
        for start, end in written_years(text):
            year = int(text[start:end]) + 4 * round(self.days / FOUR_YEARS)
            yield start, end, str(year) if end - start == 4 else f"{year % 100:02d}"

    def of(self, value: str) -> str:
        """A value that is a date, shifted."""
        for start, end, new in sorted(self.changes(value), reverse=True):
            value = value[:start] + new + value[end:]
        return value


def written_years(text: str) -> list[tuple[int, int]]:
    """Places of the years of dates that are not in ISO form."""
    return [match.span("short") if match["short"] else match.span("year") for match in _written(text)]


def date_places(text: str) -> list[tuple[int, int]]:
    """Places of all dates of a text."""
    iso = [(start, end) for start, end, _ in _iso_dates(text)]
    return sorted([*iso, *(match.span() for match in _written(text))])


def is_any_date(value: str) -> bool:
    """True if a value is a date, in ISO or another form."""
    return is_date(value) or _WRITTEN.fullmatch(value) is not None


class DateRanges:
    """Earliest and latest dates of notes, by their meaning: birth dates apart from those of visits."""

    def __init__(self, records: Iterable[Record]) -> None:
        ranges: dict[str, tuple[int, int]] = {}
        for record in records:
            for meaning, day in _days_of(record):
                low, high = ranges.get(meaning, (day, day))
                ranges[meaning] = min(low, day), max(high, day)
        self._ranges: Mapping[str, tuple[int, int]] = ranges

    def shift(self, record: Record, rng: np.random.Generator) -> DateShift:
        """A random shift of at most five years; each date stays between the earliest and latest of its meaning.

        Where these leave no room, between the earliest and latest of all; else into the past. No date comes to lie
        after the last one of all notes.
        """
        step = FOUR_YEARS if written_years(record.text) else 1
        own = [(day, *self._ranges.get(meaning, (day, day))) for meaning, day in _days_of(record)]
        rooms: list[tuple[int, int]] = []
        if own:
            low, high = min(low for low, _ in self._ranges.values()), max(high for _, high in self._ranges.values())
            rooms.append((max(first - day for day, first, _ in own), min(last - day for day, _, last in own)))
            rooms.append((low - min(day for day, *_ in own), high - max(day for day, *_ in own)))
        most = max(1, DAYS // step)
        for first, last in (*rooms, (-most * step, 0)):
            steps = [n * step for n in range(-most, most + 1) if n and first <= n * step <= last]
            if steps:
                return DateShift(steps[int(rng.integers(len(steps)))])
        return DateShift(0)


def _days_of(record: Record) -> Iterator[tuple[str, int]]:
    """Meaning and day of each date of a note; the day of a written one is the middle of its year,
    and one with a year of two digits has none."""
    types = {own.value: own.type for own in record.identifiers if own.type != "date" and is_any_date(own.value)}
    for value, kind in types.items():
        if is_date(value):
            yield kind, date.fromisoformat(value).toordinal()
        else:
            yield from ((kind, day) for day in _written_days(value))
    text = record.text
    for value in types:
        text = text.replace(value, " ")
    yield from (("", day.toordinal()) for _, _, day in _iso_dates(text))
    yield from (("", day) for day in _written_days(text))


def _written_days(text: str) -> Iterator[int]:
    years = (text[start:end] for start, end in written_years(text))
    yield from (date(int(year), 7, 1).toordinal() for year in years if len(year) == 4)


def _written(text: str) -> Iterator[re.Match[str]]:
    return (match for match in _WRITTEN.finditer(text) if not _AMOUNT.match(text, match.end()))


def _iso_dates(text: str) -> Iterator[tuple[int, int, date]]:
    for match in _ISO.finditer(text):
        if is_date(match.group()):
            yield *match.span(), date.fromisoformat(match.group())
