"""Versions of a whole note: the same text with all of its facts replaced by alternatives of their kinds at once."""

from __future__ import annotations

import re
from collections.abc import Mapping

from medunlearn.data.alternatives import AlternativePool, Alternatives
from medunlearn.data.facts import Fact, facts_in, values_in
from medunlearn.data.records import Record


def versions_of(record: Record, pool: AlternativePool, count: int) -> Alternatives:
    """Distinct versions of a record's text.

    A fact without alternatives, e.g. one that is not hers alone, stays in all versions. A value that stands in the
    text more than once is replaced by the same one everywhere, a name also within an e-mail address.

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
        _replaced(record, {fact: values[place % len(values)] for fact, values in values_of.items()})
        for place in range(count)
    ]
    return Alternatives(tuple(dict.fromkeys(versions)))


def _replaced(record: Record, values: Mapping[Fact, str]) -> str:
    """The record's text with other values of these facts, wherever they stand."""
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
