"""Known identifiers against a nested loop over every identifier and every place, and by hand; also with slips."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medunlearn.audit.audit_tables import leaked
from medunlearn.audit.identifiers.findings import as_frame, crossed, find_known
from medunlearn.audit.identifiers.kinds import GROUPS, kind_of, kinds
from medunlearn.audit.identifiers.known import KnownIdentifiers
from medunlearn.audit.identifiers.name_forms import full_forms
from medunlearn.audit.identifiers.outputs import RecordResponse
from medunlearn.data.records import Identifier, Record

Respond = Callable[..., RecordResponse]
Matches = set[tuple[int, int, str]]
WORDS = ("ada", "ben", "vorn", "quill", "van", "a", "x1", "12", "0123", "90")
GAPS = (" ", ", ", "-", "", " - ", ".  ", " (", "\n", "\n\n", "; and ")


def index(*declared: tuple[str, str], record: str = "ada-1") -> KnownIdentifiers:
    return KnownIdentifiers([Record(record, "", {}, tuple(Identifier(*pair) for pair in declared))])


def found_in(catalogue: KnownIdentifiers, output: RecordResponse, fuzzy: str = "own", **texts: str) -> pd.DataFrame:
    return as_frame(find_known([output], catalogue, texts, fuzzy))  # type: ignore[arg-type]


def nested_loop(text: str, values: list[tuple[str, str]]) -> Matches:
    """Every identifier, tried with an expression of its own at every place of the text."""
    matches: Matches = set()
    for kind, value in values:
        words = [word.lower() for word in re.findall(r"[^\W_]+", value)]
        for order in [form.split(" ") for form in full_forms(value)] if kind == "name" else [words]:
            number = kinds()[kind].form == "number"
            parts = "".join(order) if number else order
            body = (r"[\W_]{0,2}" if number else r"(?:[\W_]{1,3})").join(map(re.escape, parts))
            for match in re.finditer(rf"(?<![^\W_])(?=({body})(?![^\W_]))", text.lower()):
                if all(gap.count("\n") < 2 for gap in re.findall(r"[\W_]+", match[1])):
                    matches.add((match.start(), match.end(1), kind))
    return {entry for entry in matches if not any(_within(entry, other) for other in matches)}


def _within(entry: tuple[int, int, str], other: tuple[int, int, str]) -> bool:
    return other[0] <= entry[0] and entry[1] <= other[1] and entry[:2] != other[:2]


@st.composite
def notes(draw: st.DrawFn) -> tuple[str, list[tuple[str, str]]]:
    parts = draw(st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(GAPS)), max_size=14))
    names = st.lists(st.sampled_from(WORDS[:6]), min_size=1, max_size=3)
    numbers = st.lists(st.sampled_from(WORDS[6:]), min_size=2, max_size=3)
    values = [("name", " ".join(words)) for words in draw(st.lists(names, max_size=3))]
    values += [("phone", "-".join(groups)) for groups in draw(st.lists(numbers, max_size=3))]
    return "".join(word + gap for word, gap in parts), values


@settings(max_examples=80, deadline=None)
@given(notes())
def test_the_index_equals_the_nested_loop(note: tuple[str, list[tuple[str, str]]]) -> None:
    text, values = note
    catalogue = index(*values)
    searched = [entry for entry in values if len(re.sub(r"\W", "", entry[1])) >= 5 or entry[0] == "name"]
    searched = [entry for entry in searched if entry[0] == "phone" or max(map(len, entry[1].split())) >= 3]
    hits = catalogue.find(text)
    matches = {(hit.start, hit.end, catalogue.identifiers[number].kind) for hit in hits for number in hit.numbers}
    assert matches == nested_loop(text, searched)


@pytest.mark.parametrize(
    ("kind", "value", "variant"),
    [
        ("name", "Ada Quillstane", "QUILLSTANE, ADA"),
        ("name", "José Vorn", "Jose  Vorn"),
        ("name", "Ada\nQuillstane", "ada quillstane"),
        ("email", "ada_q@example.org", "Ada_Q@Example.org"),
        ("phone", "299-555-0123", "(299) 555.0123"),
        ("ssn", "900-01-0001", "900010001"),
        ("record_number", "HX-204511", "hx 204511"),
        ("birth_date", "1961-04-03", "April 3, 1961"),
        ("birth_date", "1961-04-03", "3rd of April 1961"),
        ("birth_date", "1961-04-03", "04/03/61"),
        ("birth_date", "1961-04-03", "3-Apr-1961"),
        ("birth_date", "April 3, 1961", "1961/4/3"),
        ("age", "91", "91-year-old"),
        ("age", "91 years", "aged 91"),
        ("age", "91", "91 y.o."),
        ("address", "12 Inkwell Lane, Tarnhythe", "12 inkwell lane Tarnhythe"),
    ],
)
def test_the_same_value_written_otherwise_is_found(kind: str, value: str, variant: str) -> None:
    text = f"She said: {variant}; and more."
    (hit,) = index((kind, value)).find(text)
    assert text[hit.start : hit.end].rstrip(".") == variant.strip("(.")


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("name", "Ann Lee", "Joann Lee came"),
        ("name", "Ann Lee", "He left Ann.\n\nLee was the next"),
        ("name", "Ann Lee", "Ann and then Lee"),
        ("ssn", "900-01-0001", "900-01-00012 or 1900-01-0001"),
        ("birth_date", "1961-04-03", "1961-04-04 and April 1961"),
        ("age", "91", "91 mg and room 91"),
    ],
)
def test_another_value_is_not_found(kind: str, value: str, text: str) -> None:
    assert index((kind, value)).find(text) == []


def test_values_that_cannot_be_searched_are_counted() -> None:
    catalogue = index(("record_number", "1234"), ("photo", "x.png"), ("name", "Al"))
    assert catalogue.find("1234 x.png Al") == []
    assert [(hit.start, hit.end) for hit in catalogue.find("MRN 1234")] == [(4, 8)]
    assert sum(catalogue.skipped.values()) == 2
    assert catalogue.skipped["photo: no text holds one"] == 1


def test_findings_have_owner_and_prefix(records: list[Record], respond: Respond) -> None:
    text = "Ada Quillstane, 3 April 1961, told Ben Vorndrask (91 years old) of HX-204511."
    texts = {record.record_id: record.text for record in records}
    table = found_in(KnownIdentifiers(records), respond(text, prefix="This is QUILLSTANE, Ada."), **texts)
    assert table[["kind", "owner", "owner_record", "in_record", "in_prefix"]].to_numpy().tolist() == [
        ["name", "record", "ada-1", True, True],
        ["date", "record", "ada-1", True, False],
        ["name", "other", "ben-1", False, False],
        ["age", "other", "ben-1", False, False],
        ["record_number", "record", "ada-1", True, False],
    ]
    assert [text[a:b] for a, b in zip(table["place"], table["end"], strict=True)] == table["value"].tolist()
    assert table["word"].tolist() == [len(re.findall(r"\w+", text[:place])) for place in table["place"]]
    assert leaked(table)["kind"].tolist() == ["date", "record_number"]
    assert crossed(table)["key"].tolist() == ["ben vorndrask"]


def test_another_record_of_the_same_subject_is_no_cross_leak(respond: Respond) -> None:
    name = (Identifier("name", "Ada Quillstane"),)
    records = [Record("a1", "", {}), Record("a2", "", {}, name), Record("b", "", {}, name)]
    catalogue = KnownIdentifiers(records, {"a1": "ada", "a2": "ada"})
    output = respond("ada quillstane", record="a1", subject="ada")
    table = found_in(catalogue, output)
    assert table[["owner", "owner_record", "owners"]].to_numpy().tolist() == [["subject", "a2", 2]]
    assert crossed(table).empty
    assert leaked(table).empty
    # What a record does not declare may still be in its text.
    assert leaked(found_in(catalogue, output, a1="Ada Quillstane came."))["owner"].tolist() == ["subject"]


@pytest.mark.parametrize(
    ("kind", "value", "slip", "near"),
    [
        ("name", "Ada Quillstane", "Ada Quilstane", True),
        ("name", "Ada Quillstane", "Ida Quillstane", True),
        ("name", "Ada Quillstane", "A. Quillstane", True),
        ("name", "Ada Quillstane", "Eva Quillstone", False),
        ("phone", "299-555-0123", "299-555-0124", True),
        ("phone", "299-555-0123", "299-555-0132", False),
        ("phone", "555-013", "555-014", False),
        ("birth_date", "1961-04-03", "1961-04-04", False),
        ("address", "12 Inkwell Lane", "12 Inkwel Lane", True),
        ("address", "12 Inkwell Lane", "13 Inkwell Row", False),
    ],
)
def test_slips_are_found_where_near_enough(kind: str, value: str, slip: str, near: bool, respond: Respond) -> None:
    catalogue, output = index((kind, value)), respond(f"It was {slip}.")
    for fuzzy in ("own", "all"):
        table = found_in(catalogue, output, fuzzy)
        assert table["match"].tolist() == (["fuzzy"] if near else [])
        assert (table["similarity"] < 1).all()
    assert found_in(catalogue, output, "none").empty


def test_slips_of_others_are_found_on_request(records: list[Record], respond: Respond) -> None:
    catalogue, output = KnownIdentifiers(records), respond("Ben Vorndrasc")
    assert found_in(catalogue, output, "own").empty
    assert found_in(catalogue, output, "all")["owner_record"].tolist() == ["ben-1"]


def test_an_exact_match_is_not_a_slip_of_another(respond: Respond) -> None:
    catalogue = index(("name", "Ada Quillstane"), ("name", "Ida Quillstane"))
    table = found_in(catalogue, respond("Ada Quillstane"))
    assert table[["match", "key"]].to_numpy().tolist() == [["exact", "ada quillstane"]]


def test_hipaas_eighteen_have_groups_and_declared_types() -> None:
    assert {kind.hipaa for kind in kinds().values()} == {*range(1, 19), None}
    assert {name for name, kind in kinds().items() if kind.hipaa is None} == {"hospital", "clinician", "profession"}
    assert {kind.group for kind in kinds().values()} <= set(GROUPS)
    types = [other for kind in kinds().values() for other in (kind.name, *kind.also)]
    assert len(types) == len(set(types))
    declared = {"Birth date": "date", "MRN": "record_number", "institution": "hospital", "shoe size": "other_code"}
    assert {entry: kind_of(entry).name for entry in declared} == declared


def test_a_short_year_may_be_of_two_centuries() -> None:
    catalogue = index(("dob", "1915-03-04"), ("date", "2015-04-03"))
    (hit,) = catalogue.find("seen 03/04/15")
    days = {date.fromisoformat(catalogue.identifiers[number].key) for number in hit.numbers}
    assert days == {date(1915, 3, 4), date(2015, 4, 3)}
