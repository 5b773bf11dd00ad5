"""Dates and ages in the ways that notes write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

_NAMES = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTH = r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
_MONTH += r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4}|\d{2})"
_FORMS = (
    re.compile(r"(?<!\d)(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})(?!\d)"),
    re.compile(
        r"(?<!\d)(?<!\d[-/.])(?P<one>\d{1,2})(?P<sep>[-/.])(?P<two>\d{1,2})(?P=sep)(?P<year>\d{4}|\d{2})(?!\d|[-/.]\d)"
    ),
    re.compile(rf"\b{_MONTH}\s+{_DAY},?\s+(?P<year>\d{{4}})\b", re.IGNORECASE),
    re.compile(rf"\b{_DAY}(?:\s+of)?[\s-]+{_MONTH},?[\s-]+{_YEAR}\b", re.IGNORECASE),
)
_UNITS = r"(?:years?|yrs?|y)"
_AGE = re.compile(
    rf"\b(?P<a>\d{{1,3}})[\s-]*{_UNITS}[\s.-]*(?:of[\s-]+age|old|o\b)"
    r"|\b(?:aged?|at\s+the\s+age\s+of|age\s*:)\s*(?P<b>\d{1,3})\b(?!\s*(?:mg|mm|%))"
    r"|\b(?P<c>\d{1,3})\s*(?:yo|y/o|y\.\s?o\.?)(?!\w)"
    r"|\b(?:woman|man|lady|gentleman|girl|boy|female|male)\s+of\s+(?P<d>\d{1,3})\b"
    r"|\b(?P<e>\d{2,3})[\s-]?(?:F|M|[Ff]emale|[Mm]ale|year)\b",
    re.IGNORECASE,
)
OLDEST = 120


@dataclass(frozen=True, slots=True)
class Dated:
    """A date in a text.

    Attributes:
        start, end: its places.
        days: what it may mean; two where day and month, or the century, are open.
    """

    start: int
    end: int
    days: frozenset[date]


def dates_in(text: str) -> list[Dated]:
    """Every full date in a text: day, month and year, by numbers or by the month's English name.

    ``03/04/2015`` is both the 3rd of April and the 4th of March; ``03/04/15`` also of 1915.
    """
    found: list[Dated] = []
    lower = text.lower()
    # Twelve short words are found much faster than an expression is tried that may begin anywhere.
    named = any(month[:3] in lower for month in _NAMES)
    for form in _FORMS if named else _FORMS[:2]:
        for match in form.finditer(text):
            days = frozenset(_days(match.groupdict()))
            inside = any(one.start < match.end() and match.start() < one.end for one in found)
            if days and not inside:
                found.append(Dated(match.start(), match.end(), days))
    return sorted(found, key=lambda one: one.start)


def ages_in(text: str) -> list[tuple[int, int, int]]:
    """Every age in a text: places of its first and past its last character, and the years (0-120)."""
    found = []
    for match in _AGE.finditer(text):
        years = int(next(number for number in match.groups() if number is not None))
        if years <= OLDEST:
            found.append((match.start(), match.end(), years))
    return found


def _days(parts: dict[str, str | None]) -> Iterator[date]:
    for year in _years(str(parts["year"])):
        for month, day in _months_and_days(parts):
            try:
                yield date(year, month, day)
            except ValueError:
                continue


def _months_and_days(parts: dict[str, str | None]) -> Iterator[tuple[int, int]]:
    if parts.get("one") is not None:
        one, two = int(str(parts["one"])), int(str(parts["two"]))
        yield from {(one, two), (two, one)}
        return
    month = str(parts["month"])
    number = int(month) if month.isdigit() else 1 + [name[:3] for name in _NAMES].index(month[:3].lower())
    yield number, int(str(parts["day"]))


def _years(written: str) -> tuple[int, ...]:
    return (int(written),) if len(written) == 4 else (1900 + int(written), 2000 + int(written))
