"""Strangers: invented people that replace a record's subject.

A model's answers about a stranger show what it says about somebody it never saw. Unlearning takes them as its
target (:mod:`medunlearn.generation.counterfactuals`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from medunlearn.data.alternatives import AlternativePool
from medunlearn.data.facts import NAMES, values_in
from medunlearn.data.records import Record
from medunlearn.data.value_draws import dates_like, numbers_like
from medunlearn.seeds import generator

_SHORTEST = 3
"""Letters that a word of a name has at least to be replaced where it stands alone."""


@dataclass(frozen=True)
class Stranger:
    """An invented person who replaces a subject.

    Attributes:
        values: identifier of the subject, or a word of the subject's name -> the stranger's.
    """

    values: Mapping[str, str] = field(default_factory=dict)

    def replaced(self, text: str) -> str:
        """A text about the subject, with the stranger's identifiers instead."""
        return _substitute(text, self.values)

    def restored(self, text: str) -> str:
        """A text about the stranger, with the subject's identifiers restored."""
        return _substitute(text, {invented: own for own, invented in self.values.items()})

    def places(self, text: str) -> list[tuple[int, int, int]]:
        """Positions of the subject's identifiers in a text: start, end, and length of the replacement."""
        matches = self._pattern.finditer(text) if self.values else ()
        return [(*match.span(), len(self.values[match.group()])) for match in matches]

    def named_in(self, text: str) -> Stranger:
        """The stranger reduced to the identifiers that occur in a text."""
        return Stranger({own: invented for own, invented in self.values.items() if own in text})

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return _pattern_of(self.values)


def invent_strangers(record: Record, pool: AlternativePool, count: int, seed: int = 0) -> list[Stranger]:
    """Invent people to replace a record's subject, who share no word of a name with the subject.

    Identifiers are drawn like alternatives; if none of a kind can be drawn, the subject's own stays.
    """
    return [Stranger(dict(_draw_names(record, pool, seed, place))) for place in range(count)]


def redraw_values(text: str, rng: np.random.Generator, keep: Sequence[str] = ()) -> str:
    """Redraw a text's numbers and dates around their values.

    This keeps a model's answers about a stranger from revealing another patient's values.

    Args:
        keep: values that stay.
    """
    parts, end = [], 0
    for fact in values_in(text):
        value = fact.of(text)
        if value not in keep:
            draws = dates_like(value, rng, 1) if fact.kind == "date" else numbers_like(value, rng, 1)
            parts += [text[end : fact.start], next((other for other in draws if other != value), value)]
            end = fact.end
    return "".join(parts) + text[end:]


def _draw_names(record: Record, pool: AlternativePool, seed: int, place: int) -> Iterator[tuple[str, str]]:
    rng = generator("stranger", seed, record.record_id, place)
    words: dict[str, str] = {}
    for identifier in record.identifiers:
        own = set(identifier.value.split())
        name = identifier.type in NAMES
        values = pool.values_like(identifier, rng)
        invented = next((value for value in values if not (name and own & set(value.split()))), None)
        if invented is None:
            continue
        yield identifier.value, invented
        if name:
            words |= dict(zip(identifier.value.split(), invented.split(), strict=False))
    values_of = {identifier.value for identifier in record.identifiers}
    yield from ((own, new) for own, new in words.items() if len(own) >= _SHORTEST and own not in values_of)


def _pattern_of(values: Mapping[str, str]) -> re.Pattern[str]:
    longest_first = sorted(values, key=lambda value: (-len(value), value))
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")


def _substitute(text: str, values: Mapping[str, str]) -> str:
    return _pattern_of(values).sub(lambda match: values[match.group()], text) if values else text
