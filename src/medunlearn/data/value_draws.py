"""Random numbers, dates, codes and names in the notation of a true value."""

from __future__ import annotations

import math
import re
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import date
from itertools import chain, islice
from typing import TypeVar

import numpy as np

T = TypeVar("T", bound=Hashable)
Floats = np.ndarray[tuple[int], np.dtype[np.float64]]

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
_LOOK = 400
"""Draws that show whether enough of them are values that nobody has."""
_SHARED = 0.9
"""Share of codes that must share their beginning with another for it to be kept."""
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
    :data:`SPREAD`), shrunk towards the mean to keep the variance, as round as that value, and within the range of
    all values. Values may repeat, and the true one may be drawn.

    Source: Silverman 1986, "Density estimation for statistics and data analysis", Section 6.4.1, for the smoothed
    bootstrap that keeps the variance.

    Args:
        others: values of at least two other subjects.
    """
    decimals = _decimals(true)
    alike = [other for other in others if _decimals(other) == decimals]
    values = alike if len(alike) > 1 else list(others)
    logs = np.array([_log(float(value), decimals) for value in values])
    centres, draws = _smoothed_bootstrap(logs, SPREAD, rng, TRIES * count)
    endings = [_last_digit_class(value) for value in values]
    numbers = [float(value) for value in (true, *values)]
    low, high = min(numbers), max(numbers)
    for draw in _format(draws, [endings[place] for place in centres.tolist()], decimals, rng):
        if low <= float(draw) <= high:
            yield draw


def days_among(true: int, others: Sequence[int], rng: np.random.Generator, count: int) -> Iterator[int]:
    """Whole numbers of days drawn as :func:`numbers_among` draws numbers, on a linear scale.

    The kernel is at most :data:`DAYS` wide.
    """
    values = np.array(others, dtype=np.float64)
    low, high = min(true, *others), max(true, *others)
    for draw in np.rint(_smoothed_bootstrap(values, DAYS, rng, TRIES * count)[1]).astype(int).tolist():
        if low <= draw <= high:
            yield draw


def draw_alike(true: T, others: Sequence[T], smoothed: Iterable[T], rng: np.random.Generator) -> Iterator[T]:
    """Values that others share if another subject shares the true one, else values that nobody has.

    A model that saw the others' texts has seen a shared value and no value of one subject alone; so both are
    compared with values of which the same is true. Where these are too few, with all values that others have, or
    with all draws. The true value may be drawn.

    Args:
        others: one value for each other subject.
        smoothed: draws from the distribution of all, used where the true value is not shared.
    """
    counts = Counter([true, *others])
    if counts[true] == 1:
        draws = iter(smoothed)
        first = list(islice(draws, _LOOK))
        only = len({*first} - {*others, true}) >= FEWEST
        yield from (value for value in chain(first, draws) if value == true or not only or value not in counts)
        return
    shared = [value for value in others if counts[value] > 1]
    values = shared if len({*shared} - {true}) >= FEWEST else others
    while True:
        yield values[int(rng.integers(len(values)))]


def _smoothed_bootstrap(
    values: Floats, widest: float, rng: np.random.Generator, count: int
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Floats]:
    """Draws of a kernel density that keeps the variance of the values, and the index of each one's centre."""
    spread, mean = float(values.std(ddof=1)) if len(values) > 1 else widest, float(values.mean())
    width = min(widest, 1.06 * spread * len(values) ** -0.2)
    shrink = spread / np.hypot(spread, width) if spread else 1.0
    centres = rng.integers(len(values), size=count)
    return centres, mean + shrink * (values[centres] - mean + width * rng.standard_normal(count))


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
    """ISO dates; dates outside the years 1 to 9999 are dropped.

    Args:
        others: other subjects' dates of the same meaning: dates are drawn as these are spread
            (:func:`days_among`). Empty: by a uniform shift of a random centre near the true date.
    """
    day = date.fromisoformat(true).toordinal()
    if others:
        days = [date.fromisoformat(other).toordinal() for other in others]
        yield from _iso_dates(draw_alike(day, days, days_among(day, days, rng, count), rng))
        return
    centre = day + int(rng.integers(-DAYS, DAYS + 1))
    yield from _iso_dates(centre + int(rng.integers(-DAYS, DAYS + 1)) for _ in range(TRIES * count))


def dates_after(
    true: str, before: str, intervals: Sequence[int], rng: np.random.Generator, count: int
) -> Iterator[str]:
    """ISO dates at other subjects' intervals from an earlier date of the same text, smoothed.

    Args:
        before: the earlier date, which stays.
        intervals: in days, one for each other subject.
    """
    start = date.fromisoformat(before).toordinal()
    own = date.fromisoformat(true).toordinal() - start
    draws = draw_alike(own, intervals, days_among(own, intervals, rng, count), rng)
    yield from _iso_dates(start + days for days in draws)


def _iso_dates(days: Iterable[int]) -> Iterator[str]:
    return (date.fromordinal(day).isoformat() for day in days if 1 <= day <= date.max.toordinal())


def codes_like(
    true: str, others: Sequence[str], rng: np.random.Generator, count: int, fixed_words: Sequence[str] = ()
) -> Iterator[str]:
    """Codes with another code's beginning, and digits and single letters redrawn where other codes differ.

    The beginning is as long as those that others share (an area code, a year); what follows is redrawn place by
    place, mostly as others have it there. A word (three letters or more) is taken from another of these codes:
    random letters in an address would be recognized at once.

    Args:
        others: codes of its type, none of which is drawn; only those of the same form count.
        fixed_words: words to keep, e.g. of a name in an e-mail address: they add nothing to the name.
    """
    parts = _parts(true)
    donors = [_parts(other) for other in codes_of_form(true, others)]
    everybody, stay = [parts, *donors], {word.casefold() for word in fixed_words}

    def is_free(place: int) -> bool:
        if len(parts[place]) > 1 and (parts[place].casefold() in stay or not donors):
            return False
        return len({other[place] for other in everybody}) > 1 or not donors

    free, taken = [is_free(place) for place in range(len(parts))], set(others) - {true}

    def drawn(donor: Sequence[str], shared: int) -> Iterator[str]:
        for place, part in enumerate(parts):
            if not free[place]:
                yield part
            elif place < shared:
                yield donor[place]
            else:
                yield _part_like(part, [other[place] for other in donors], rng)

    # Where all codes with such a beginning are taken, as of numbers in a row, a shorter one.
    for shared in range(_shared_length(donors), -1, -1) if any(free) else ():
        for _ in range(TRIES * count):
            donor = donors[int(rng.integers(len(donors)))] if donors else parts
            value = "".join(drawn(donor, shared))
            if value not in taken:
                yield value


def beginning_test(others: Sequence[str]) -> Callable[[str], bool]:
    """Test whether a code begins as some of other codes of its form do, as far as they share beginnings."""
    donors = [_parts(other) for other in others]
    length = _shared_length(donors)
    beginnings = {tuple(donor[:length]) for donor in donors}
    return lambda code: tuple(_parts(code)[:length]) in beginnings


def codes_of_form(true: str, others: Iterable[str]) -> list[str]:
    """The other codes whose parts are of the same types as the true one's."""
    form = _form(true)
    return [other for other in others if other != true and _form(other) == form]


def names_like(true: str, others: Sequence[str], rng: np.random.Generator, count: int) -> Iterator[str]:
    """Names combined from words of other people's names of the same length; never another real person's name.

    Names repeat, as usual names do, and the true one may be drawn.
    """
    names, words = [other.split() for other in others if other != true], true.split()
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


def _shared_length(codes: Sequence[Sequence[str]]) -> int:
    """Parts at the beginning that nearly all codes share with another; 0 for fewer than :data:`FEWEST` codes."""
    length = 0
    for end in range(1, len(codes[0]) + 1 if len(codes) >= FEWEST else 0):
        counts = Counter(tuple(code[:end]) for code in codes)
        if sum(n for n in counts.values() if n > 1) < _SHARED * len(codes):
            break
        length = end
    return length


def _part_like(part: str, others: Sequence[str], rng: np.random.Generator) -> str:
    """Another code's part in this place, or with the weight of half an observation each any digit or letter."""
    if len(part) > 1:
        return others[int(rng.integers(len(others)))]
    choices = _DIGITS if part.isdigit() else _LETTERS if part.lower() in _LETTERS else ""
    if not choices:
        return part
    place = int(rng.integers(2 * len(others) + len(choices)))
    value = others[place // 2] if place < 2 * len(others) else choices[place - 2 * len(others)]
    return value.upper() if part.isupper() else value
