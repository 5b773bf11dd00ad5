"""Rules on invented spans that were labelled by hand, and the order in which evidence counts."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from medunlearn.audit.kinds import GROUPS, KindRules, MemorizedSpan, group_of, kinds
from medunlearn.judging.writing import task_class

HERE = Path(__file__).parent
PAGE = (Path(__file__).parents[3] / "docs" / "audit_report.md").read_text(encoding="utf-8")


def sorted_spans(name: str) -> list[tuple[str, str | None]]:
    """The kind that a person gave and the rules' own, of every span of a file."""
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        return [
            (row["kind"], KindRules().sort(MemorizedSpan(row["span"], "x")).kind) for row in csv.DictReader(file)
        ]


def test_every_kind_of_the_papers_tables_is_there():
    assert list(kinds())[:6] == ["research", "editorial", "drug", "guidance", "concepts", "applied"]
    assert [name for name in kinds() if group_of(name) == "harmful"] == [
        *("patient_information", "clinical_narrative", "dataset_artifact"),
    ]
    assert {kind.group for kind in kinds().values()} == set(GROUPS)


def test_the_rules_sort_the_spans_that_their_terms_were_written_with():
    found = sorted_spans("labelled.csv")
    given = [(kind, own) for kind, own in found if own is not None]
    assert len(found) == 72
    assert len(given) >= 0.9 * len(found)
    assert sum(kind == own for kind, own in given) >= 0.95 * len(given)
    assert {own for _, own in given} == {kind for kind, _ in found}


def test_the_page_says_how_they_do_on_spans_that_they_were_not_written_with():
    """Written and labelled after the terms, and never used to change them: the page has to say the numbers."""
    found = sorted_spans("labelled_blind.csv")
    given = [(kind, own) for kind, own in found if own is not None]
    right = sum(kind == own for kind, own in given)
    said = f"sort {len(given)} of {len(found)}, and {right} of these rightly"
    assert said in " ".join(PAGE.split())


WALK = "he walked two miles to the well and back before the swelling began"


@pytest.mark.parametrize(
    ("span", "kind"),
    [
        (MemorizedSpan(WALK, "notes"), "clinical_narrative"),
        (MemorizedSpan(WALK, "notes", identified=True), "patient_information"),
        (MemorizedSpan(WALK, "notes", records=5), "editorial"),
        (MemorizedSpan(WALK, "notes", records=4), "clinical_narrative"),
        (MemorizedSpan(WALK, "guidelines"), None),
        (MemorizedSpan(WALK, "exam"), "dataset_artifact"),
        (MemorizedSpan("which is right? A. aspirin B. heparin C. none D. both", "guidelines"), "dataset_artifact"),
        (MemorizedSpan("A. baumannii and E. coli were found", "guidelines"), None),
        (MemorizedSpan("a dose of 5 mg orally", "notes", identified=True, records=40), "patient_information"),
    ],
)
def test_evidence_comes_before_words(span: MemorizedSpan, kind: str | None):
    rules = KindRules(clinical=frozenset({"notes"}), datasets=frozenset({"exam"}))
    assert rules.sort(span).kind == kind


def test_what_no_rule_takes_says_why():
    rules = KindRules()
    assert rules.sort(MemorizedSpan("the quick brown fox", "x")).reason == "too few terms of any kind"
    tied = rules.sort(MemorizedSpan("a dose of one tablet changes the gene and its protein", "x"))
    assert (tied.kind, tied.reason) == (None, "as many terms of drug and concepts")


def test_terms_are_whole_words_and_a_star_takes_any_ending():
    weights = KindRules().weights("Doser of milligrams, a generic receptors' scent; it was contraindicated.")
    assert weights["drug"] == 1
    assert weights["concepts"] == 1


def test_a_judge_has_the_same_kinds():
    enum = task_class("memorized_kind")().prompt.schema["properties"]["kind"]["enum"]
    assert enum == [*kinds(), "unclear"]
