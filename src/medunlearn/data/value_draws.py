"""Random values of a kind: numbers, dates, codes and names that are written as the true one is."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import date

import numpy as np

SPREAD = 0.3
"""Standard deviation of a number's factor, in natural logarithms; wider where too few numbers are that near."""
DAYS = 5 * 365
"""Half the width of a date's shift."""
TRIES = 40
"""Draws for each alternative that is wanted."""
_WIDEST = 3.0
_LETTERS, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"


def numbers_like(true: str, rng: np.random.Generator, count: int) -> Iterator[str]:
    """Distinct numbers around a centre around this one, written as it is: as many decimals, as round."""
    decimals, value, spread = _decimals(true), float(true), SPREAD
    middle = _log(value, decimals)
    seen = {true}
    while len(seen) <= count and spread < _WIDEST:
        centre = middle + spread * rng.standard_normal()
        drawn = np.round(np.exp(centre + spread * rng.standard_normal(TRIES * count)), decimals)
        for number in dict.fromkeys(drawn[drawn > 0].tolist()):
            text = f"{number:.{decimals}f}"
            if text not in seen and _as_round(text, true):
                seen.add(text)
                yield text
        spread *= 2


def numbers_among(true: str, others: Sequence[str], rng: np.random.Generator, count: int) -> Iterator[str]:
    """Numbers as likely as other subjects' values of the same measurement make them, written as this one is.

    Each is another subject's value times a log-normal factor (a kernel density by Silverman's rule, at most
    :data:`SPREAD`). A value may come more than once, and the true one may.

    Args:
        others: values of at least two other subjects.
    """
    decimals = _decimals(true)
    alike = [other for other in others if _as_round(other, true)]
    logs = np.array(
        [_log(float(other), decimals) for other in (alike if len(alike) >= len(others) / 2 else others)]
    )
    width = min(SPREAD, 1.06 * float(logs.std(ddof=1)) * len(logs) ** -0.2) if len(logs) > 1 else SPREAD
    drawn = rng.choice(logs, TRIES * count) + width * rng.standard_normal(TRIES * count)
    for number in np.round(np.exp(drawn), decimals).tolist():
        text = f"{number:.{decimals}f}"
        if number > 0 and _as_round(text, true):
            yield text


def dates_like(true: str, rng: np.random.Generator, count: int, others: Sequence[str] = ()) -> Iterator[str]:
    """ISO dates by a uniform shift; none outside the years 1 to 9999.

    Args:
        others: other subjects' dates of the same meaning; each date is one of them, shifted. Without, all are
            around a centre around this one.
    """
    days = [date.fromisoformat(other).toordinal() for other in others]
    centre = date.fromisoformat(true).toordinal() + int(rng.integers(-DAYS, DAYS + 1))
    for _ in range(TRIES * count):
        middle = days[int(rng.integers(len(days)))] if days else centre
        day = middle + int(rng.integers(-DAYS, DAYS + 1))
        if 1 <= day <= date.max.toordinal():
            yield date.fromordinal(day).isoformat()


def codes_like(
    true: str, others: Sequence[str], rng: np.random.Generator, count: int, kept: Sequence[str] = ()
) -> Iterator[str]:
    """Codes with digits and single letters drawn anew where others of the same form differ, kept where all agree.

    A word (three letters or more) is taken from another of these codes: letters of an address drawn anew would be
    told at once.

    Args:
        kept: words that stay, e.g. of a name in an e-mail address: they say nothing that the name does not say.
    """
    parts, form = _parts(true), _form(true)
    alike = [_parts(other) for other in others if _form(other) == form] or [parts]
    stay = {word.casefold() for word in kept}

    def is_free(place: int) -> bool:
        if len(parts[place]) > 1 and (parts[place].casefold() in stay or len(alike) == 1):
            return False
        return len({other[place] for other in alike}) > 1 or len(alike) == 1

    free = [is_free(place) for place in range(len(parts))]
    for _ in range(TRIES * count if any(free) else 0):
        yield "".join(
            part if not free[place] else _part_like(part, [other[place] for other in alike], rng)
            for place, part in enumerate(parts)
        )


def names_like(true: str, others: Sequence[str], rng: np.random.Generator, count: int) -> Iterator[str]:
    """Each word of a name from another person's, from the same place in names of as many words; no person's own."""
    names, words = [other.split() for other in others], true.split()
    alike = [name for name in names if len(name) == len(words)]
    known = {" ".join(name) for name in names}
    for _ in range(TRIES * count if alike else 0):
        value = " ".join(alike[int(rng.integers(len(alike)))][place] for place in range(len(words)))
        if value not in known:
            yield value


def _decimals(number: str) -> int:
    return len(number.partition(".")[2])


def _log(value: float, decimals: int) -> float:
    """Natural logarithm. Nothing is a factor of 0; the least that can be written stands for it."""
    return math.log(max(value, 10.0**-decimals))


def _as_round(text: str, true: str) -> bool:
    """Whether two numbers end alike, in 0, in 5, or in another digit, as far as both have two digits or more.

    People write round numbers: among others that are not, a round one would be told at once.
    """
    ends = [digits[-1] for one in (text, true) if len(digits := one.replace(".", "").lstrip("0")) > 1]
    return len(ends) < 2 or (ends[0] == ends[1] if {*ends} & {"0", "5"} else True)


def _parts(value: str) -> list[str]:
    """A code's words of three letters or more, and its other characters one by one."""
    return re.findall(r"[^\W\d_]{3,}|[\s\S]", value)


def _form(value: str) -> str:
    """One letter a part, the same for parts of one sort."""
    return "".join(
        "w" if len(part) > 1 else "0" if part.isdigit() else "a" if part.isalpha() else part
        for part in _parts(value)
    )


def _part_like(part: str, others: Sequence[str], rng: np.random.Generator) -> str:
    if len(part) > 1:
        return others[int(rng.integers(len(others)))]
    if part.isdigit():
        return _DIGITS[int(rng.integers(10))]
    if part.lower() in _LETTERS:
        drawn = _LETTERS[int(rng.integers(26))]
        return drawn.upper() if part.isupper() else drawn
    return part
