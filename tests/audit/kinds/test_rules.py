"""Rules on invented spans that were labelled by hand; the order of evidence; records that hold a span."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pages import Page

from medunlearn.audit.kinds import GROUPS, kinds
from medunlearn.audit.kinds.kind_rules import records_holding, sort_span, term_weights
from medunlearn.config.audit import KindSettings
from medunlearn.judging.writing import task_class

PAGE = Page.read("papers/memorization.md").text
WALK = "he walked two miles to the well and back before the swelling began"
RECORDS = [
    ("a", "The text of one record. All rights reserved by the owner of this text."),
    ("b", "Another. ALL RIGHTS reserved, by the owner of this text; more follows here."),
    ("c", "All rights are reserved by the owner."),
]
WORDS = st.lists(st.sampled_from("abcd"), min_size=3, max_size=14).map(" ".join)


def sorted_spans(name: str) -> tuple[int, list[tuple[str, str]]]:
    """Number of a file's spans, and a person's and the rules' kind of those with a rule."""
    with (Path(__file__).parent / name).open(encoding="utf-8", newline="") as file:
        pairs = [(row["kind"], sort_span(KindSettings(), row["span"], "x")[0]) for row in csv.DictReader(file)]
    return len(pairs), [(person, rules) for person, rules in pairs if rules is not None]


def test_the_catalogue_has_every_kind_of_the_papers_tables() -> None:
    assert list(kinds())[:6] == ["research", "editorial", "drug", "guidance", "concepts", "applied"]
    harmful = [name for name, kind in kinds().items() if kind.group == "harmful"]
    assert harmful == ["patient_information", "clinical_narrative", "dataset_artifact"]
    assert {kind.group for kind in kinds().values()} == set(GROUPS)
    enum = task_class("memorized_kind")().prompt.schema["properties"]["kind"]["enum"]
    assert enum == [*kinds(), "unclear"]


def test_labelled_spans_are_sorted_and_the_page_says_how_well() -> None:
    number, pairs = sorted_spans("labelled.csv")
    assert number == 72
    assert len(pairs) >= 0.9 * number
    assert sum(person == rules for person, rules in pairs) >= 0.95 * len(pairs)
    assert {rules for _, rules in pairs} == {person for person, _ in pairs}
    # Written and labelled after the terms, and never used to change them.
    number, pairs = sorted_spans("labelled_blind.csv")
    right = sum(person == rules for person, rules in pairs)
    page = " ".join(PAGE.split())
    assert f"On {number} others" in page
    assert f"they sort {len(pairs)}, and {right} of these rightly" in page


@pytest.mark.parametrize(
    ("span", "corpus", "evidence", "label"),
    [
        (WALK, "notes", {}, ("clinical_narrative", None)),
        (WALK, "notes", {"identified": True}, ("patient_information", None)),
        (WALK, "notes", {"records": 5}, ("editorial", None)),
        (WALK, "notes", {"records": 4}, ("clinical_narrative", None)),
        (WALK, "guidelines", {}, (None, "too few terms of any kind")),
        (WALK, "exam", {}, ("dataset_artifact", None)),
        ("which is right? A. aspirin B. heparin C. none D. both", "guidelines", {}, ("dataset_artifact", None)),
        ("A. baumannii and E. coli were found", "guidelines", {}, (None, "too few terms of any kind")),
        ("a dose of 5 mg orally", "notes", {"identified": True, "records": 40}, ("patient_information", None)),
        ("a dose of a tablet and its gene, a protein", "x", {}, (None, "as many terms of drug and concepts")),
    ],
)
def test_evidence_comes_before_words(span: str, corpus: str, evidence: dict[str, Any], label: tuple[Any, Any]):
    assert sort_span(KindSettings(clinical=("notes",), datasets=("exam",)), span, corpus, **evidence) == label


def test_terms_are_whole_words_and_a_star_takes_any_ending() -> None:
    weights = term_weights("Doser of milligrams, a generic receptors' scent; it was contraindicated.")
    assert weights["drug"] == 1
    assert weights["concepts"] == 1


def test_case_marks_broken_words_and_pieces_do_not_count() -> None:
    spans = {
        "rights reserved by the owner of this": 2,
        "ghts reserved by the own": 2,
        "All rights reserved": 2,
        "no such words": 0,
        "the owner": 0,  # too short
        "": 0,
    }
    assert records_holding(list(spans), [*RECORDS, RECORDS[0]]) == list(spans.values())


@settings(deadline=None)
@given(spans=st.lists(WORDS, min_size=1, max_size=4), texts=st.lists(WORDS, min_size=1, max_size=6))
def test_as_looking_for_each_span_in_each_record(spans: list[str], texts: list[str]) -> None:
    records = [(str(number), text) for number, text in enumerate(texts)]
    slowly = [sum(bool(re.search(rf"\b{span}\b", text)) for text in texts) for span in spans]
    assert records_holding(spans, records) == slowly
