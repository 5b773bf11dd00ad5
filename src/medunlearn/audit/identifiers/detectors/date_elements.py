"""Elements of dates more specific than the year: a month, a day and month, a season with its year, a holiday.

Full dates are in :func:`~medunlearn.audit.identifiers.written_dates.dates_in`. The Safe Harbor method takes every
element of a date but the year (45 CFR 164.514(b)(2)(i)(C)). Weekdays count only beside a date, seasons only with a
year, and numbers like ``3/4`` only where nothing around them speaks of a score, a strength or a share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from medunlearn.audit.identifiers.normalized_text import matches_at, number_starts

_SEASONS = frozenset(
    name + end for name in ("spring", "summer", "fall", "autumn", "winter") for end in ("", "time")
)
_HOLIDAYS = (
    *("new year", "valentine", "patrick's day", "mother's day", "father's day", "mother’s day", "father’s day"),
    *("mothers day", "fathers day", "presidents day", "president's day", "presidents' day", "president’s day"),
    *("memorial day", "labor day", "labour day", "columbus day", "veteran", "independence day", "boxing day"),
    *("flag day", "good friday", "palm sunday", "ash wednesday", "easter", "juneteenth", "fourth of july"),
    *("halloween", "thanksgiving", "christmas", "passover", "rosh hash", "yom kippur", "hanukkah", "chanukah"),
    *("ramadan", " eid", "diwali", "cinco de", "luther king", "mlk day", "groundhog"),
)
_OF_HOLIDAYS = frozenset(
    (
        *("year", "years", "valentine", "valentines", "patrick", "patricks", "mother", "mothers", "father"),
        *("fathers", "president", "presidents", "memorial", "labor", "labour", "columbus", "veteran", "veterans"),
        *("boxing", "independence", "flag", "good", "palm", "ash", "easter", "juneteenth", "july", "halloween"),
        *("thanksgiving", "christmas", "passover", "rosh", "yom", "hanukkah", "chanukah", "ramadan", "eid"),
        *("diwali", "cinco", "luther", "mlk", "groundhog"),
    )
)
"""A word of each holiday."""
_MONTHS = frozenset(
    (
        *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october"),
        *("november", "december", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sept", "sep", "oct", "nov"),
        *("dec",),
    )
)
_WORD = re.compile(r"\w+")
_WITH_SEPARATOR = re.compile(r"\d{1,4}(?=[/-]\d)")
_ORDINAL_WORD = (
    "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|thirteenth|fourteenth|fifteenth|"
    "sixteenth|seventeenth|eighteenth|nineteenth|twentieth|thirtieth|(?:twenty|thirty)[-\\s](?:first|second|third|"
    "fourth|fifth|sixth|seventh|eighth|ninth)"
)
_NUMBER = r"(?:0?[1-9]|[12]\d|3[01])"
_TH = r"(?:st|nd|rd|th)"
_SPOKEN_YEAR = (
    r"(?:nineteen|twenty)\s(?:\w+teen|ten|eleven|twelve|oh\s\w+|(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)"
    r"(?:[-\s](?:one|two|three|four|five|six|seven|eight|nine))?)|two\sthousand(?:\s(?:and\s)?\w+)?"
)
_YEAR = rf"(?:(?:19|20)\d\d\b|['’]\d\d\b|(?:{_SPOKEN_YEAR})\b)"
_WEEKDAY = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tues?|wed|thurs?|fri|sat|sun)\.?"
_PART = r"(?:(?:early|mid|middle|late|end|beginning)(?:[-\s](?:to[-\s]late[-\s])?|\sof\s))"
_UNIT = r"(?!\s?(?:mg|mcg|ml|mm|cm|g\b|kg|units|%|/|\d|:\d))"

_AFTER_MONTH = re.compile(
    rf"(?:\s|-)(?:the\s)?(?P<day>{_NUMBER}{_TH}?|(?:{_ORDINAL_WORD}))\b"
    rf"(?:\s?(?:-|–|to|through|thru|and|&)\s?{_NUMBER}{_TH}?\b(?!\s?[/:]))?(?:,?\s(?P<year>{_YEAR}))?{_UNIT}"
    rf"|,?\s(?:of\s)?(?P<only_year>{_YEAR})",
    re.IGNORECASE,
)
_DAY_BEFORE = re.compile(
    rf"(?<![\w/.])(?P<lead>{_WEEKDAY},?\s)?(?:the\s)?"
    rf"(?P<first>{_NUMBER}{_TH}?|(?:{_ORDINAL_WORD})(?:\s(?:week|weekend|half|part))?)"
    rf"(?:\s?(?:-|–|to|through|thru|and)\s?{_NUMBER}{_TH}?)?(?P<join>\s(?:day\s)?of\s|[-\s])$",
    re.IGNORECASE,
)
_HEAD = re.compile(rf"\b(?:{_WEEKDAY},?\s(?:the\s)?(?:{_PART})?|{_PART})$", re.IGNORECASE)
_YEAR_AFTER = re.compile(rf"[,-]?\s?{_YEAR}", re.IGNORECASE)
_SEASON = re.compile(
    rf"\b(?:{_PART})?(?:spring|summer|fall|autumn|winter)(?:time)?(?:\sof)?,?\s(?:the\syear\s)?{_YEAR}",
    re.IGNORECASE,
)
_HOLIDAY = re.compile(
    r"\b(?:new\syear['’]?s(?:\s(?:day|eve))?|(?:martin\sluther\sking|mlk|groundhog|valentine['’]?s|st\.?\spatrick['’]?s|"
    r"presidents?['’]?s?|mother['’]?s|father['’]?s|memorial|labou?r|columbus|veterans?['’]?s?|independence|boxing|"
    r"flag)\sday|good\sfriday|palm\ssunday|ash\swednesday|easter(?:\s(?:sunday|monday|weekend))?(?!\sseal)|juneteenth|"
    r"(?:the\s)?fourth\sof\sjuly|halloween|thanksgiving(?:\sday|\seve)?|"
    r"christmas(?:\s(?:day|eve|time))?(?!\s(?:tree|disease))|passover|rosh\shashanah|yom\skippur|hanukkah|chanukah|"
    r"ramadan|eid(?:\sal[-\s]\w+)?|diwali|cinco\sde\smayo)\b",
    re.IGNORECASE,
)
_MONTH_YEAR = re.compile(r"(?<![\d/.-])(?:0?[1-9]|1[0-2])/(?:19|20)\d\d(?![\d/])")
_ISO_MONTH = re.compile(r"(?<![\d/.-])(?:19|20)\d\d-(?:0[1-9]|1[0-2])(?![\d-])")
_NUMERIC = re.compile(
    r"(?<![\d/.])(?<!\d-)(?P<month>0?[1-9]|1[0-2])/(?P<day>0[1-9]|[12]\d|3[01]|[1-9])"
    rf"(?:\s?-\s?(?:0?[1-9]|1[0-2])/{_NUMBER})?(?![\d/%]|-\d|\.\d|[A-Za-z])"
)
_WEEKDAY_BEFORE = re.compile(rf"\b{_WEEKDAY},?\s$", re.IGNORECASE)
_ALONE = re.compile(
    rf"\b[Oo]n\s(?P<it>the\s{_NUMBER}{_TH}\b)(?!\s(?:of\b|post|hospital|percentile|day\b|rib|attempt))"
)
_BEFORE_MONTH = re.compile(
    r"\b(?:in|since|by|until|till|til|from|through|thru|during|last|this|next|of|for|before|after|around|about|every|"
    r"between|and|or|to|mid|early|late)\s$",
    re.IGNORECASE,
)
_CAPITALIZED_NEXT = re.compile(r"[ \t][A-Z][a-z]+")
_BEFORE_MARCH = re.compile(r"\b(?:last|this|next|in|since|until)\s$", re.IGNORECASE)
"""Before ``march`` in lower case, which is also a verb."""
_DATE_CUE = re.compile(
    r"\b(?:on|since|until|till|from|of|dated?|through|thru|by|before|after|removed|out|placed|discharged|admitted|adm|"
    r"drawn|seen|started|stopped|begun|done|night\sof|morning\sof|d/c['’]?d?|home|last|next|due|exam|study|cxr|ct|mri|"
    r"egd|us|echo|cath|collected|received|visit|appt|appointment|f/u|follow[-\s]?up|starting|beginning|as\sof|edd|lmp)"
    r"\s?[:,]?\s$",
    re.IGNORECASE,
)
_SCORED = re.compile(
    r"\b(?:pain|strength|scor\w+|rated?|severity|gcs|coma|apgars?|intensity)\b[^.;\n]{0,30}$", re.IGNORECASE
)
_NO_DATE = re.compile(
    r"\b(?:power|motor|murmur|grade|graded|ratio|reflexes|scale|pulses?|mallampati|bp|pressure|acuity|dtrs?|level|recall|"
    r"biceps|triceps|deltoids?|quadriceps|grip|flexion|extension|is|was|are|were|at)\b[^.;\n]{0,18}$",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"\s?(?:(?:positive|lymph|sentinel|of\sthe)\s|nodes?|cores?|criteria|systolic|diastolic|murmur|strength|pain|"
    r"in\s(?:the|all|bilateral|both)|throughout|bilaterally|symmetric|and\ssymmetric|intensity|harsh|holosystolic|dose|"
    r"tablet|tab\b|cup|normal|inch|\"|of\sa|word|objects|recall|ns\b|saline|lead)",
    re.IGNORECASE,
)
_SHARES = (2, 3, 4, 5, 6, 8, 9, 10)
"""Scales that small numbers are usually parts of: strengths of 5, murmurs of 6, pains of 10, Apgar scores of 10."""
_UNSURE = ("may", "march")
_SURE_ALONE = ("january", "february", "july", "september", "october", "november", "december")


class DateElement(NamedTuple):
    """A partial date with its character offsets; ``sure`` if it has a day and month, or a year."""

    start: int
    end: int
    sure: bool


def date_elements_in(text: str, lower: str) -> Iterator[DateElement]:
    """Every partial date, unordered; of overlapping ones the longest is meant.

    Args:
        lower: the text in lower case, of the same length.
    """
    starts = number_starts(_WITH_SEPARATOR, text)
    for match in (*matches_at(_MONTH_YEAR, text, starts), *matches_at(_ISO_MONTH, text, starts)):
        yield DateElement(*match.span(), True)
    for match in matches_at(_NUMERIC, text, starts):
        weekday = _WEEKDAY_BEFORE.search(text, max(0, match.start() - 12), match.start())
        if weekday or _is_date(text, match):
            yield DateElement((weekday or match).start(), match.end(), True)
    words = frozenset(_WORD.findall(lower))
    for month in _MONTHS & words:
        for match in re.finditer(rf"\b{month}\b", lower):
            if element := _date_with_month(text, *match.span()):
                yield element
    if not words.isdisjoint(_SEASONS):
        for match in _SEASON.finditer(text):
            yield DateElement(*match.span(), True)
    if not words.isdisjoint(_OF_HOLIDAYS) and any(holiday in lower for holiday in _HOLIDAYS):
        for match in _HOLIDAY.finditer(text):
            yield DateElement(*match.span(), False)
    for match in _ALONE.finditer(text):
        yield DateElement(*match.span("it"), False)


def _date_with_month(text: str, start: int, end: int) -> DateElement | None:
    """The date around the name of a month, which has these offsets."""
    month = text[start:end]
    end += text.startswith(".", end)
    is_clear = month[0].isupper() or (month.lower() not in _UNSURE and len(month) > 3)
    before = text[max(0, start - 40) : start]
    lead = _DAY_BEFORE.search(before)
    if lead:
        year = _YEAR_AFTER.match(text, end)
        if is_clear or year or lead["first"][-1:].isalpha() or lead["join"] != " ":
            return DateElement(start - len(before) + lead.start(), year.end() if year else end, True)
    head = _HEAD.search(before)
    if head:
        start -= len(before) - head.start()
    after = _AFTER_MONTH.match(text, end)
    if after:
        if is_clear or after["day"] is None or after["year"] or after["day"][-1:].isalpha():
            return DateElement(start, after.end(), True)
    elif _is_month(text, month, before, end, bool(head)):
        return DateElement(start, end - (text[end - 1] == "."), False)
    return None


def _is_month(text: str, month: str, before: str, end: int, head: bool) -> bool:
    """True if a month without a day or year is a month: ``May`` and ``Dec`` need a cue, ``April Vane`` is a
    person.
    """
    lower = month.lower()
    if lower in _SURE_ALONE and month[0].isupper():
        return True
    is_name = text[end - 1] != "." and _CAPITALIZED_NEXT.match(text, end)
    if is_name or not (head or _BEFORE_MONTH.search(before)):
        return False
    return (
        month[0].isupper()
        or (lower not in _UNSURE and len(month) > 3)
        or (lower == "march" and bool(_BEFORE_MARCH.search(before)))
    )


def _is_date(text: str, match: re.Match[str]) -> bool:
    """True if two numbers around a slash are a day and month, not a score, a strength or a fraction."""
    month, day, start = int(match["month"]), int(match["day"]), match.start()
    before, after = text[max(0, start - 40) : start], text[match.end() : match.end() + 24]
    if "-" in match.group():
        return True
    if _COUNTED.match(after) or _SCORED.search(before):
        return False
    if _DATE_CUE.search(before):
        return True
    return not (day in _SHARES and month <= day) and day != 1 and not _NO_DATE.search(before)
