"""Alternatives of a fact: values of its kind that say nothing about whether anybody saw the true one.

The rank of the true value among its alternatives is uniform for a model that does not know it, as far as true value
and alternatives are *exchangeable*: drawn in the same way, so that nobody could tell which is which.

| kind | alternatives |
|---|---|
| number | as other subjects' values of the same measurement are spread, where ten or more have it |
| date | as other subjects' dates of the same meaning are spread, or their intervals from a date before it |
| name | given and family names of other subjects, put together anew |
| identifier | another one's beginning as far as such are shared; digits, letters and words behind it drawn anew
where values of its type differ |
| option | the question's other options |
| statement | answers of other subjects to the same question, by its provenance, under this subject's name |
| note | the same note with all of its facts replaced at once |

A number or date that other subjects have, too, is compared with such values, and one that nobody has with values
that nobody has: a model that saw the others has seen the former.

Where fewer than ten others have the measurement, a centre is drawn around the true value, and the alternatives
around the centre. A model that knows which values are usual tells the true one: such a rank is *inexact*, and
counts in no p-value. Drawn around the true value itself, alternatives would have it in their middle.

Source: the exposure of Carlini et al. 2019 ("The Secret Sharer"), Section 4; the draws are ours.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import chain, islice

import numpy as np

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.date_intervals import DateIntervals, EarlierDate, follows_from_birth, spread_of
from medunlearn.data.facts import NAMES, Fact, is_date
from medunlearn.data.measurements import ENOUGH, Measurements
from medunlearn.data.records import Identifier, Question, Record
from medunlearn.data.value_draws import (
    FEWEST,
    USUAL,
    beginning_test,
    codes_like,
    codes_of_form,
    dates_after,
    dates_like,
    draw_alike,
    is_telling,
    names_like,
    numbers_among,
    numbers_like,
)
from medunlearn.seeds import generator

VERSION = 5
"""Of the rules below; other rules draw other alternatives."""
SHARED = "it is not hers alone"
COMMON = "its value is usual"
FEW_OTHERS = "too few others have it to tell what is usual"
FOLLOWS = "it follows from a date before it"
RESERVE = 4
"""Further draws for each alternative."""


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Texts with other values of a fact, repeated if drawn repeatedly; or a reason why there are none.

    Attributes:
        reason: why the fact cannot tell a subject; a usual value has texts besides, and is ranked by its share.
        equal: draws beside them that gave the true value itself.
        inexact: why a model that never saw the subject may rank the true value too high; None if it may not.
        reserve: further values, for a tokenizer that writes some of the others in more or fewer tokens; the true
            one is among them where it was drawn.
    """

    texts: tuple[str, ...]
    reason: str | None = None
    equal: int = 0
    inexact: str | None = None
    reserve: tuple[str, ...] = ()


@dataclass(frozen=True)
class AlternativePool:
    """Source of alternatives: the values of all subjects of a benchmark.

    Attributes:
        records: records whose identifiers and numbers are alternatives of each other.
        questions: questions whose answers are.
        count: most alternatives per fact; p cannot be below 1 / (count + 1).
        seed: the same seed gives a fact the same alternatives, whatever other facts are ranked.
    """

    records: Sequence[Record]
    questions: Sequence[Question]
    subject_level: str
    count: int = 99
    seed: int = 0

    def of(self, question: Question, fact: Fact) -> Alternatives:
        """Answers to the question that differ from its own in this fact only.

        A fact with fewer than nine alternatives is skipped with a reason; options always count, however few.
        """
        if fact.kind == "option":
            others = [option for option in question.options if option != question.answer]
            return Alternatives(
                tuple(dict.fromkeys(others)), None if others else "the question has no other option"
            )
        rng = generator("alternatives", self.seed, question.question_id, fact.start)
        record = self._of_record[question.record_id]
        if fact.kind == "statement":
            return self._of_statement(question, fact, rng)
        return self._with_other_values(question.answer, fact, record, rng, before=question.question)

    def in_record(self, record: Record, fact: Fact) -> Alternatives:
        """The record's text with other values of a fact, like :meth:`of`."""
        rng = generator("alternatives in a record", self.seed, record.record_id, fact.start)
        return self._with_other_values(record.text, fact, record, rng)

    def _with_other_values(
        self, text: str, fact: Fact, record: Record, rng: np.random.Generator, before: str = ""
    ) -> Alternatives:
        subject, true = record.groups[self.subject_level], fact.of(text)
        values = self._identified[fact.type] if fact.type else {}
        others = [value for value, subjects in values.items() if subjects - {subject}]
        follows = FOLLOWS if follows_from_birth(before, text, fact, birth_dates(record)) else None
        if fact.kind == "number":
            return self._of_number(text, fact, subject, rng, follows)
        if fact.kind == "date":
            return self._of_date(text, fact, subject, rng, follows)
        if values.get(true, {subject}) - {subject}:
            return Alternatives((), f"{SHARED}: another subject's text says the same")
        if fact.kind == "name":
            inexact = None if len(others) >= ENOUGH else FEW_OTHERS
            return self._collect(text, fact, names_like(true, self._names, rng, self.count), inexact)
        names = [identifier.value for identifier in record.identifiers if identifier.type in NAMES]
        own_words = [word for name in names for word in name.split()]
        return self._of_code(text, fact, others, own_words, rng)

    def _of_number(
        self, text: str, fact: Fact, subject: str, rng: np.random.Generator, follows: str | None
    ) -> Alternatives:
        true, same = fact.of(text), self._measurements.of_others(text, fact, subject)
        alike, total = self._measurements.alike(text, fact, subject)
        usual = f"{COMMON}: {alike} of {total} other subjects have it" if alike > USUAL * total else None
        if same:
            draws = draw_alike(true, same, numbers_among(true, same, rng, self.count), rng)
            return self._collect(text, fact, draws, follows, usual)
        if self._measurements.is_shared(text, fact, subject):
            return Alternatives((), f"{SHARED}: another subject's text says the same")
        if usual is not None:
            return Alternatives((), usual)
        return self._collect(text, fact, numbers_like(true, rng, self.count), follows or FEW_OTHERS)

    def _of_date(
        self, text: str, fact: Fact, subject: str, rng: np.random.Generator, follows: str | None
    ) -> Alternatives:
        """Dates as others have them, or their intervals from an earlier date where these are more regular."""
        true, same = fact.of(text), self._dates_of_others(text, fact, subject)
        earlier = self._intervals.before(text, fact, subject)
        if earlier is not None and _is_regular(earlier, same):
            draws = dates_after(true, earlier.value, earlier.intervals, rng, self.count)
            return self._collect(text, fact, draws, follows)
        if not same and self._measurements.is_shared(text, fact, subject):
            return Alternatives((), f"{SHARED}: another subject's text says the same")
        unknown = FOLLOWS if earlier is not None and not earlier.intervals else None if same else FEW_OTHERS
        return self._collect(text, fact, dates_like(true, rng, self.count, same), follows or unknown)

    def _dates_of_others(self, text: str, fact: Fact, subject: str) -> list[str]:
        """Other subjects' dates of the same meaning; empty for fewer than ten."""
        values = self._identified[fact.type] if fact.type else {}
        dates = [value for value, subjects in values.items() if is_date(value) for _ in subjects - {subject}]
        return dates if len(dates) >= ENOUGH else self._measurements.of_others(text, fact, subject)

    def date_before(self, record: Record, fact: Fact) -> str | None:
        """The earlier date of a record's text from which a date follows; None if it follows from none."""
        subject = record.groups[self.subject_level]
        earlier = self._intervals.before(record.text, fact, subject)
        same = self._dates_of_others(record.text, fact, subject)
        follows = earlier is not None and (not earlier.intervals or _is_regular(earlier, same))
        return earlier.value if earlier is not None and follows else None

    def _of_code(
        self, text: str, fact: Fact, others: Sequence[str], own_words: Sequence[str], rng: np.random.Generator
    ) -> Alternatives:
        true, alike = fact.of(text), codes_of_form(fact.of(text), others)
        begins_as_others = beginning_test(alike)
        stream = _distinct(codes_like(true, others, rng, self.count, own_words), true)
        first = list(islice(stream, self.count))
        known = len(alike) >= ENOUGH and all(map(begins_as_others, first))
        return self._collect(
            text, fact, chain(first, filter(begins_as_others, stream)), None if known else FEW_OTHERS
        )

    def _of_statement(self, question: Question, fact: Fact, rng: np.random.Generator) -> Alternatives:
        """Others' answers: those that several subjects share if the true one is shared, else the other ones."""
        statements = [*self._statements(question, rng)]
        counts = Counter([question.answer, *statements])
        shared = counts[question.answer] > 1
        alike = [text for text in statements if (counts[text] > 1) == shared]
        return self._collect(question.answer, fact, alike)

    def _collect(
        self,
        text: str,
        fact: Fact,
        values: Iterable[str],
        inexact: str | None = None,
        usual: str | None = None,
    ) -> Alternatives:
        """The first ``count`` values, unless they are too few or too similar to the true one.

        Draws that gave the true value are counted.

        Args:
            usual: why the true value is known to be usual.
        """
        stream = iter(values)
        true, draws = fact.of(text), list(islice(stream, self.count))
        others = [value for value in draws if value != true]
        equal = len(draws) - len(others)
        if usual is None and equal > USUAL * len(draws):
            usual = f"{COMMON}: {equal} of {len(draws)} draws are the same"
        distinct = len(set(others))
        # Draws that may give the true value need not differ: its share is its chance to be first.
        few = distinct < FEWEST and (len(draws) < FEWEST or not (equal or is_telling(draws, true)))
        if few and (usual is None or not others or len(draws) < FEWEST):
            return Alternatives((), usual or f"too few alternatives of its kind ({fact.kind}): {distinct}")
        reserve = () if fact.kind == "statement" else tuple(islice(stream, RESERVE * self.count))
        texts = tuple(fact.replaced(text, value) for value in others)
        return Alternatives(texts, usual, equal, inexact, reserve)

    def values_like(self, identifier: Identifier, rng: np.random.Generator) -> Iterator[str]:
        """Infinite stream of invented values in place of a record's identifier; values may repeat."""
        if identifier.type in NAMES:
            return names_like(identifier.value, self._names, rng, self.count)
        if is_date(identifier.value):
            return dates_like(identifier.value, rng, self.count)
        return codes_like(identifier.value, [*self._identified[identifier.type]], rng, self.count)

    @cached_property
    def _measurements(self) -> Measurements:
        return Measurements(self._texts)

    @cached_property
    def _intervals(self) -> DateIntervals:
        return DateIntervals(self._texts)

    @cached_property
    def _texts(self) -> list[tuple[str, str]]:
        """All texts, each with its subject."""
        texts = [(record.groups[self.subject_level], record.text) for record in self.records]
        answers = [
            (self._of_record[question.record_id].groups[self.subject_level], question.answer)
            for question in self.questions
        ]
        return [*texts, *answers]

    @cached_property
    def _identified(self) -> Mapping[str, Mapping[str, set[str]]]:
        """Type of identifier -> value in any record -> the subjects of these records."""
        values: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for record in self.records:
            for identifier in record.identifiers:
                values[identifier.type][identifier.value].add(record.groups[self.subject_level])
        return values

    @cached_property
    def _names(self) -> list[str]:
        """Names as often as subjects have them."""
        return [name for kind in NAMES for name, subjects in self._identified[kind].items() for _ in subjects]

    @cached_property
    def _answers(self) -> Mapping[tuple[str, str], list[Question]]:
        answers: dict[tuple[str, str], list[Question]] = defaultdict(list)
        for question in self.questions:
            answers[question.kind, question.provenance].append(question)
        return answers

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
                yield _rename_subject(same[place].answer, other, own)

    def _is_template(self, same: Sequence[Question]) -> bool:
        """True if questions of one provenance ask many subjects for the same thing, in a few words each."""
        wordings = {_without_identifiers(other.question, self._of_record[other.record_id]) for other in same}
        return 4 * len(wordings) <= len(same)


def pool_of(benchmark: Benchmark, count: int) -> AlternativePool:
    """The pool of a benchmark's own records and questions."""
    return AlternativePool(benchmark.records, benchmark.questions, benchmark.subject_level, count)


def birth_dates(record: Record) -> set[str]:
    """Birth dates among a record's identifiers."""
    return {identifier.value for identifier in record.identifiers if "birth" in identifier.type}


def _is_regular(earlier: EarlierDate, dates: Sequence[str]) -> bool:
    """True if other subjects' intervals from an earlier date are known, and vary less than their dates."""
    spread = spread_of(date.fromisoformat(other).toordinal() for other in dates)
    return bool(earlier.intervals) and spread_of(earlier.intervals) < spread


def _distinct(values: Iterable[str], true: str) -> Iterator[str]:
    """No more are drawn than are taken."""
    seen = {true}
    for value in values:
        if value not in seen:
            seen.add(value)
            yield value


def _without_identifiers(text: str, record: Record) -> str:
    for identifier in record.identifiers:
        text = text.replace(identifier.value, f"<{identifier.type}>")
    return text


def _rename_subject(text: str, other: Record, own: Record) -> str:
    values = {identifier.type: identifier.value for identifier in own.identifiers}
    for identifier in other.identifiers:
        if identifier.type in values:
            text = text.replace(identifier.value, values[identifier.type])
    return text
