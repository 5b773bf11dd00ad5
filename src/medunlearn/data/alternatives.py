"""Alternatives of a fact: values of its kind that say nothing about whether anybody saw the true one.

The rank of the true value among its alternatives is uniform for a model that does not know it, as far as true value
and alternatives are *exchangeable*: drawn in the same way, so that nobody could tell which is which.

| kind | alternatives |
|---|---|
| number | as other subjects' values of the same measurement are spread, where ten or more have it; else a centre is
drawn around the true value, and they around the centre, by the same log-normal factor | | date | other subjects'
dates of the same meaning, each shifted by up to five years; else the same shift of a centre | | name | given and
family names of other subjects, put together anew | | identifier | digits and letters drawn anew, words of others,
where values of its type differ; the rest is kept | | option | the question's other options |
| statement | answers of other subjects to the same question, by its provenance, under this subject's name |
| note | the same note with all of its facts replaced at once |

Numbers and dates drawn around the true value itself would have it in their middle, and a model that prefers the
middle would rank it first. That true values and these are exchangeable is an assumption for numbers, dates and
statements: a model knows which values are usual. So p-values are read beside those of subjects that the model never
saw (:mod:`medunlearn.results.fact_table`).

Source: the exposure of Carlini et al. 2019 ("The Secret Sharer"), Section 4; the draws are ours.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.facts import NAMES, Fact, facts_in, is_date, values_in
from medunlearn.data.measurements import ENOUGH, Measurements
from medunlearn.data.records import Identifier, Question, Record
from medunlearn.data.value_draws import (
    FEWEST,
    USUAL,
    codes_like,
    dates_like,
    is_telling,
    names_like,
    numbers_among,
    numbers_like,
)
from medunlearn.seeds import generator

VERSION = 4
"""Of the rules below; other rules draw other alternatives."""
SHARED = "it is not hers alone"
COMMON = "its value is usual"


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Texts with other values of a fact, repeated if drawn repeatedly; or a reason why there are none.

    Attributes:
        equal: draws beside them that gave the true value itself.
    """

    texts: tuple[str, ...]
    reason: str | None = None
    equal: int = 0


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
        # An identifier is told from others' by its own value, below.
        if not fact.type and len(self._subjects_of(question)) > 1:
            return Alternatives((), f"{SHARED}: another subject's answer says the same")
        rng = generator("alternatives", self.seed, question.question_id, fact.start)
        record = self._of_record[question.record_id]
        if fact.kind == "statement":
            statements = self._statements(question, rng)
            return self._collect(question.answer, fact, _distinct(statements, question.answer))
        return self._with_other_values(question.answer, fact, record, rng)

    def in_record(self, record: Record, fact: Fact) -> Alternatives:
        """The record's text with other values of a fact, like :meth:`of`."""
        rng = generator("alternatives in a record", self.seed, record.record_id, fact.start)
        return self._with_other_values(record.text, fact, record, rng)

    def _with_other_values(self, text: str, fact: Fact, record: Record, rng: np.random.Generator) -> Alternatives:
        subject, true = record.groups[self.subject_level], fact.of(text)
        values = self._identified[fact.type] if fact.type else {}
        if values.get(true, {subject}) - {subject} or self._measurements.is_shared(text, fact, subject):
            return Alternatives((), f"{SHARED}: another subject's text says the same")
        others = [value for value, subjects in values.items() if subjects - {subject}]
        if fact.kind == "number":
            alike, total = self._measurements.alike(text, fact, subject)
            if alike > USUAL * total:
                return Alternatives((), f"{COMMON}: {alike} of {total} other subjects have it")
            same = self._measurements.of_others(text, fact, subject)
            if same:
                return self._collect(text, fact, numbers_among(true, same, rng, self.count))
            return self._collect(text, fact, numbers_like(true, rng, self.count))
        if fact.kind == "date":
            dates = list(filter(is_date, others))
            same = dates if len(dates) >= ENOUGH else self._measurements.of_others(text, fact, subject)
            return self._collect(text, fact, dates_like(true, rng, self.count, same))
        if fact.kind == "name":
            return self._collect(text, fact, _distinct(names_like(true, self._names, rng, self.count), true))
        # The true value is one of those whose form counts.
        names = [identifier.value for identifier in record.identifiers if identifier.type in NAMES]
        own_words = [word for name in names for word in name.split()]
        return self._collect(text, fact, _distinct(codes_like(true, [*values], rng, self.count, own_words), true))

    def _collect(self, text: str, fact: Fact, values: Iterable[str]) -> Alternatives:
        """The first ``count`` values, unless they are too few or too similar to the true one.

        Draws that gave the true value are counted.
        """
        true, draws = fact.of(text), list(islice(values, self.count))
        others = [value for value in draws if value != true]
        if (equal := len(draws) - len(others)) > USUAL * len(draws):
            return Alternatives((), f"{COMMON}: {equal} of {len(draws)} draws are the same")
        if (distinct := len(set(others))) < FEWEST and (len(draws) < FEWEST or not is_telling(draws, true)):
            return Alternatives((), f"too few alternatives of its kind ({fact.kind}): {distinct}")
        return Alternatives(tuple(fact.replaced(text, value) for value in others), equal=equal)

    def values_like(self, identifier: Identifier, rng: np.random.Generator) -> Iterator[str]:
        """Infinite stream of invented values in place of a record's identifier; values may repeat."""
        if identifier.type in NAMES:
            return names_like(identifier.value, self._names, rng, self.count)
        if is_date(identifier.value):
            return dates_like(identifier.value, rng, self.count)
        return codes_like(identifier.value, [*self._identified[identifier.type]], rng, self.count)

    @cached_property
    def _measurements(self) -> Measurements:
        texts = [(record.groups[self.subject_level], record.text) for record in self.records]
        answers = [
            (self._of_record[question.record_id].groups[self.subject_level], question.answer)
            for question in self.questions
        ]
        return Measurements([*texts, *answers])

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
        return [name for kind in NAMES for name in self._identified[kind]]

    @cached_property
    def _answers(self) -> Mapping[tuple[str, str], list[Question]]:
        answers: dict[tuple[str, str], list[Question]] = defaultdict(list)
        for question in self.questions:
            answers[question.kind, question.provenance].append(question)
        return answers

    @cached_property
    def _holders(self) -> Mapping[tuple[str, str, str], set[str]]:
        """Answers to one question, without identifiers -> the subjects for whom they are true."""
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
                yield _rename_subject(same[place].answer, other, own)

    def _is_template(self, same: Sequence[Question]) -> bool:
        """True if questions of one provenance ask many subjects for the same thing, in a few words each."""
        wordings = {_without_identifiers(other.question, self._of_record[other.record_id]) for other in same}
        return 4 * len(wordings) <= len(same)


def pool_of(benchmark: Benchmark, count: int) -> AlternativePool:
    """The pool of a benchmark's own records and questions."""
    return AlternativePool(benchmark.records, benchmark.questions, benchmark.subject_level, count)


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


def note_versions(record: Record, pool: AlternativePool, count: int) -> Alternatives:
    """Distinct versions of a record's text.

    A fact without alternatives, e.g. one shared with other subjects, stays in all versions. A value that stands in
    the text more than once is replaced by the same one everywhere, a name also within an e-mail address.

    Args:
        pool: gives the alternatives of each fact; one with fewer than ``count`` uses them in turn.
        count: how many versions at most.

    Returns:
        The versions, or the reason why there are none.
    """
    text, values_of = record.text, dict[Fact, list[str]]()
    for fact in facts_in(record):
        if texts := pool.in_record(record, fact).texts:
            behind = len(text) - fact.end
            values_of[fact] = [other[fact.start : len(other) - behind] for other in texts]
    if not values_of:
        return Alternatives((), "none of its facts can be replaced")
    versions = [
        _replace_values(record, {fact: values[place % len(values)] for fact, values in values_of.items()})
        for place in range(count)
    ]
    return Alternatives(tuple(dict.fromkeys(versions)))


def _replace_values(record: Record, values: Mapping[Fact, str]) -> str:
    """The record's text with other values of these facts, wherever they occur."""
    text = record.text
    new = {(fact.kind, fact.of(text)): value for fact, value in values.items()}
    words = {
        old: other
        for (kind, true), value in new.items()
        if kind == "name"
        for old, other in zip(true.split(), value.split(), strict=True)
    }
    parts, end = list[str](), 0
    for fact in values_in(text, record.identifiers):
        value = new.get((fact.kind, fact.of(text)))
        if value is not None:
            parts += [text[end : fact.start], _with_words(value, words) if fact.kind == "identifier" else value]
            end = fact.end
    return "".join([*parts, text[end:]])


def _with_words(value: str, words: Mapping[str, str]) -> str:
    for old, new in words.items():
        value = re.sub(rf"(?<![^\W\d_]){re.escape(old.lower())}(?![^\W\d_])", new.lower(), value)
    return value
