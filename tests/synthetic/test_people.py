"""LUME's invented people: the paper's ranges, and nothing that can be somebody's."""

from __future__ import annotations

import re
from datetime import date

import pytest

from medunlearn.errors import InputError
from medunlearn.seeds import generator
from medunlearn.synthetic.people import MOST_PEOPLE, Person, invent_people
from medunlearn.synthetic.places import addresses, cities, fantasy_towns, places


@pytest.fixture(scope="module")
def people() -> list[Person]:
    return invent_people(2000, generator("people test"))


def test_fields_are_in_their_ranges(people: list[Person]) -> None:
    for person in people:
        assert date(1964, 1, 1) <= person.birth_date <= date(1991, 1, 1)
        assert re.fullmatch(r"900-(0[1-9]|[1-4]\d)-(?!0000)\d{4}", person.ssn)
        # The middle digit 9 of an area code is reserved, 555-01xx is for fiction.
        assert re.fullmatch(r"[2-9]9\d-555-01\d\d", person.phone)
        first, last = person.name.lower().split()
        assert person.email == f"{first}_{last}@me.com"


def test_no_two_share_a_field(people: list[Person]) -> None:
    for field in ("name", "ssn", "phone", "email", "address"):
        assert len({getattr(person, field) for person in people}) == len(people), field


def test_an_address_mixes_two_states(people: list[Person]) -> None:
    home = {place.street: place.state for place in places()}
    town = {(place.city, place.state, place.zip) for place in places()}
    assert len(home) == len({place.state for place in places()}) == len(town) == 50
    for person in people:
        street, city, state, code = re.fullmatch(r"1\d{4} (.+), (.+), (..), (\d{5})", person.address).groups()
        assert (city, state, code) in town
        assert home[street] != state


def test_more_people_than_telephone_numbers_have_extensions() -> None:
    people = invent_people(9_000, generator("many"))
    assert len({person.phone for person in people}) == len({person.ssn for person in people}) == 9_000
    assert all(re.fullmatch(r"[2-9]9\d-555-01\d\d( x[1-9]\d\d)?", person.phone) for person in people)
    assert not any("x" in person.phone for person in invent_people(8_000, generator("many")))
    with pytest.raises(InputError, match="489,951 invented people, not for 489,952"):
        invent_people(MOST_PEOPLE + 1, generator("many"))


def test_towns_of_fantasy_are_nowhere() -> None:
    assert len(set(fantasy_towns())) == len(fantasy_towns()) == 1656
    assert not set(fantasy_towns()) & set(cities())
    assert len(set(addresses(500, generator("addresses")))) == 500
