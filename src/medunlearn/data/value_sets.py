"""Joint draws of a note's numbers: the sets of values of other subjects, smoothed, within the observed ranges.

A measurement is known by its words, as for alternatives (:mod:`medunlearn.data.measurements`). All measurements of
one half of a note that a donor has, too, take that donor's values, so that they belong together; the other half has
another donor. What neither of them has is drawn from one more subject each; what nobody else has stays.

- A value is smoothed like an alternative, with the width that the measurement's spread gives, and stays between the
  smallest and largest observed one. If few subjects have the measurement, or differ in it (a dose), the donor's own
  value is taken, or the note's stays: like any value that two subjects share, it is no fact to rank.
- A value that is measured again ("falling, 9.8") has the first one's donor, or keeps its ratio to the first.
- Days and weeks of a course ("on day 24") are those of one donor, in the note's order.
- Ages, times of day and dates are left alone: they go with the dates (:mod:`medunlearn.data.date_shifts`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medunlearn.data.date_intervals import is_age
from medunlearn.data.date_shifts import date_places
from medunlearn.data.facts import Fact, values_in
from medunlearn.data.measurements import ENOUGH, Key, shorter_keys, words_around
from medunlearn.data.records import Record
from medunlearn.data.sentences import sentence_starts
from medunlearn.data.value_draws import numbers_near

_TRIES = 40
_TIME = re.compile(r"(?:minute|hour|day|night|week|month|year)s?")
_PAIR = re.compile(r"/\d{1,3}(?![\d/]|\.\d)")
_COURSE = re.compile(r"\b(day|week|month)\s+$", re.I)
_KIND, _COURSE_KIND, _PAIR_KIND, _LABEL_KIND = 0, "course", "pair", "label"


@dataclass(frozen=True, slots=True)
class MeasuredValue:
    """A number of a note and the words around it.

    Attributes:
        start, end: its place, in characters; a pair such as 120/80 is one value.
        contexts: keys of its measurement, the most specific first.
    """

    start: int
    end: int
    text: str
    contexts: tuple[Key, ...]

    @property
    def is_number(self) -> bool:
        return "/" not in self.text

    @property
    def decimals(self) -> int:
        return _decimals(self.text)

    @property
    def in_course(self) -> bool:
        return bool(self.contexts) and self.contexts[0][_KIND] == _COURSE_KIND

    def is_again(self, earlier: MeasuredValue) -> bool:
        """True if another word stands between the label of the earlier value and this one, in the same unit."""
        if not (self.contexts and earlier.contexts and self.is_number and earlier.is_number):
            return False
        *words, last, unit = self.contexts[0][1:]
        label, same_unit = earlier.contexts[0][-2], unit == earlier.contexts[0][-1] != ""
        return same_unit and self.decimals == earlier.decimals and label != last and label in {*words} - {""}


class ValueSets:
    """Values of subjects' notes, as donors of values for invented ones.

    Args:
        records: notes; each belongs to a subject of ``level``.
    """

    def __init__(self, records: Iterable[Record], level: str) -> None:
        self._level = level
        by_subject: dict[Key, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for record in records:
            for value in measured_values(record):
                for key in value.contexts:
                    by_subject[key][record.groups[level]].append(value.text)
        self._of: Mapping[Key, Mapping[str, list[str]]] = by_subject

    def observed(self, value: MeasuredValue, subject: str) -> tuple[Key, Mapping[str, list[str]]] | None:
        """A value's measurement and its values by other subject; None if too few have it.

        The most specific context that enough subjects have, else the whole one if any other has it: in other words,
        a value of a few would be a fact to rank that a model was trained on. A single word names a measurement with
        a unit of time, and otherwise, like a label in any unit, if all its values are near.
        """
        for key in value.contexts:
            others = self._others(value, key, subject)
            if len(others) >= ENOUGH and (_is_specific(key) or _are_near(value, others)):
                return key, others
        whole = value.contexts[0] if value.contexts else None
        known = whole is not None and not value.in_course and _is_specific(whole)
        others = self._others(value, whole, subject) if whole and known else {}
        return (whole, others) if whole and others else None

    def _others(self, value: MeasuredValue, key: Key, subject: str) -> dict[str, list[str]]:
        return {
            who: alike
            for who, values in self._of.get(key, {}).items()
            if who != subject and (alike := [other for other in values if _decimals(other) == value.decimals])
        }

    def changes(self, record: Record, rng: np.random.Generator) -> list[tuple[int, int, str]]:
        """Start, end and new text of each number of a note that other subjects' notes give a value for."""
        subject, values = record.groups[self._level], measured_values(record)
        observed = {value: known for value in values if (known := self.observed(value, subject)) is not None}
        if not observed:
            return []
        donors = self._donors(observed, rng)
        middle = _middle(record.text, [*observed])
        new, givers, turns = dict[MeasuredValue, str](), dict[MeasuredValue, str](), Counter[Key]()
        for value, (key, others) in observed.items():
            if value.in_course:
                continue
            order = donors if value.start < middle else donors[::-1]
            first = next((one for one in reversed(values) if one in givers and value.is_again(one)), None)
            if first is not None:
                order = [givers[first], *order]
            givers[value], source = _from_donors(others, order, turns[key], rng)
            turns[key] += 1
            new[value] = _smoothed(source, value, others, rng)
            if first is not None and (
                givers[value] != givers[first] or not _is_in_order(value, first, new[value], new[first])
            ):
                new[value] = _in_ratio(value, first, new[first], others)
        new |= _course([value for value in observed if value.in_course], self._of, donors, subject)
        return [(value.start, value.end, text) for value, text in new.items()]

    def _donors(
        self, observed: Mapping[MeasuredValue, tuple[Key, Mapping[str, list[str]]]], rng: np.random.Generator
    ) -> list[str]:
        """Two random subjects of those who have at least half as many of the measurements as the one with most."""
        shared = Counter(who for _, others in observed.values() for who in sorted(others))
        many = sorted(who for who, n in shared.items() if 2 * n >= max(shared.values()))
        few = sorted(shared.keys() - {*many})
        order = [*rng.permutation(many).tolist(), *rng.permutation(few).tolist()]
        return [str(who) for who in order[:2]]


def measured_values(record: Record) -> list[MeasuredValue]:
    """The numbers of a note that are no identifier, age, date or time of day, in order."""
    text, values = record.text, []
    dates = date_places(text)
    for fact in values_in(text, record.identifiers):
        if fact.kind != "number" or any(start <= fact.start < end for start, end in dates):
            continue
        if is_age(text, fact):
            continue
        before, behind = text[max(0, fact.start - 20) : fact.start], text[fact.end : fact.end + 20]
        if (before.endswith(":") and before[-2:-1].isdigit()) or re.match(r":\d", behind):
            continue
        values.append(_measured(text, fact))
    return values


def _middle(text: str, values: Sequence[MeasuredValue]) -> int:
    """The start of a sentence nearest to the middle value, with values on both sides; else the middle value's."""
    middle = values[len(values) // 2].start
    inner = [start for start in sentence_starts(text) if values[0].start < start <= values[-1].start]
    return min(inner, key=lambda start: abs(start - middle), default=middle)


def _measured(text: str, fact: Fact) -> MeasuredValue:
    if course := _COURSE.search(text[max(0, fact.start - 10) : fact.start]):
        key = _COURSE_KIND, course.group(1).lower()
        return MeasuredValue(fact.start, fact.end, fact.of(text), (key,))
    pair = _PAIR.match(text, fact.end)
    whole = Fact(fact.start, pair.end() if pair else fact.end, fact.kind)
    contexts = dict.fromkeys(shorter_keys(words_around(text, whole)))
    # "pH 7.31 on arrival" is measured as "pH 7.31." is: its label in any unit comes last.
    contexts |= {(_LABEL_KIND, *key[-3:-1]): None for key in [*contexts][:1] if any(key[-3:-1])}
    if pair:
        contexts = {(_PAIR_KIND, *key): None for key in contexts}
    return MeasuredValue(whole.start, whole.end, whole.of(text), tuple(contexts))


def _is_specific(key: Key) -> bool:
    """True if a context says by itself what is measured."""
    kind, *words = key
    if kind == _PAIR_KIND:
        kind, *words = words
    several_words = sum(map(bool, words[:-1])) > 1
    return kind == _COURSE_KIND or (kind != _LABEL_KIND and (several_words or bool(_TIME.fullmatch(words[-1]))))


def _are_near(value: MeasuredValue, others: Mapping[str, list[str]]) -> bool:
    """True if all values of a measurement are within a factor of two, or pairs."""
    if not value.is_number:
        return True
    low, high = _range(value, others)
    return high <= 2 * low


def _from_donors(
    others: Mapping[str, list[str]], donors: Sequence[str], turn: int, rng: np.random.Generator
) -> tuple[str, str]:
    """The first donor who has the measurement as often as the note, or anybody, and the value."""
    for who in donors:
        if len(others.get(who, ())) > turn:
            return who, others[who][turn]
    who = sorted(others)[int(rng.integers(len(others)))]
    return who, others[who][int(rng.integers(len(others[who])))]


def _smoothed(source: str, value: MeasuredValue, others: Mapping[str, list[str]], rng: np.random.Generator) -> str:
    """A value near the donor's, within the observed range and not the note's own; the donor's itself if few others
    have the measurement, or few different values.

    Between the values of a few, every draw would lie in the middle of what is usual.
    """
    texts = [text for own in others.values() for text in own]
    if not value.is_number or 2 * len({*texts, value.text}) <= len(texts) + 1:
        return source
    low, high = _range(value, others)
    draws = iter([source] if len(others) < ENOUGH else numbers_near(source, [*texts, value.text], rng, _TRIES))
    other = next((text for text in sorted(texts) if text != value.text), source)
    return next((draw for draw in draws if low <= float(draw) <= high and draw != value.text), other)


def _is_in_order(value: MeasuredValue, first: MeasuredValue, new: str, new_first: str) -> bool:
    """True if a repeated value has risen or fallen as in the note."""
    return (float(new) - float(new_first)) * (float(value.text) - float(first.text)) > 0


def _in_ratio(value: MeasuredValue, first: MeasuredValue, new: str, others: Mapping[str, list[str]]) -> str:
    """A repeated value in the same ratio to the first as in the note, within the observed range."""
    low, high = _range(value, others)
    number = float(new) * float(value.text) / float(first.text) if float(first.text) else float(value.text)
    return f"{min(max(number, low), high):.{value.decimals}f}"


def _decimals(number: str) -> int:
    return len(number.partition(".")[2])


def _range(value: MeasuredValue, others: Mapping[str, list[str]]) -> tuple[float, float]:
    numbers = [float(text) for own in others.values() for text in own]
    return min(*numbers, float(value.text)), max(*numbers, float(value.text))


def _course(
    values: Sequence[MeasuredValue], of: Mapping[Key, Mapping[str, list[str]]], donors: Sequence[str], subject: str
) -> Iterator[tuple[MeasuredValue, str]]:
    """Times of a course: a donor's, of the same unit and at least as many, in the note's order."""
    for key in dict.fromkeys(value.contexts[0] for value in values):
        own = [value for value in values if value.contexts[0] == key]
        times = sorted({float(value.text) for value in own})
        series = {who: sorted({*own_times}, key=float) for who, own_times in of[key].items() if who != subject}
        order = [*donors, *sorted(series)]
        source = next((series[who] for who in order if len(series.get(who, ())) >= len(times)), None)
        if source is not None:
            places = [round(at) for at in np.linspace(0, len(source) - 1, len(times))]
            yield from ((value, source[places[times.index(float(value.text))]]) for value in own)
