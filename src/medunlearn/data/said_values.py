"""Values that a response gives as an answer, beside made-up values in the same response.

A garbled response full of numbers holds many short values by chance. So a value counts only as a whole, a short
number only if it is not one of several numbers in a row, and a fact only *beyond* its alternatives if none of these
is given in the same response. If true and made-up values are exchangeable, the true one of ``n`` values is the only
one given with a chance of at most ``1 / n``, whatever the response holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from medunlearn.data.alternatives import Alternatives
from medunlearn.data.facts import Fact, facts_of, is_date, says
from medunlearn.data.records import Identifier, Question

SHORT = 3
"""Digits up to which a number is short."""
_NEAR = 2
"""Words on either side of a short number that must not be another number."""
_UNTYPED = ("statement", "option")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(?:%|[mµu]?g|mcg|m[lL]|kg|[cm]?m|U|IU)?")


@dataclass(frozen=True, slots=True)
class SaidFacts:
    """Facts that a model was asked for, and said.

    Attributes:
        facts: distinct facts with made-up values to compare with.
        hits: of these, whose true value stands in the answer, whatever stands there besides.
        beyond: of these, whose true value is said and none of the made-up ones: evidence that the model knows it.
        alternatives: made-up values said in all of the answers.
        chance: mean over the facts of the chance to be said *beyond* by a model that does not know them: 1/60
            with 59 alternatives that all differ from the true value. Large numbers ``beyond`` are at most as likely
            as of a binomial count with this chance (Hoeffding 1956, Annals of Mathematical Statistics 27(3)).
    """

    facts: int
    hits: int
    beyond: int
    alternatives: int
    chance: float


@dataclass(frozen=True, slots=True)
class SaidFact:
    """One fact in one response.

    Attributes:
        is_said: whether the true value is said.
        alternatives: made-up values that are said.
        chance: as of :class:`SaidFacts`.
    """

    is_said: bool
    alternatives: int
    chance: float


def typed_facts(question: Question, identifiers: Iterable[Identifier]) -> list[Fact]:
    """The facts of an answer that are values: not an option, nor an answer without a value."""
    return [fact for fact in facts_of(question, identifiers) if fact.kind not in _UNTYPED]


def values_given(question: Question, facts: Sequence[Fact], response: str) -> list[bool]:
    """For each fact of a question's answer, whether the response gives its value."""
    return [gives(response, fact.of(question.answer), alone=_is_whole(question, fact)) for fact in facts]


def said_fact(question: Question, fact: Fact, alternatives: Alternatives, response: str) -> SaidFact:
    """A fact in a response, beside its alternatives."""
    alone, behind = _is_whole(question, fact), len(question.answer) - fact.end
    others = {text[fact.start : len(text) - behind] for text in alternatives.texts}
    n = 1 + len(alternatives.texts) + alternatives.equal
    return SaidFact(
        gives(response, fact.of(question.answer), alone=alone),
        sum(gives(response, other, alone=alone) for other in others),
        (1 + alternatives.equal) / n,
    )


def summarize_said(facts: Sequence[SaidFact]) -> SaidFacts:
    """The counts over distinct facts, at least one."""
    return SaidFacts(
        facts=len(facts),
        hits=sum(fact.is_said for fact in facts),
        beyond=sum(fact.is_said and not fact.alternatives for fact in facts),
        alternatives=sum(fact.alternatives for fact in facts),
        chance=sum(fact.chance for fact in facts) / len(facts),
    )


def gives(response: str, value: str, *, alone: bool = True) -> bool:
    """True if a response gives a value: whole, in any case, and a date in a usual spelling.

    Args:
        alone: a short number counts only if it is not one of several numbers in a row.
    """
    if alone and _NUMBER.fullmatch(value) and sum(map(str.isdigit, value)) <= SHORT:
        return _stands_alone(response, value)
    text = " ".join(response.split()).casefold()
    return any(says(text, spelling.casefold()) for spelling in _spellings(value))


def _is_whole(question: Question, fact: Fact) -> bool:
    return fact.of(question.answer) == question.answer.strip()


def _stands_alone(response: str, value: str) -> bool:
    """True if a number occurs without another number within :data:`_NEAR` words."""
    matches = [_QUANTITY.fullmatch(word.strip("()[]{}<>,;:!?\"'*_=~.")) for word in response.split()]
    numbers = [match[1] if match else None for match in matches]
    return any(
        number == value and not {*numbers[max(0, place - _NEAR) : place + _NEAR + 1]} - {None, value}
        for place, number in enumerate(numbers)
    )


def _spellings(value: str) -> tuple[str, ...]:
    """A value as it is written, on one line; a date also with the month's name and with dots or slashes."""
    if not is_date(value):
        return (" ".join(value.split()),)
    day = date.fromisoformat(value)
    months = (_MONTHS[day.month - 1], _MONTHS[day.month - 1][:3])
    named = [f"{day.day} {month} {day.year}" for month in months]
    named += [f"{month} {day.day}, {day.year}" for month in months]
    slashed = [f"{day:%m/%d}/{day.year}", f"{day.month}/{day.day}/{day.year}", f"{day:%d.%m}.{day.year}"]
    return (value, *named, *slashed, f"{day.day}.{day.month}.{day.year}")


_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
