"""Full dates (day, month, year) in any written form: digits, month names in five languages, English words.

A month's name is looked up first, and the words around it are read as a day and a year, in any order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from functools import lru_cache
from itertools import product

from medunlearn.audit.identifiers.normalized_text import lowered, matches_at, number_starts

Day = tuple[int, int, frozenset[date]]
"""Start, end and possible days."""

_MONTHS = (
    ("january", "jan", "janvier", "januar", "enero", "gennaio"),
    ("february", "feb", "février", "februar", "febrero", "febbraio"),
    ("march", "mar", "mars", "märz", "marzo"),
    ("april", "apr", "avril", "abril", "aprile"),
    ("may", "mai", "mayo", "maggio"),
    ("june", "jun", "juin", "juni", "junio", "giugno"),
    ("july", "jul", "juillet", "juli", "julio", "luglio"),
    ("august", "aug", "août", "agosto"),
    ("september", "sep", "sept", "septembre", "septiembre", "settembre"),
    ("october", "oct", "octobre", "oktober", "octubre", "ottobre"),
    ("november", "nov", "novembre", "noviembre"),
    ("december", "dec", "décembre", "dezember", "diciembre", "dicembre"),
)
"""Names in English, French, German, Spanish and Italian."""
_ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")
_ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = (
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_FIRST = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_TENTH = ("tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth")
_ORDINALS = (*_FIRST, *_TENTH, "eighteenth", "nineteenth", "twentieth", *(f"twenty {word}" for word in _FIRST))
_NUMBERS = {word: number for number, word in enumerate((*_ONES, *_TEENS), 1)}
_NUMBERS |= {word: 10 * number for number, word in enumerate(_TENS, 2)} | {"oh": 0, "hundred": 0, "and": 0}
_DAYS_IN_WORDS = {word: day for day, word in enumerate((*_ORDINALS, "thirtieth", "thirty first"), 1)}
_MONTH_NUMBERS = {name: number for number, names in enumerate(_MONTHS, 1) for name in names}


def _either(words: Iterator[str] | tuple[str, ...]) -> str:
    return "|".join(word.replace(" ", r"[\s-]") for word in sorted(words, key=len, reverse=True))


_SPELT_YEAR = rf"(?:two\s+thousand|nineteen|twenty)(?:[\s-]+(?:{_either(tuple(_NUMBERS))})\b){{0,4}}"
_YEAR = rf"(?P<year>\d{{4}}(?!\d)|{_SPELT_YEAR})"
_DAY = rf"(?:the\s+)?(?P<day>(?<!\d)\d{{1,2}}(?:st|nd|rd|th|er|º)?|\b(?:{_either(tuple(_DAYS_IN_WORDS))}))"
_OF = r"(?:\s+(?:day\s+)?(?:of|de|del|di))?"
_GAP = r"[\s,./-]{0,3}"
_MONTH = re.compile(rf"(?<![^\W\d_])(?:{_either(tuple(_MONTH_NUMBERS))})(?![^\W\d_])\.?", re.IGNORECASE)
_DAY_BEFORE = re.compile(rf"(?<![\w.]){_DAY}\.?{_OF}{_GAP}$", re.IGNORECASE)
_YEAR_BEFORE = re.compile(rf"(?<!\w)(?P<year>\d{{4}}){_GAP}$")
_YEAR_AFTER = re.compile(rf"{_OF}[\s,./'’-]{{0,3}}(?:{_YEAR}|(?P<short>\d{{2}})(?!\d))(?!\w)", re.IGNORECASE)
_DAY_AFTER = re.compile(rf"{_GAP}{_DAY}(?![\d:])", re.IGNORECASE)
_BEFORE, _AFTER = 40, 60
"""Characters around a month's name that may be its day and year."""
_DIGITS = (
    re.compile(r"(?<!\d)(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})(?!\d)"),
    re.compile(
        r"(?<!\d)(?<!\d[-/.])(?P<one>\d{1,2})(?P<sep>[-/.])(?P<two>\d{1,2})(?P=sep)(?P<year>\d{4}|\d{2})(?!\d|[-/.]\d)"
    ),
    re.compile(r"(?<![\w.-])(?P<year>(?:19|20)\d\d)(?P<month>\d\d)(?P<day>\d\d)(?:T\d{4,6})?(?![\w-]|[.,]\d)"),
    re.compile(r"(?<!\d)(?P<year>\d{4})\s?年\s?(?P<month>\d{1,2})\s?月\s?(?P<day>\d{1,2})\s?日"),
    re.compile(r"(?<![\w.])(?P<day>\d{1,2})(?P<sep>[-./ ])(?P<roman>[IVX]{1,4})(?P=sep)(?P<year>\d{4})(?!\w)"),
)
_SPACED = re.compile(r"(?<![\w.-])(?P<one>\d{1,2}) (?P<two>\d{1,2}) (?P<year>(?:19|20)\d\d)(?![\w-])")
_START = re.compile(r"\d(?:\d?[-/. ](?=[\dIVX])|\d{3}(?=[-/.]\d|\s?年)|\d{7})")
"""Beginnings of each form of digits. A search for it is several times as fast as one for each form."""
_LETTERS, _ASCII_LETTERS = re.compile(r"[^\W\d_]+"), re.compile("[a-z]+")


def dates_in(text: str, *, spaced: bool = False) -> list[Day]:
    """Every full date in a text.

    Args:
        spaced: also ``12 03 2019``, which may be any numbers; for dates that are known.

    Returns:
        Start, end and possible days in order of place. ``03/04/2015`` is both the 3rd of April and the 4th of
        March; ``03/04/15`` also of 1915.
    """
    dates: list[Day] = []
    forms = (*_DIGITS, _SPACED) if spaced else _DIGITS
    starts = number_starts(_START, text)
    matches = (match for form in forms for match in matches_at(form, text, starts))
    numeric = ((*match.span(), _days(match.groupdict(""))) for match in matches)
    for start, end, days in (*numeric, *_named(text)):
        if days and not any(other < end and start < other_end for other, other_end, _ in dates):
            dates.append((start, end, days))
    return sorted(dates, key=lambda entry: entry[0])


def _months(text: str) -> Iterator[re.Match[str]]:
    """Names of months, sorted by position."""
    lower = lowered(text)
    names = _MONTH_NUMBERS.keys() & (_ASCII_LETTERS if lower.isascii() else _LETTERS).findall(lower)
    starts = {match.start() for name in names for match in re.finditer(name, lower)}
    return matches_at(_MONTH, text, sorted(starts))


@lru_cache(maxsize=1 << 10)
def _named(text: str) -> tuple[Day, ...]:
    """Dates with a month's name; the day is before it, or after it and before the year, or after both."""
    return tuple(_days_with_months(text))


def _days_with_months(text: str) -> Iterator[Day]:
    for match in _months(text):
        month = str(_MONTH_NUMBERS[match.group().rstrip(".").lower()])
        start, (first, end) = max(0, match.start() - _BEFORE), match.span()
        before, after = text[start:first], text[end : end + _AFTER]
        day, year = _DAY_BEFORE.search(before), _YEAR_AFTER.match(after)
        if day and year and (year["year"] or _may_be_short(before[day.end("day") :], after)):
            parts = {"day": day["day"], "month": month, "year": year["year"] or year["short"]}
            yield start + day.start("day"), end + year.end(), _days(parts)
        elif day := _DAY_AFTER.match(after):
            year = _YEAR_AFTER.match(after[day.end() :])
            if year and year["year"]:
                parts = {"day": day["day"], "month": month, "year": year["year"]}
                yield first, end + day.end() + year.end(), _days(parts)
            elif year := _YEAR_BEFORE.search(before):
                parts = {"day": day["day"], "month": month, "year": year["year"]}
                yield start + year.start(), end + day.end(), _days(parts)


def _may_be_short(before: str, after: str) -> bool:
    """True if two digits after a month may be a year: ``3-Apr-61``, ``12Mar19``; not ``12 Mar, 14``."""
    return "," not in before and "," not in after[:2]


def _days(parts: dict[str, str]) -> frozenset[date]:
    year = _year(parts["year"])
    years = [year] if len(parts["year"]) != 2 else [1900 + year, 2000 + year]
    if parts.get("one"):
        first, second = int(parts["one"]), int(parts["two"])
        pairs = [(first, second), (second, first)]
    elif parts.get("roman"):
        numeral = parts["roman"].lower()
        pairs = [(_ROMAN.index(numeral) + 1, int(parts["day"]))] if numeral in _ROMAN else []
    else:
        pairs = [(int(parts["month"]), _day(parts["day"]))]
    days = set()
    for whole_year, (month, day) in product(years, pairs):
        with suppress(ValueError):
            days.add(date(whole_year, month, day))
    return frozenset(days)


def _day(text: str) -> int:
    words = " ".join(re.split(r"[\s-]+", text.lower()))
    return _DAYS_IN_WORDS.get(words) or int(re.sub(r"\D", "", text) or 0)


def _year(text: str) -> int:
    """The year in digits or English words; 0 if the words are no year."""
    if text.isdecimal():
        return int(text)
    first, *rest = re.split(r"[\s-]+", text.lower())
    # ``two thousand nineteen``; ``nineteen sixty-one``, ``twenty nineteen``.
    return (2000 if first == "two" else 100 * _NUMBERS[first]) + sum(_NUMBERS.get(word, 0) for word in rest)
