"""Ids that may be one person's are found, and nothing is taken or retained before the user has said so."""

from __future__ import annotations

from pathlib import Path

import pytest
from row_files import write_csv

import medunlearn as mu
from medunlearn.audit.identifiers.same_person import (
    SAME_BIRTH_DATE,
    SAME_ID,
    SAME_NAME,
    SAME_NUMBER,
    People,
    id_key,
    joined_ids,
    read_same_person,
    requested_ids,
)
from medunlearn.errors import InputError
from medunlearn.sources.patient_notes import read_patient_notes

PEOPLE = {
    # id: name, number, birth date
    "4711": ("Ada Vane", "77", "1950-02-03"),
    "0004711": ("", "", ""),
    "p-7": ("VANE, ADA", "91", "1971-01-01"),
    "P-007": ("Cy Ray", "92", "1972-01-01"),
    "30": ("Ada Lowe", "", "03.02.1950"),
    "31": ("Bo Low", "93", "19500203"),
    "32": ("unknown", "0077", ""),
    "33": ("Unknown", "94", "1950"),
    "34": ("", "95", "1950"),
    "35": ("Ann1 Vane1", "", ""),
    "36": ("Ann2 Vane2", "", ""),
}
VALUES = [
    (who, column, value)
    for who, values in PEOPLE.items()
    for column, value in zip(("patient_name", "mrn", "dob"), values, strict=True)
]


@pytest.mark.parametrize(
    ("one", "other"),
    [("4711", "0004711"), ("4711", "4711.0"), ("4711", " 4711.00"), ("A-07", "a-7"), ("x10", "X10"), ("0", "000")],
)
def test_ids_that_spreadsheets_and_people_write_for_one(one: str, other: str) -> None:
    assert id_key(one) == id_key(other)


@pytest.mark.parametrize(("one", "other"), [("4711", "47110"), ("1001", "101"), ("A-7", "B-7"), ("1.5", "15")])
def test_ids_of_two(one: str, other: str) -> None:
    assert id_key(one) != id_key(other)


def test_pairs_and_their_reasons() -> None:
    pairs = {(one, other): set(why) for one, other, why in People(PEOPLE, VALUES).doubles()}
    assert pairs == {
        ("0004711", "4711"): {SAME_ID},
        ("4711", "p-7"): {SAME_NAME},
        ("P-007", "p-7"): {SAME_ID},
        # The same birth date in three forms, of the same given name; Bo Low has no word of Ada Vane's name.
        ("30", "4711"): {SAME_BIRTH_DATE},
        ("32", "4711"): {SAME_NUMBER},
    }


def test_a_request_waits_for_what_the_user_says() -> None:
    people = People(PEOPLE, VALUES)
    assert requested_ids(["31"], people, []) == ["31"]
    with pytest.raises(InputError, match="--same-person 4711") as error:
        requested_ids(["4711"], people, [])
    assert all(f"- {other}: " in str(error.value) for other in ("0004711", "p-7", "30", "32"))
    assert "P-007" not in str(error.value)
    with pytest.raises(InputError, match=r"--patient 4711,0004711,"):
        requested_ids(["4711", "0004711"], people, [])
    assert requested_ids(["4711"], people, [("0004711", "4711", "elsewhere")]) == ["4711", "0004711"]
    assert requested_ids(["4711"], people, [("4711",)]) == ["4711"], "she has no other id"
    assert requested_ids(["4711.0"], people, [("4711",)]) == ["4711"], "the table lost it, and a letter did not"
    with pytest.raises(InputError, match="names an id that is not there"):
        requested_ids(["00030"], people, [])
    assert requested_ids(["nobody"], people, []) == ["nobody"], "who refuses it names no other id"


def test_what_the_user_says_in_a_file_or_in_words(tmp_path: Path) -> None:
    file = tmp_path / "ids.csv"
    file.write_text('4711,"0004711"\n\n12\t012\n13\n')
    persons = read_same_person(str(file))
    assert persons == [("4711", "0004711"), ("12", "012"), ("13",)] == read_same_person("4711,0004711;12,012;13")
    assert joined_ids(persons)["0004711"] == "4711"
    assert read_same_person(None) == []
    for wrong in ("4711,12;12,13", " ; ", str(tmp_path / "none.csv")):
        with pytest.raises(InputError):
            read_same_person(wrong)


def test_no_note_of_a_patient_stays_in_the_retain_set_unsaid(tmp_path: Path) -> None:
    """Three spellings of one id, as three exports write them, and a table of another hospital's number."""
    ids = ("4711", "4711.0", "0004711", "12", "13")
    rows = [
        {"patient_id": who, "mrn": f"m{n}", "note": f"Note {n}. Fever was measured and a drug was given, no. {n}."}
        for n, who in enumerate(ids)
    ]
    notes = write_csv(tmp_path / "n.csv", rows)
    assert [note.patient for note in read_patient_notes(notes).notes] == ["4711", "4711", "0004711", "12", "13"]
    with pytest.raises(InputError, match=r"0004711: .*leading zeros"):
        mu.build.notes(notes, forget_patients="4711")
    for said in ({"forget_patients": "4711,0004711"}, {"forget_patients": "4711", "same_person": "0004711,4711"}):
        split = mu.build.notes(notes, **said).split("request")
        assert ({*split.forget}, {*split.retain}) == ({"4711", "0004711"}, {"12", "13"})
    alone = mu.build.notes(notes, forget_patients="4711", same_person="4711").split("request")
    assert {*alone.retain} == {"0004711", "12", "13"}
    joined = mu.build.notes(notes, same_person="4711,0004711")
    assert joined.nodes("patient") == mu.build.notes(notes, same_person="4711,0004711;12").nodes("patient")
    assert {*joined.nodes("patient")} == {"4711", "12", "13"}
