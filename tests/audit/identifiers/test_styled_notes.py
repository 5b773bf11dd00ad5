"""Rules on notes in styles, written before the rules were tuned and after, and on single sentences."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations

import pytest
from pages import Page

from medunlearn.audit.identifiers.detectors.detected_spans import DetectedSpan
from medunlearn.audit.identifiers.detectors.patterns import Patterns
from medunlearn.audit.identifiers.kinds import kinds
from medunlearn.audit.identifiers.labelled_notes import (
    HALVES,
    LabelledText,
    labelled_styles,
    labelled_texts,
    read_marked,
    style_of,
)
from medunlearn.audit.identifiers.recall import detector_recall, recall_by_style

PAGE = Page.read("results.md", "Audits")


def found(text: str) -> list[tuple[str, str]]:
    return [(span.kind, text[span.start : span.end]) for span in Patterns().find([text])[0]]


def test_every_label_is_a_kind_and_the_halves_share_no_sentence() -> None:
    assert read_marked("[Ada](name), [61](age)") == (
        "Ada, 61",
        (DetectedSpan(0, 3, "name"), DetectedSpan(5, 7, "age")),
    )
    sentences = []
    for half in HALVES:
        notes = labelled_styles(half)
        styles = Counter(style_of(note) for note in notes)
        assert len(styles) == (8 if half == "fresh" else 4)
        assert min(styles.values()) >= 5
        assert {span.kind for note in notes for span in note.spans} <= set(kinds())
        assert not any("](" in note.text for note in notes)
        parts = [part.strip() for note in notes for part in re.split(r"[.\n]", note.text)]
        sentences.append({part for part in parts if len(part.split()) > 6})
    assert all(one.isdisjoint(other) for one, other in combinations(sentences, 2))
    assert sum(len(note.text) > 0 for note in labelled_styles("fresh")) >= 40
    assert labelled_texts("held-out")[0].subject == "dictated-1"


def test_names_and_dates_of_held_out_notes() -> None:
    table = recall_by_style(Patterns(), "held_out").set_index(["style", "group"])
    for group in ("names", "dates_ages"):
        total = table.loc[("all", group)]
        assert total["recall"] >= 0.9
        assert total["precision"] >= 0.9
        assert total["recall_low"] < total["recall"] <= total["recall_high"]


def test_the_page_says_how_well_fresh_notes_are_read() -> None:
    """A change of the rules changes these numbers: new notes are written then, not these numbers."""
    page = " ".join(PAGE.text.split())
    by_kind = detector_recall(Patterns(), labelled_styles("fresh"), replicates=2).set_index("kind")
    for kind, row in by_kind[by_kind["labelled"] >= 5].iterrows():
        assert f"| {kind} | {row['found']}/{row['labelled']}, {row['right']}/{row['detected']} | " in page
    styles = recall_by_style(Patterns(), "fresh", ("names",)).set_index("style")
    for style, row in styles.iterrows():
        assert f"| {style} | {row['found']}/{row['labelled']}, {row['right']}/{row['detected']} | " in page


def test_known_given_names_carry_the_rules_but_not_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any list of names context finds at least two of three."""
    from medunlearn.audit.identifiers.detectors import gazetteer as lists

    full = lists.gazetteer()
    bare = lists.Gazetteer(**{**vars(full), **dict.fromkeys(("given", "ambiguous", "family"), frozenset())})
    modules = ("gazetteer", "name_candidates", "person_names", "spoken_names", "patterns")
    for module in modules:
        monkeypatch.setattr(f"medunlearn.audit.identifiers.detectors.{module}.gazetteer", lambda: bare)
    table = recall_by_style(Patterns(), "held_out").set_index(["style", "group"])
    assert 2 / 3 < table.loc[("all", "names"), "recall"] < 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Zdenka Quillstane is a 50-year-old woman.", [("name", "Zdenka Quillstane"), ("age", "50-year-old")]),
        ("Pt Zdenka Quillstane came back.", [("name", "Zdenka Quillstane")]),
        ("QUILLSTANE, ZDENKA\nMRN: 88213", [("name", "QUILLSTANE, ZDENKA"), ("record_number", "88213")]),
        ("Name: DOE, JANE A. DOB: 3/4/1950", [("name", "DOE, JANE A."), ("date", "3/4/1950")]),
        ("Patient: Zdenka Orlquill\nDOB: 3/4/1950", [("name", "Zdenka Orlquill"), ("date", "3/4/1950")]),
        ("Phone: +14085550121", [("phone", "+14085550121")]),
        ("Seen with Renée Étoilante, her wife.", [("name", "Renée Étoilante")]),
        ("cc: T. Alder; R. Orlquill, PA-C", [("clinician", "T. Alder"), ("clinician", "R. Orlquill")]),
        ("Referred by J. Orlquill, MD.", [("clinician", "J. Orlquill")]),
        ("[doctor] hi , zdenka . any pain ?", [("name", "zdenka")]),
        ("[doctor] hi logan . so logan , any pain ?", [("name", "logan"), ("name", "logan")]),
        ("His wife, Zdenka, drove. Zdenka is well.", [("name", "Zdenka"), ("name", "Zdenka")]),
        ("Grace Miller reports pain.", [("name", "Grace Miller")]),
        ("Seen on June 3rd and in March 2014.", [("date", "June 3rd"), ("date", "March 2014")]),
        ("Worse since the spring of 2016.", [("date", "spring of 2016")]),
        ("Stent in 08/2011; returns 2/27.", [("date", "08/2011"), ("date", "2/27")]),
        ("From 3 to 8 March he was in bed.", [("date", "3 to 8 March")]),
        ("It began on the 25th, before Thanksgiving.", [("date", "the 25th"), ("date", "Thanksgiving")]),
        ("MR# 00-45-12, Acc #: CR14-871", [("record_number", "00-45-12"), ("record_number", "CR14-871")]),
        ("Call 555-0142 or pager 31245.", [("phone", "555-0142"), ("phone", "31245")]),
        ("She is from Lornvale, OH 45402.", [("location", "Lornvale, OH 45402")]),
        ("He is the mayor of Lornvale.", [("profession", "mayor"), ("location", "Lornvale")]),
        ("She works as a teacher; a roofer by trade.", [("profession", "teacher"), ("profession", "roofer")]),
        ("Mr. al-Rashid saw Dr. Small.", [("name", "al-Rashid"), ("clinician", "Small")]),
        ("Dial +44 20 7946 0958 or 2995550123.", [("phone", "+44 20 7946 0958"), ("phone", "2995550123")]),
        (
            "Host fe80::1ff:fe23, port 00:1B:44:11:3A:B7.",
            [("ip_address", "fe80::1ff:fe23"), ("device", "00:1B:44:11:3A:B7")],
        ),
        (
            "S/N: PM-204518. ACC: 4481723. Case #S19-22318.",
            [("device", "PM-204518"), ("record_number", "4481723"), ("record_number", "S19-22318")],
        ),
        (
            "ZIP 44120; he is of Oxford, MS, on Pine Street.",
            [("location", "44120"), ("location", "Oxford, MS"), ("location", "Pine Street")],
        ),
        (
            "Moved to Pike County Memorial from St. Brigid's.",
            [("hospital", "Pike County Memorial"), ("hospital", "St. Brigid's")],
        ),
        ("66 M with pain. Wife (36) is well. An 80s male.", [("age", "66 M"), ("age", "36"), ("age", "80s")]),
        ("A 3-month-old and a seventy-year-old.", [("age", "3-month-old"), ("age", "seventy-year-old")]),
    ],
)
def test_forms_that_notes_have(text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Temperature 98 F, T 99F, Tmax 101 F.",
        "A 10-year history of gout and a 40-pack-year history of smoking.",
        "She walked 20 m, then 400 m. A 16F Foley was placed.",
        "Murphy sign is negative. Allen test, Bell's palsy, Babinski reflex; Foley removed.",
        "Strength 5/5, pain 7/10, murmur 2/6, Apgar 8/9, visual acuity 20/40.",
        "She may return. He will march on; in the fall she fell.",
        "Patient Denies Chest Pain. Review of Systems: Positive. Discussed with Orthopedics.",
        "HR in the 80s at 12:30:15. Study: 2019. Seen by Dr. On Call; he went to General Surgery.",
        "She teaches. He traveled to Ohio and Brazil.",
        "Seen by Dr. X and Dr. XYZ.",
        "CT Abdomen and Pelvis; PA and Lateral views. Hashimoto thyroiditis. Lasix was stopped.",
    ],
)
def test_what_names_nobody_is_not_found(text: str) -> None:
    assert found(text) == []


def test_a_month_with_a_year_is_no_place() -> None:
    assert found("She was born in May 1930 and raised in March.") == [("date", "May 1930"), ("date", "March")]


def test_ages_labelled_by_their_number_alone_count_as_found() -> None:
    """i2b2 labels ``50`` of ``50-year-old``."""
    texts = [
        LabelledText(str(age), f"A {age}-year-old man, {age} years old.", (DetectedSpan(2, 4, "age"),))
        for age in range(40, 50)
    ]
    (age, total) = detector_recall(Patterns(), texts).to_dict("records")
    assert (age["kind"], age["labelled"], age["found"], age["detected"], age["right"]) == ("age", 10, 10, 20, 10)
    assert (total["recall"], round(total["recall_low"], 4), total["recall_high"]) == (1.0, 0.6915, 1.0)
