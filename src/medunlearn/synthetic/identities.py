"""Names and numbers that cannot belong to a real person.

A name cannot be proved to be unused, so names are built from syllables of no usual name, and every other identifier
comes from a range that is never assigned:

- SSN: ``900-01-0001`` to ``900-49-9999``. The area numbers 900 to 999 are never issued as a social security
  number, and taxpayer numbers that begin with 9 have 50 or more in the middle.
- Phone: ``555-0100`` to ``555-0199`` is set aside for fiction, and area codes with 9 in the middle (``29x``,
  ``39x``, ...) are not assigned. 80 area codes, 100 numbers and 900 extensions make 7,200,000.
- E-mail: at ``example.org``, ``example.net`` or ``example.com``, reserved by RFC 2606.
- Address: streets and towns that do not exist.
- Record number: ``HX-`` and six digits, of hospitals that do not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from medunlearn.errors import InputError
from medunlearn.synthetic.grammar import word_lists
from medunlearn.synthetic.knowledge import SEXES, Sex

_PHONES = (80, 100, 900)
_SSNS = (49, 9999)
_RECORD_NUMBERS = 900_000

MOST_PATIENTS = _SSNS[0] * _SSNS[1]
"""No hospital is larger (489,951): there are more names than that, but no more distinct SSNs."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A person without name and birth date; no two identities of one hospital share a value."""

    record_number: str
    phone: str
    email: str
    address: str
    ssn: str


def invent_names(sexes: Sequence[Sex], rng: np.random.Generator) -> list[str]:
    """A given and a family name for each person, all distinct; no name is contained in another."""
    names = [""] * len(sexes)
    for sex in SEXES:
        given_names, family_names = _given_names(sex), _family_names()
        places = [place for place, own_sex in enumerate(sexes) if own_sex == sex]
        for place, draw in zip(
            places, _distinct(len(given_names) * len(family_names), len(places), rng), strict=True
        ):
            first, last = divmod(draw, len(family_names))
            names[place] = f"{given_names[first]} {family_names[last]}"
    return names


def invent_identities(names: Sequence[str], rng: np.random.Generator) -> list[Identity]:
    """Record number, phone, e-mail, address and SSN for each name.

    An e-mail address consists of the name, like real ones, and three random digits: knowing the name, the chance of
    guessing it is 1 in 2,700.
    """
    count = len(names)
    towns, streets, ways, domains = _towns(), _names("streets"), _names("ways"), _names("domains")
    addresses = (9000, len(streets), len(ways), len(towns))
    draws = zip(
        names,
        _distinct(_RECORD_NUMBERS, count, rng),
        _distinct(int(np.prod(_PHONES)), count, rng),
        rng.integers(0, (len(domains), 900), size=(count, 2)).tolist(),
        _distinct(int(np.prod(addresses)), count, rng),
        _distinct(MOST_PATIENTS, count, rng),
        strict=True,
    )
    identities = []
    for name, record, phone, (domain, digits), address, ssn in draws:
        house, street, way, town = _parts(address, addresses)
        identities.append(
            Identity(
                record_number=f"HX-{record + 100_000}",
                phone=_phone(phone),
                email=f"{name.lower().replace(' ', '.')}.{digits + 100}@{domains[domain]}",
                address=f"{house + 1000} {streets[street]} {ways[way]}, {towns[town]}",
                ssn=ssn_of(ssn),
            )
        )
    return identities


def institution_names(count: int, rng: np.random.Generator) -> tuple[str, ...]:
    """Different hospitals in invented towns.

    Raises:
        InputError: more than the number of available names.
    """
    towns, houses = _towns(), _names("houses")
    most = len(towns) * len(houses)
    if count > most:
        raise InputError(f"There are names for {most} institutions, not for {count}: use at most {most}.")
    # Towns differ as long as they last, so that hospitals differ by more than their last words.
    order = rng.permutation(towns).tolist()
    names = []
    for place in range(count):
        lap, town = divmod(place, len(order))
        names.append(f"{order[town]} {houses[(town + lap) % len(houses)]}")
    return tuple(names)


def _distinct(space: int, count: int, rng: np.random.Generator) -> list[int]:
    numbers: list[int] = rng.choice(space, size=count, replace=False).tolist()
    return numbers


def _names(name: str) -> tuple[str, ...]:
    words: tuple[str, ...] = word_lists("texts/names")[name]
    return words


def _parts(number: int, sizes: Sequence[int]) -> list[int]:
    parts = []
    for size in reversed(sizes):
        number, part = divmod(number, size)
        parts.append(part)
    return parts[::-1]


def _phone(draw: int) -> str:
    area, line, extension = _parts(draw, _PHONES)
    hundreds, last = divmod(area, 10)
    return f"{hundreds + 2}9{last}-555-01{line:02d} x{extension + 100}"


def ssn_of(draw: int) -> str:
    """One of the :data:`MOST_PATIENTS` unassigned numbers, by its index."""
    group, serial = divmod(draw, _SSNS[1])
    return f"900-{group + 1:02d}-{serial + 1:04d}"


def spell_words(*parts: str) -> tuple[str, ...]:
    """Every word from the lists of ``texts/names.yaml``, with one part from each list."""
    return tuple("".join(word) for word in product(*map(_names, parts)))


@cache
def _towns() -> tuple[str, ...]:
    return spell_words("town_starts", "town_endings")


@cache
def _given_names(sex: Sex) -> tuple[str, ...]:
    return spell_words("onsets", "vowels", f"{sex}_endings")


@cache
def _family_names() -> tuple[str, ...]:
    """Words that are no prefix of another: a shorter name inside a longer one would look like a leak of both."""
    ordered = sorted(set(spell_words("family_starts", "family_middles", "family_endings")))
    return tuple(
        word for word, after in zip(ordered, [*ordered[1:], ""], strict=True) if not after.startswith(word)
    )
