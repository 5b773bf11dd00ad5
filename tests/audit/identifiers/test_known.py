"""KnownIdentifiers identifiers against a nested loop over every identifier and every place, and by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medunlearn.audit.identifiers.findings import Output, as_frame, crossed, find_known, leaked
from medunlearn.audit.identifiers.kinds import GROUPS, kind_of, kinds
from medunlearn.audit.identifiers.known import KnownIdentifiers
from medunlearn.data.records import Identifier, Record

Found = set[tuple[int, int, str]]
WORDS = ("ada", "ben", "vorn", "quill", "van", "a", "x1", "12", "0123", "90", "José", "jose", "straße")
GAPS = (" ", ", ", "-", "", " - ", ".  ", " (", "\n", "\n\n", "; and ")


def nested_loop(text: str, values: list[tuple[str, str]]) -> Found:
    """Every identifier, tried with an expression of its own at every place of the text."""
    found: Found = set()
    for kind, value in values:
        words = [w.lower() for w in re.findall(r"[^\W_]+", value)]
        form = kinds()[kind].form
        orders = [words]
        if kind == "name" and len(words) > 1:
            orders.append([words[-1], *words[:-1]])
        for order in orders:
            if form == "number":
                between = r"[\W_]{0,2}"
                body = between.join(re.escape(letter) for letter in "".join(order))
            else:
                between = r"(?:[\W_]{1,3})"
                body = between.join(re.escape(word) for word in order)
            for match in re.finditer(rf"(?<![^\W_])(?=({body})(?![^\W_]))", text.lower()):
                if all(gap.count("\n") < 2 for gap in re.findall(r"[\W_]+", match[1])):
                    found.add((match.start(), match.end(1), kind))
    return {one for one in found if not any(_within(one, other) for other in found)}


def _within(one: tuple[int, int, str], other: tuple[int, int, str]) -> bool:
    return other[0] <= one[0] and one[1] <= other[1] and one[:2] != other[:2]


@st.composite
def notes(draw: st.DrawFn) -> tuple[str, list[tuple[str, str]]]:
    plain = [word for word in WORDS if word.isascii()]
    parts = draw(st.lists(st.tuples(st.sampled_from(plain), st.sampled_from(GAPS)), max_size=14))
    names = st.lists(st.sampled_from(["ada", "ben", "vorn", "quill", "van", "a"]), min_size=1, max_size=3)
    numbers = st.lists(st.sampled_from(["12", "0123", "90", "x1"]), min_size=2, max_size=3)
    values = [("name", " ".join(words)) for words in draw(st.lists(names, max_size=3))]
    values += [("phone", "-".join(groups)) for groups in draw(st.lists(numbers, max_size=3))]
    return "".join(word + gap for word, gap in parts), values


@settings(max_examples=120, deadline=None)
@given(notes())
def test_the_index_equals_the_nested_loop(made: tuple[str, list[tuple[str, str]]]) -> None:
    text, values = made
    known = KnownIdentifiers.of([Record("r", "", {}, tuple(Identifier(kind, value) for kind, value in values))])
    looked_for = [one for one in values if len(re.sub(r"\W", "", one[1])) >= 5 or one[0] == "name"]
    looked_for = [one for one in looked_for if one[0] == "phone" or max(map(len, one[1].split())) >= 3]
    found = {
        (hit.start, hit.end, known.identities[number].kind) for hit in known.find(text) for number in hit.identities
    }
    assert found == nested_loop(text, looked_for)


@pytest.mark.parametrize(
    ("kind", "value", "written"),
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
def test_the_same_value_written_otherwise_is_found(kind: str, value: str, written: str) -> None:
    known = KnownIdentifiers.of([Record("r", "", {}, (Identifier(kind, value),))])
    text = f"She said: {written}; and more."
    (hit,) = known.find(text)
    assert text[hit.start : hit.end].rstrip(".") == written.strip("(.")


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("name", "Ann Lee", "Joann Lee came"),
        ("name", "Ann Lee", "He left Ann.\n\nLee was the next"),
        ("name", "Ann Lee", "Ann and then Lee"),
        ("ssn", "900-01-0001", "900-01-00012"),
        ("ssn", "900-01-0001", "1900-01-0001"),
        ("birth_date", "1961-04-03", "1961-04-04 and April 1961"),
        ("age", "91", "91 mg and room 91"),
        ("record_number", "1234", "1234"),
        ("photo", "face.png", "face.png"),
    ],
)
def test_what_is_another_value_is_not(kind: str, value: str, text: str) -> None:
    assert KnownIdentifiers.of([Record("r", "", {}, (Identifier(kind, value),))]).find(text) == []


def test_what_cannot_be_looked_for_is_counted() -> None:
    declared = (Identifier("record_number", "12"), Identifier("photo", "x.png"), Identifier("name", "Al"))
    skipped = KnownIdentifiers.of([Record("r", "", {}, declared)]).skipped
    assert sum(skipped.values()) == 3
    assert skipped["photo: no text holds one"] == 1


def test_findings_say_whose_it_is_and_whether_it_was_given(
    records: list[Record], said: Callable[..., Output]
) -> None:
    known, texts = KnownIdentifiers.of(records), {one.record_id: one.text for one in records}
    response = "Ada Quillstane, 3 April 1961, told Ben Vorndrask (91 years old) of HX-204511."
    outputs = [said(response, prefix="This is QUILLSTANE, Ada.")]
    found = as_frame(find_known(outputs, known, texts))
    told = found[["kind", "owner", "owner_record", "in_record", "in_prefix"]].to_numpy().tolist()
    assert told == [
        ["name", "record", "ada-1", True, True],
        ["date", "record", "ada-1", True, False],
        ["name", "other", "ben-1", False, False],
        ["age", "other", "ben-1", False, False],
        ["record_number", "record", "ada-1", True, False],
    ]
    assert [response[a:b] for a, b in zip(found["place"], found["end"], strict=True)] == found["value"].tolist()
    assert found["word"].tolist() == [len(re.findall(r"\w+", response[:a])) for a in found["place"]]
    assert leaked(found)["kind"].tolist() == ["date", "record_number"]
    assert crossed(found)["key"].tolist() == ["ben vorndrask"]


def test_another_record_of_the_same_subject_is_no_cross_leak(said: Callable[..., Output]) -> None:
    name = Identifier("name", "Ada Quillstane")
    records = [Record("a1", "", {}), Record("a2", "", {}, (name,)), Record("b", "", {}, (name,))]
    known = KnownIdentifiers.of(records, {"a1": "ada", "a2": "ada"})
    found = as_frame(find_known([said("ada quillstane", record="a1", subject="ada")], known, {}))
    assert found[["owner", "owner_record", "owners"]].to_numpy().tolist() == [["subject", "a2", 2]]
    assert crossed(found).empty
    assert leaked(found).empty


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
        ("address", "12 Inkwell Lane", "13 Inkwell Lane", False),
    ],
)
def test_slips_are_found_where_they_are_near_enough(
    kind: str, value: str, slip: str, near: bool, said: Callable[..., Output]
) -> None:
    known = KnownIdentifiers.of([Record("ada-1", "", {}, (Identifier(kind, value),))])
    outputs = [said(f"It was {slip}.")]
    for fuzzy in ("own", "all"):
        found = as_frame(find_known(outputs, known, {}, fuzzy))  # type: ignore[arg-type]
        assert found["match"].tolist() == (["fuzzy"] if near else [])
        assert (found["similarity"] < 1).all()
    assert as_frame(find_known(outputs, known, {}, "none")).empty


def test_slips_of_others_are_found_only_when_asked_for(records: list[Record], said: Callable[..., Output]) -> None:
    known, outputs = KnownIdentifiers.of(records), [said("Ben Vorndrasc")]
    assert as_frame(find_known(outputs, known, {}, "own")).empty
    found = as_frame(find_known(outputs, known, {}, "all"))
    assert found["owner_record"].tolist() == ["ben-1"]


def test_an_exact_match_is_not_a_slip_of_another() -> None:
    declared = (Identifier("name", "Ada Quillstane"), Identifier("name", "Ida Quillstane"))
    known = KnownIdentifiers.of([Record("r", "", {}, declared)])
    found = as_frame(find_known([Output("r", "p", "r", "greedy", 0, "", "Ada Quillstane")], known, {}))
    assert found[["match", "key"]].to_numpy().tolist() == [["exact", "ada quillstane"]]


def test_hipaas_eighteen_are_all_there_and_every_kind_has_a_group() -> None:
    assert {kind.hipaa for kind in kinds().values()} == {*range(1, 19), None}
    assert {name for name, kind in kinds().items() if kind.hipaa is None} == {"hospital", "clinician", "profession"}
    assert {kind.group for kind in kinds().values()} <= set(GROUPS)
    declared = [other for kind in kinds().values() for other in (kind.name, *kind.also)]
    assert len(declared) == len(set(declared))


def test_declared_types_have_their_kind() -> None:
    declared = {"Birth date": "date", "MRN": "record_number", "institution": "hospital", "shoe size": "other_code"}
    assert {one: kind_of(one).name for one in declared} == declared


def test_a_short_year_may_be_of_two_centuries() -> None:
    known = KnownIdentifiers.of(
        [Record("r", "", {}, (Identifier("dob", "1915-03-04"), Identifier("date", "2015-04-03")))]
    )
    (hit,) = known.find("seen 03/04/15")
    days = {date.fromisoformat(known.identities[number].key) for number in hit.identities}
    assert days == {date(1915, 3, 4), date(2015, 4, 3)}
