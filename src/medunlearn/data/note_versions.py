"""Versions of a whole note, with other values for its facts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date

from medunlearn.data.alternatives import AlternativePool, Alternatives, birth_dates
from medunlearn.data.date_intervals import birth_with_age
from medunlearn.data.facts import Fact, facts_in, values_in
from medunlearn.data.records import Record
from medunlearn.seeds import generator


def note_versions(record: Record, pool: AlternativePool, count: int) -> Alternatives:
    """Distinct versions of a record's text.

    A fact without alternatives, e.g. an institution, stays in all versions. A value that stands in the text more
    than once is replaced by the same one everywhere, a name also within an e-mail address. A date that follows from
    another keeps its distance to it, and a birth date whose age is given stays with it.

    Args:
        pool: gives the alternatives of each fact; one with fewer than ``count`` uses them in turn.
        count: how many versions at most.

    Returns:
        The versions, or the reason why there are none; inexact if the alternatives of a replaced fact are.
    """
    text = record.text
    tied = birth_with_age(text, birth_dates(record))
    drawn = [(fact, pool.in_record(record, fact)) for fact in facts_in(record) if fact.start not in tied]
    drawn = [(fact, alternatives) for fact, alternatives in drawn if alternatives.texts]
    if not drawn:
        return Alternatives((), "none of its facts can be replaced")
    values_of = {fact: _values(record, pool, fact, alternatives) for fact, alternatives in drawn}
    versions = [
        _replace_values(record, {**values, **dict(_later_dates(record, pool, values))})
        for place in range(count)
        for values in [{fact: values[place % len(values)] for fact, values in values_of.items()}]
    ]
    moved = {fact for fact, _ in _later_dates(record, pool, {fact: own[0] for fact, own in values_of.items()})}
    reasons = (alternatives.inexact for fact, alternatives in drawn if fact not in moved)
    inexact = next((reason for reason in reasons if reason is not None), None)
    # The note itself, drawn again, counts as a draw that is equal.
    others = [version for version in versions if version != text]
    distinct = tuple(dict.fromkeys(others))
    return Alternatives(distinct, equal=len(versions) - len(others), inexact=inexact)


def _values(record: Record, pool: AlternativePool, fact: Fact, alternatives: Alternatives) -> list[str]:
    """Values of a fact in the versions, in random order: the true one as often as it was drawn."""
    behind = len(record.text) - fact.end
    others = [text[fact.start : len(text) - behind] for text in alternatives.texts]
    values = [*others, *[fact.of(record.text)] * alternatives.equal]
    rng = generator("values of note versions", pool.seed, record.record_id, fact.start)
    return [values[place] for place in rng.permutation(len(values)).tolist()]


def _later_dates(record: Record, pool: AlternativePool, values: Mapping[Fact, str]) -> Iterator[tuple[Fact, str]]:
    """Dates that follow from an earlier one, as far from its new value as from its own."""
    text = record.text
    new = {fact.of(text): value for fact, value in values.items() if fact.kind == "date"}
    for fact in facts_in(record):
        earlier = pool.date_before(record, fact) if fact.kind == "date" else None
        if earlier is not None and earlier in new:
            days = date.fromisoformat(fact.of(text)) - date.fromisoformat(earlier)
            try:
                new[fact.of(text)] = (date.fromisoformat(new[earlier]) + days).isoformat()
            except OverflowError:
                continue
            yield fact, new[fact.of(text)]


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
