"""Towns of invented people and stories: existing ones, and fictitious ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from medunlearn.synthetic.grammar import word_lists
from medunlearn.synthetic.identities import spell_words

HOUSES = 9000
"""House numbers run from 10,000 to 18,999."""


@dataclass(frozen=True, slots=True)
class Town:
    """A town of one state with its ZIP code, and a street in that state."""

    state: str
    city: str
    zip: str
    street: str


@cache
def places() -> tuple[Town, ...]:
    """One place per state of the United States."""
    return tuple(Town(**entry) for entry in word_lists("lume/places"))


def cities() -> tuple[str, ...]:
    """Existing towns, for stories of every genre but Fantasy."""
    return tuple(place.city for place in places())


@cache
def fantasy_towns() -> tuple[str, ...]:
    """1,656 fictitious towns."""
    return spell_words("fantasy_starts", "fantasy_middles", "fantasy_endings")


def addresses(count: int, rng: np.random.Generator) -> list[str]:
    """Distinct non-existing addresses: a street of one state with town and ZIP code of another.

    Source: LUME, Section 2.1 (Task 2).
    """
    towns = places()
    pairs = len(towns) * (len(towns) - 1)
    draws: list[int] = rng.choice(pairs * HOUSES, size=count, replace=False).tolist()
    return [_address(towns, *divmod(draw, HOUSES)) for draw in draws]


def _address(towns: Sequence[Town], pair: int, house: int) -> str:
    street, other = divmod(pair, len(towns) - 1)
    town = towns[other + (other >= street)]
    return f"{house + 10_000} {towns[street].street}, {town.city}, {town.state}, {town.zip}"
