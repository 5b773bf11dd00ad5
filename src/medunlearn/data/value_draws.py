"""Random numbers, dates, codes and names in the notation of a true value."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import islice

import numpy as np

SPREAD = 0.3
"""Standard deviation of a number's factor, in natural logarithms; wider where too few numbers are that near."""
DAYS = 5 * 365
"""Half the width of a date's shift."""
FEWEST = 9
"""Alternatives without which a fact is not ranked: p could not go below 0.1."""
USUAL = 0.2
"""Share of draws that may equal the true value; one that is more usual tells too little."""
TRIES = 40
"""Draws for each alternative that is wanted."""
_WIDEST = 3.0
_LETTERS, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"


def numbers_like(true: str, rng: np.random.Generator, count: int) -> Iterator[str]:
    """Numbers drawn around a random centre near the true one, with its number of decimals and roundness.

    Values may repeat, and the true one may be drawn: widening the range until all differ would leave a true value
    of few digits at its lower end. The spread is doubled until the first ``count`` values are informative
    (:func:`is_telling`).
    """
    decimals, ending, spread = _decimals(true), _last_digit_class(true), SPREAD
    middle = _log(float(true), decimals)
    values: list[str] = []
    more: Iterator[str] = iter(values)
    while spread < _WIDEST and not is_telling(values, true):
        deque(more, maxlen=0)  # They take random numbers too.
        centre = middle + spread * rng.standard_normal()
        logs = centre + spread * rng.standard_normal(TRIES * count)
        more = _format(logs, [ending] * len(logs), decimals, rng)
        values = list(islice(more, count))
        spread *= 2
    yield from values
    yield from more


def is_telling(draws: Sequence[str], true: str) -> bool:
    """True if the draws contain enough other values: :data:`FEWEST`, or half of the draws if that is less."""
    return len({*draws} - {true}) >= min(FEWEST, max(1, len(draws) / 2)) and draws.count(true) <= USUAL * len(draws)


def numbers_among(true: str, others: Sequence[str], rng: np.random.Generator, count: int) -> Iterator[str]:
    """Numbers drawn from the distribution of other subjects' values of a measurement, with the true one's decimals.

    Each is another subject's value times a log-normal factor (a kernel density by Silverman's rule, at most
    :data:`SPREAD`), shrunk towards the mean to keep the variance, and as round as that value. Values may repeat,
    and the true one may be drawn.

    Source: Silverman 1986, "Density estimation for statistics and data analysis", Section 6.4.1, for the smoothed
    bootstrap that keeps the variance.

    Args:
        others: values of at least two other subjects.
    """
    decimals = _decimals(true)
    alike = [other for other in others if _decimals(other) == decimals]
    values = alike if len(alike) > 1 else list(others)
    logs = np.array([_log(float(value), decimals) for value in values])
    spread, mean = float(logs.std(ddof=1)) if len(logs) > 1 else SPREAD, float(logs.mean())
    width = min(SPREAD, 1.06 * spread * len(logs) ** -0.2)
    shrink = spread / np.hypot(spread, width) if spread else 1.0
    centres = rng.integers(len(logs), size=TRIES * count)
    draws = mean + shrink * (logs[centres] - mean + width * rng.standard_normal(len(centres)))
    endings = [_last_digit_class(value) for value in values]
    yield from _format(draws, [endings[place] for place in centres.tolist()], decimals, rng)


def numbers_near(centre: str, others: Sequence[str], rng: np.random.Generator, count: int) -> Iterator[str]:
    """Numbers around one subject's value of a measurement, with half the width of :func:`numbers_among`.

    The centre itself is drawn, so that a small width keeps apart what the measurement keeps apart.

    Args:
        others: values of the measurement of at least two subjects.
    """
    decimals = _decimals(centre)
    logs = [_log(float(value), decimals) for value in others]
    width = min(SPREAD, 1.06 * float(np.std(logs, ddof=1)) * len(logs) ** -0.2) / 2
    draws = _log(float(centre), decimals) + width * rng.standard_normal(count)
    yield from _format(draws, [_last_digit_class(centre)] * count, decimals, rng)


def dates_like(true: str, rng: np.random.Generator, count: int, others: Sequence[str] = ()) -> Iterator[str]:
    """ISO dates by a uniform shift; dates outside the years 1 to 9999 are dropped.

    Args:
        others: other subjects' dates of the same meaning; each drawn date is one of them, shifted. Empty: all are
            drawn around a random centre near the true one.
    """
    days = [date.fromisoformat(other).toordinal() for other in others]
    centre = date.fromisoformat(true).toordinal() + int(rng.integers(-DAYS, DAYS + 1))
    for _ in range(TRIES * count):
        middle = days[int(rng.integers(len(days)))] if days else centre
        day = middle + int(rng.integers(-DAYS, DAYS + 1))
        if 1 <= day <= date.max.toordinal():
            yield date.fromordinal(day).isoformat()


def codes_like(
    true: str, others: Sequence[str], rng: np.random.Generator, count: int, fixed_words: Sequence[str] = ()
) -> Iterator[str]:
    """Codes with digits and single letters redrawn where other codes of the same form differ.

    A word (three letters or more) is taken from another of these codes: random letters in an address would be
    recognized at once.

    Args:
        fixed_words: words to keep, e.g. of a name in an e-mail address: they add nothing to the name.
    """
    parts, form = _parts(true), _form(true)
    alike = [_parts(other) for other in others if _form(other) == form] or [parts]
    stay = {word.casefold() for word in fixed_words}

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
    """Names combined from words of other people's names of the same length; never a real person's name."""
    names, words = [other.split() for other in others], true.split()
    alike = [name for name in names if len(name) == len(words)]
    own_names = {" ".join(name) for name in names}
    for _ in range(TRIES * count if alike else 0):
        value = " ".join(alike[int(rng.integers(len(alike)))][place] for place in range(len(words)))
        if value not in own_names:
            yield value


def _decimals(number: str) -> int:
    return len(number.partition(".")[2])


def _log(value: float, decimals: int) -> float:
    """Natural logarithm; zero is replaced by the smallest value with this number of decimals."""
    return math.log(max(value, 10.0**-decimals))


def _last_digit_class(number: str) -> str:
    """Roundness class of a number: last digit ``0``, ``5``, or ``other``; "" for a single digit.

    People write round numbers: a round one would be recognized at once among others that are not.
    """
    digits = number.replace(".", "").lstrip("0")
    return "" if len(digits) < 2 else digits[-1] if digits[-1] in "05" else "other"


def _format(
    logs: np.ndarray[tuple[int], np.dtype[np.float64]],
    endings: Sequence[str],
    decimals: int,
    rng: np.random.Generator,
) -> Iterator[str]:
    """Numbers from their logarithms, moved to the next one with the given ending; non-positive ones are dropped."""
    for value, ending in zip((np.exp(logs) * 10**decimals).tolist(), endings, strict=True):
        number = round(value)
        if ending in ("0", "5"):
            number = 10 * round((value - int(ending)) / 10) + int(ending)
        elif ending == "other" and number % 5 == 0:
            number += 1 - 2 * int(rng.integers(2))
        if number > 0:
            yield f"{number / 10**decimals:.{decimals}f}"


def _parts(value: str) -> list[str]:
    """Split a code into words of three letters or more and single other characters."""
    return re.findall(r"[^\W\d_]{3,}|[\s\S]", value)


def _form(value: str) -> str:
    """Form of a code: one letter per part, equal for parts of one type."""
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
        letter = _LETTERS[int(rng.integers(26))]
        return letter.upper() if part.isupper() else letter
    return part
