"""Strangers share nothing with the person in whose place they stand, and the way back is exact."""

from __future__ import annotations

import pytest

from medunlearn.data.alternatives import AlternativePool
from medunlearn.data.records import Identifier, Record
from medunlearn.data.strangers import Stranger, invent_strangers, redraw_values
from medunlearn.seeds import generator

NAMES = ("Anna Berg", "Ida Holm", "Eva Lund", "Anna Dahl", "Mia Falk")


def record(place: int, text: str = "") -> Record:
    identifiers = (
        Identifier("name", NAMES[place]),
        Identifier("birth_date", f"19{place}0-02-03"),
        Identifier("record_number", f"HX-10{place}27"),
    )
    return Record(f"r{place}", text, {"patient": f"p{place}"}, identifiers)


@pytest.fixture
def pool() -> AlternativePool:
    return AlternativePool([record(place) for place in range(len(NAMES))], (), "patient", 9)


def test_a_stranger_has_no_word_of_her_name_and_none_of_her_numbers(pool: AlternativePool) -> None:
    people = invent_strangers(record(0), pool, 6)
    for stranger in people:
        assert not {"Anna", "Berg"} & set(stranger.values["Anna Berg"].split())
        assert stranger.values["Anna Berg"] not in NAMES
        assert stranger.values["HX-10027"].startswith("HX-1")
        assert len({*stranger.values.values()}) == len(stranger.values)
    assert len({stranger.values["Anna Berg"] for stranger in people}) > 1
    assert invent_strangers(record(0), pool, 6) == people
    assert invent_strangers(record(0), pool, 3) == people[:3]


def test_there_and_back(pool: AlternativePool) -> None:
    (stranger,) = invent_strangers(record(0), pool, 1)
    text = "Anna Berg (1900-02-03), HX-10027. Ms Berg left; Bergen is a town."
    replaced = stranger.replaced(text)
    assert "Berg," not in replaced
    assert "Bergen is a town" in replaced
    assert "Ms Berg left" not in replaced
    assert stranger.restored(replaced) == text


def test_only_what_a_prompt_says_is_replaced() -> None:
    stranger = Stranger({"Anna Berg": "Ida Dahl", "HX-1": "HX-2"})
    assert stranger.named_in("Who is Anna Berg?").values == {"Anna Berg": "Ida Dahl"}
    assert Stranger().replaced("Anna Berg") == "Anna Berg"


def test_numbers_and_dates_are_drawn_anew_and_nothing_else() -> None:
    text = "On 2021-03-04 troponin T was 70 ng/L, born 1950-01-02, HX-12."
    new_text = redraw_values(text, generator("test"), keep=["1950-01-02"])
    assert new_text != text
    assert "2021-03-04" not in new_text
    assert " 70 ng/L" not in new_text
    assert "born 1950-01-02, HX-12." in new_text
    assert new_text.startswith("On ")
    assert redraw_values("No value at all.", generator("test")) == "No value at all."
