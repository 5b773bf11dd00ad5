"""Facts in an answer or a record: values that a model either knows about this subject or has to guess.

A fact has a kind and a place in the text. Its *alternatives* (:mod:`medunlearn.data.alternatives`) are the same
text with another value of its kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from medunlearn.data.records import Identifier, Question, Record

FactKind = Literal["date", "name", "identifier", "number", "option", "statement", "note"]

_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
# Not part of a word, a code, a power of ten or a longer number; a run of digits that no float holds is none.
_NUMBER = re.compile(r"(?<![\w.^/-])\d{1,100}(?:\.\d{1,100})?(?![\w^-]|\.\d)")
NAMES = ("name",)
"""Types of identifiers that are people's names."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One value in a text.

    Attributes:
        start, end: its place, in characters.
        kind: ``date``, ``name``, ``identifier``, ``number``; of a whole answer ``option`` (one of the question's
            options) or ``statement``; of a whole record ``note``.
        type: declared type of an identifier; else "".
    """

    start: int
    end: int
    kind: FactKind
    type: str = ""

    def of(self, text: str) -> str:
        """Its value."""
        return text[self.start : self.end]

    def replaced(self, text: str, value: str) -> str:
        """The text with another value in its place."""
        return text[: self.start] + value + text[self.end :]


def facts_of(question: Question, identifiers: Iterable[Identifier] = ()) -> list[Fact]:
    """The facts in a question's answer, in order, except those already stated in the question.

    An answer without a value of its own is one ``statement``; one of several options is one ``option``.

    Args:
        identifiers: of the record that the answer comes from.
    """
    if question.options and question.answer_index is not None:
        return [Fact(0, len(question.answer), "option")]
    answer = question.answer
    values = (fact for fact in _matches(answer, identifiers) if not says(question.question, fact.of(answer)))
    return _in_order(answer, values) or [Fact(0, len(answer), "statement")]


def facts_in(record: Record) -> list[Fact]:
    """The facts in a record's own text, in their order: identifiers, dates, and numbers with a word before them.

    A value that occurs earlier in the text is not a fact: it is known from the text before.
    """
    text = record.text
    facts = (fact for fact in values_in(text, record.identifiers) if not says(text[: fact.start], fact.of(text)))
    return [fact for fact in facts if fact.kind != "number" or re.search(r"[^\W\d_]", text[: fact.start][-30:])]


def values_in(text: str, identifiers: Iterable[Identifier] = ()) -> list[Fact]:
    """Every identifier, date and number of a text, in order; of two that overlap, the more specific kind."""
    return _in_order(text, _matches(text, identifiers))


def _in_order(text: str, candidates: Iterable[Fact]) -> list[Fact]:
    """Facts by position, without those that overlap an earlier candidate."""
    facts: list[Fact] = []
    covered = bytearray(len(text))
    for fact in candidates:
        if not any(covered[fact.start : fact.end]):
            covered[fact.start : fact.end] = b"\1" * (fact.end - fact.start)
            facts.append(fact)
    return sorted(facts, key=lambda fact: fact.start)


def says(text: str, value: str) -> bool:
    """True if a value occurs in a text on its own: 5 does not occur in 15 or 5.2."""
    # Most values do not occur at all, and an expression is compiled for each that does.
    return value in text and re.search(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d)", text) is not None


def is_date(text: str) -> bool:
    """True if a text is a date of the calendar in ISO form."""
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _matches(text: str, identifiers: Iterable[Identifier]) -> Iterator[Fact]:
    """Matches, the most specific kinds first: an identifier's digits are not a number."""
    present = (identifier for identifier in identifiers if identifier.value in text)
    for identifier in sorted(present, key=lambda identifier: -len(identifier.value)):
        kind: FactKind = "name" if identifier.type in NAMES else "identifier"
        if is_date(identifier.value):
            kind = "date"
        for match in re.finditer(rf"(?<!\w){re.escape(identifier.value)}(?!\w)", text):
            yield Fact(*match.span(), kind, identifier.type)
    for expression, kind in ((_DATE, "date"), (_NUMBER, "number")):
        for match in expression.finditer(text):
            if kind != "date" or is_date(match.group()):
                yield Fact(*match.span(), kind)


def facts_said(question: Question, identifiers: Iterable[Identifier], responses: Sequence[str]) -> list[int]:
    """Number of responses that state the value of each fact in a question's reference answer on its own."""
    values = [fact.of(question.answer) for fact in facts_of(question, identifiers)]
    return [sum(says(response, value) for response in responses) for value in values]
