"""Rules on invented spans that were labelled by hand before the rules were run on them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from medunlearn.llm.tasks import task_class
from medunlearn.memorization.kinds import GROUPS, Rules, Span, group_of, kinds

LABELLED = Path(__file__).with_name("labelled.csv")


def labelled() -> list[tuple[str, str]]:
    with LABELLED.open(encoding="utf-8", newline="") as file:
        return [(row["kind"], row["span"]) for row in csv.DictReader(file)]


def test_every_kind_of_the_papers_tables_is_there():
    assert list(kinds())[:6] == ["research", "editorial", "drug", "guidance", "concepts", "applied"]
    assert [name for name in kinds() if group_of(name) == "harmful"] == [
        *("patient_information", "clinical_narrative", "dataset_artifact"),
    ]
    assert {kind.group for kind in kinds().values()} == set(GROUPS)


def test_accuracy_on_spans_that_were_labelled_by_hand():
    """Of spans that get a kind at least 85% get the right one; at least 75% get one; each kind is found."""
    spans = labelled()
    assert len(spans) == 48
    given = [(kind, Rules().sort(Span(text, "corpus")).kind) for kind, text in spans]
    sorted_ = [(kind, found) for kind, found in given if found is not None]
    assert sum(kind == found for kind, found in sorted_) >= 0.85 * len(sorted_)
    assert len(sorted_) >= 0.75 * len(given)
    for name in {kind for kind, _ in spans}:
        own = [found for kind, found in given if kind == name]
        assert own.count(name) >= len(own) / 2, name


WALK = "he walked two miles to the well and back before the swelling began"


@pytest.mark.parametrize(
    ("span", "kind"),
    [
        (Span(WALK, "notes"), "clinical_narrative"),
        (Span(WALK, "notes", identified=True), "patient_information"),
        (Span(WALK, "notes", records=5), "editorial"),
        (Span(WALK, "notes", records=4), "clinical_narrative"),
        (Span(WALK, "guidelines"), None),
        (Span(WALK, "exam"), "dataset_artifact"),
        (Span("which is right? A. aspirin B. heparin C. none D. both", "guidelines"), "dataset_artifact"),
        (Span("A. baumannii and E. coli were found", "guidelines"), None),
        (Span("a dose of 5 mg orally", "notes", identified=True, records=40), "patient_information"),
    ],
)
def test_evidence_comes_before_words(span: Span, kind: str | None):
    rules = Rules(clinical=frozenset({"notes"}), datasets=frozenset({"exam"}))
    assert rules.sort(span).kind == kind


def test_what_no_rule_takes_says_why():
    rules = Rules()
    assert rules.sort(Span("the quick brown fox", "x")).reason == "too few terms of any kind"
    tied = rules.sort(Span("a dose of one tablet changes the gene and its protein", "x"))
    assert (tied.kind, tied.reason) == (None, "as many terms of drug and concepts")


def test_terms_are_whole_words_and_a_star_takes_any_ending():
    weights = Rules().weights("Doser of milligrams, a generic receptors' scent; it was contraindicated.")
    assert weights["drug"] == 1
    assert weights["concepts"] == 1


def test_a_judge_has_the_same_kinds():
    enum = task_class("memorized_kind")().prompt.schema["properties"]["kind"]["enum"]
    assert enum == [*kinds(), "unclear"]
