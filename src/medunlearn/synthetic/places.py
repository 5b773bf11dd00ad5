"""Towns where invented people live and stories happen: existing ones, and towns of fantasy."""

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
    """Towns that there are, for stories of every genre but Fantasy."""
    return tuple(place.city for place in places())


@cache
def fantasy_towns() -> tuple[str, ...]:
    """1,656 towns that are nowhere."""
    return spell_words("fantasy_starts", "fantasy_middles", "fantasy_endings")


def addresses(count: int, rng: np.random.Generator) -> list[str]:
    """Different addresses that lead nowhere: the street stands in one state, town and ZIP code in another.

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
