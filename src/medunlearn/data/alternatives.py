"""Alternatives of a fact: values of its kind that say nothing about whether anybody saw the true one.

The rank of the true value among its alternatives is uniform for a model that does not know it, as far as true value
and alternatives are *exchangeable*: drawn in the same way, so that nobody could tell which is which.

| kind | alternatives |
|---|---|
| number | a centre is drawn around the true value, and they around the centre, by the same log-normal factor |
| date | the same in days, by a uniform shift |
| name | given and family names of other subjects, put together anew |
| identifier | digits and letters drawn anew where values of its type differ, kept where all agree |
| option | the question's other options |
| statement | answers of other subjects to the same question, by its provenance, under this subject's name |

Numbers and dates drawn around the true value itself would have it in their middle, and a model that prefers the
middle would rank it first. That true values and these are exchangeable is an assumption for numbers, dates and
statements: a model knows which values are usual. So p-values are read beside those of subjects that the model never
saw (:mod:`medunlearn.results.fact_table`).

Source: the exposure of Carlini et al. 2019 ("The Secret Sharer"), Section 4; centred draws are ours.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

import numpy as np

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.facts import NAMES, Fact, is_date
from medunlearn.data.records import Identifier, Question, Record
from medunlearn.seeds import generator

VERSION = 1
"""Of the rules below; other rules draw other alternatives."""
SPREAD = 0.3
"""Standard deviation of a number's factor, in natural logarithms; wider where too few numbers are that near."""
DAYS = 5 * 365
"""Half the width of a date's shift."""
FEWEST = 9
"""Alternatives without which a fact is not ranked: p could not go below 0.1."""
_TRIES = 40
_WIDEST = 3.0
_LETTERS, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Answers with other values of a fact, or none and why."""

    texts: tuple[str, ...]
    reason: str | None = None


@dataclass(frozen=True)
class AlternativePool:
    """What alternatives are drawn from: the values of all subjects of a benchmark.

    Attributes:
        records: whose identifiers serve for each other.
        questions: whose answers do.
        count: how many alternatives a fact gets at most; p cannot be below 1 / (count + 1).
        seed: the same seed gives a fact the same alternatives, whatever other facts there are.
    """

    records: Sequence[Record]
    questions: Sequence[Question]
    subject_level: str
    count: int = 99
    seed: int = 0

    def of(self, question: Question, fact: Fact) -> Alternatives:
        """Distinct answers to the question that differ from its own in this fact alone.

        A fact of which fewer than nine others of its kind can be made is left out with a reason; of options all
        count, however few.
        """
        if fact.kind == "option":
            others = [option for option in question.options if option != question.answer]
            return Alternatives(
                tuple(dict.fromkeys(others)), None if others else "the question has no other option"
            )
        if len(self._subjects_of(question)) > 1:
            return Alternatives((), "another subject's answer says the same: it is not hers alone")
        rng = generator("alternatives", self.seed, question.question_id, fact.start)
        true = fact.of(question.answer)
        values: dict[str, None] = {}
        for value in self._drawn(question, fact, true, rng):
            if value != true:
                values.setdefault(value)
            if len(values) == self.count:
                break
        if len(values) < FEWEST:
            return Alternatives((), f"there are only {len(values)} alternatives of its kind ({fact.kind})")
        return Alternatives(tuple(fact.replaced(question.answer, value) for value in values))

    def _drawn(self, question: Question, fact: Fact, true: str, rng: np.random.Generator) -> Iterator[str]:
        if fact.kind == "number":
            return numbers_like(true, rng, self.count)
        if fact.kind == "date":
            return dates_like(true, rng, self.count)
        if fact.kind == "name":
            return self._names(true, rng)
        if fact.kind == "identifier":
            return self._codes(true, self._values[fact.type], rng)
        return self._statements(question, rng)

    def values_like(self, identifier: Identifier, rng: np.random.Generator) -> Iterator[str]:
        """Invented values in place of a record's identifier, the same ones perhaps again."""
        if identifier.type in NAMES:
            return self._names(identifier.value, rng)
        if is_date(identifier.value):
            return dates_like(identifier.value, rng, self.count)
        return self._codes(identifier.value, self._values[identifier.type], rng)

    @cached_property
    def _values(self) -> Mapping[str, list[str]]:
        """Type of identifier -> the values of all records."""
        values: dict[str, dict[str, None]] = defaultdict(dict)
        for record in self.records:
            for identifier in record.identifiers:
                values[identifier.type].setdefault(identifier.value)
        return {kind: list(each) for kind, each in values.items()}

    def _names(self, true: str, rng: np.random.Generator) -> Iterator[str]:
        """Each word of a name from another person's, from the same place in names of as many words."""
        names = [name.split() for kind in NAMES for name in self._values.get(kind, ())]
        words = true.split()
        alike = [name for name in names if len(name) == len(words)]
        known = {" ".join(name) for name in names}
        for _ in range(_TRIES * self.count if alike else 0):
            value = " ".join(alike[int(rng.integers(len(alike)))][place] for place in range(len(words)))
            if value not in known:
                yield value

    def _codes(self, true: str, values: Sequence[str], rng: np.random.Generator) -> Iterator[str]:
        alike = [value for value in values if _shape(value) == _shape(true)] or [true]
        free = [len({value[place] for value in alike}) > 1 or len(alike) == 1 for place in range(len(true))]
        for _ in range(_TRIES * self.count if any(free) else 0):
            yield "".join(_drawn_like(letter, rng) if free[place] else letter for place, letter in enumerate(true))

    @cached_property
    def _answers(self) -> Mapping[tuple[str, str], list[Question]]:
        answers: dict[tuple[str, str], list[Question]] = defaultdict(list)
        for question in self.questions:
            answers[question.kind, question.provenance].append(question)
        return answers

    @cached_property
    def _holders(self) -> Mapping[tuple[str, str, str], set[str]]:
        """Answers to one question, without identifiers -> the subjects of whom they are true."""
        holders: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        for question in self.questions:
            record = self._of_record[question.record_id]
            subject = record.groups[self.subject_level]
            holders[question.kind, question.provenance, _without_identifiers(question.answer, record)].add(subject)
        return holders

    def _subjects_of(self, question: Question) -> set[str]:
        answer = _without_identifiers(question.answer, self._of_record[question.record_id])
        return self._holders.get((question.kind, question.provenance, answer), set())

    @cached_property
    def _of_record(self) -> Mapping[str, Record]:
        return {record.record_id: record for record in self.records}

    def _statements(self, question: Question, rng: np.random.Generator) -> Iterator[str]:
        """Other subjects' answers to the same question, with this subject's identifiers in place of theirs."""
        own = self._of_record[question.record_id]
        subject = own.groups[self.subject_level]
        same = self._answers[question.kind, question.provenance]
        if not self._is_template(same):
            return
        for place in rng.permutation(len(same)).tolist():
            other = self._of_record[same[place].record_id]
            if other.groups[self.subject_level] != subject:
                yield _renamed(same[place].answer, other, own)

    def _is_template(self, same: Sequence[Question]) -> bool:
        """Whether questions of one provenance ask the same of many subjects, in a few words each."""
        asked = {_without_identifiers(other.question, self._of_record[other.record_id]) for other in same}
        return 4 * len(asked) <= len(same)


def pool_of(benchmark: Benchmark, count: int) -> AlternativePool:
    """The pool of a benchmark's own records and questions."""
    return AlternativePool(benchmark.records, benchmark.questions, benchmark.subject_level, count)


def numbers_like(true: str, rng: np.random.Generator, count: int) -> Iterator[str]:
    """Numbers around a centre around this one, written as it is: as many decimals, as round."""
    decimals = len(true.partition(".")[2])
    value, spread = float(true), SPREAD
    unit = 10.0**-decimals
    # Nothing is a factor of 0; the least that can be written stands for it.
    middle = math.log(max(value, unit))
    seen = {true}
    while len(seen) <= count and spread < _WIDEST:
        centre = middle + spread * rng.standard_normal()
        drawn = np.round(np.exp(centre + spread * rng.standard_normal(_TRIES * count)), decimals)
        for number in dict.fromkeys(drawn[drawn > 0].tolist()):
            text = f"{number:.{decimals}f}"
            if text not in seen and _as_round(text, true):
                seen.add(text)
                yield text
        spread *= 2


def dates_like(true: str, rng: np.random.Generator, count: int) -> Iterator[str]:
    """ISO dates around a centre around this one; none outside the years 1 to 9999."""
    centre = date.fromisoformat(true).toordinal() + int(rng.integers(-DAYS, DAYS + 1))
    for _ in range(_TRIES * count):
        day = centre + int(rng.integers(-DAYS, DAYS + 1))
        if 1 <= day <= date.max.toordinal():
            yield date.fromordinal(day).isoformat()


def _as_round(text: str, true: str) -> bool:
    """Whether two numbers end alike, in 0, in 5, or in another digit, as far as both have two digits or more.

    People write round numbers: among others that are not, a round one would be told at once.
    """
    ends = [digits[-1] for one in (text, true) if len(digits := one.replace(".", "").lstrip("0")) > 1]
    return len(ends) < 2 or (ends[0] == ends[1] if {*ends} & {"0", "5"} else True)


def _shape(value: str) -> str:
    return re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "0", value))


def _drawn_like(letter: str, rng: np.random.Generator) -> str:
    if letter.isdigit():
        return _DIGITS[int(rng.integers(10))]
    if letter.lower() in _LETTERS:
        drawn = _LETTERS[int(rng.integers(26))]
        return drawn.upper() if letter.isupper() else drawn
    return letter


def _without_identifiers(text: str, record: Record) -> str:
    for identifier in record.identifiers:
        text = text.replace(identifier.value, f"<{identifier.type}>")
    return text


def _renamed(text: str, other: Record, own: Record) -> str:
    values = {identifier.type: identifier.value for identifier in own.identifiers}
    for identifier in other.identifiers:
        if identifier.type in values:
            text = text.replace(identifier.value, values[identifier.type])
    return text
