"""Counts, Tables 9 and 10, masks and sensitive content, worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd
import pytest

from medunlearn.audit.identifiers.detectors import DetectedSpan
from medunlearn.audit.identifiers.detectors.patterns import Patterns
from medunlearn.audit.identifiers.findings import Output, as_frame, find_known, leaked
from medunlearn.audit.identifiers.kinds import masked
from medunlearn.audit.identifiers.known import KnownIdentifiers
from medunlearn.audit.identifiers.sensitive import find_terms, term_lists
from medunlearn.audit.identifiers.tables import (
    MISSED,
    CountOptions,
    by_kind,
    by_subject,
    missed_by,
    table9,
    table10,
)
from medunlearn.data.records import Record


@pytest.fixture
def outputs(said: Callable[..., Output]) -> list[Output]:
    return [
        # The name twice and the phone once: two instances, three places.
        said("Ada Quillstane, Ada Quillstane, 299-555-0123. Sodium 128 mmol/L, heparin.", probe="p1"),
        # The name was given; the date was not.
        said(
            "Ada Quillstane, born 1961-04-03. Her daughter gave the history.", prefix="Ada Quillstane", probe="p2"
        ),
        said("Nothing. Sodium 129 mmol/L and aspirin.", record="ben-1", probe="p3"),
        said("Seen at Tarnhythe Clinic by Orlquill; a man of 91.", record="ben-1", probe="p4"),
    ]


@pytest.fixture
def findings(outputs: Sequence[Output], records: list[Record]) -> pd.DataFrame:
    return as_frame(find_known(outputs, KnownIdentifiers.of(records), {one.record_id: one.text for one in records}))


@pytest.fixture
def sensitive(outputs: Sequence[Output], records: list[Record]) -> pd.DataFrame:
    texts = {one.record_id: one.text for one in records}
    return as_frame(row for output in outputs for row in find_terms(output, texts[output.record_id]))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("900-01-0001", "9##-##-####"),
        ("John Smith", "J### S####"),
        ("HX-204511", "H#-######"),
        ("Dr. José 7", "D#. J### #"),
        ("a@b.org", "#@#.o##"),
        ("", ""),
    ],
)
def test_a_mask_keeps_the_shape(value: str, shown: str) -> None:
    assert masked(value) == shown


def test_instances_places_responses_and_subjects_are_counted(findings: pd.DataFrame, outputs: list[Output]) -> None:
    table = by_kind(findings, outputs, options=CountOptions(replicates=200)).set_index("kind")
    counted = table[["frequency", "mentions", "responses", "subjects"]]
    assert counted.loc["name"].tolist() == [1, 2, 1, 1]
    assert counted.loc["phone"].tolist() == [1, 1, 1, 1]
    assert counted.loc["ssn"].tolist() == [0, 0, 0, 0]
    assert table.loc["name", "per_response"] == 0.25
    # Two subjects: a draw holds the name's owner zero, one or two times of two.
    assert (table.loc["name", "low"], table.loc["name", "high"]) == (0.0, 0.5)
    assert table.loc["name", "examples"] == "A## Q#########"
    assert "photo" not in table.index
    shown = by_kind(findings, outputs, options=CountOptions(True, 50)).set_index("kind")
    assert shown.loc["phone", "examples"] == "299-555-0123"


def test_table_9_groups_as_the_paper_does(findings: pd.DataFrame, outputs: list[Output]) -> None:
    table = table9(findings, outputs, options=CountOptions(replicates=50))
    assert table["title"].tolist()[:3] == ["Dates/ ages", "Names", "Locations"]
    # A birth date and an age; a patient's and a clinician's name; a clinic.
    assert dict(zip(table["group"], table["frequency"], strict=True)) == {
        "dates_ages": 2,
        "names": 2,
        "locations": 1,
        "contacts": 1,
        "numbers": 0,
        "other": 0,
    }
    assert table9(as_frame([]), outputs, options=CountOptions(replicates=50))["frequency"].tolist() == [0] * 6


def test_each_variant_has_its_own_rows(findings: pd.DataFrame, outputs: list[Output]) -> None:
    other = [Output(one.record_id, one.probe_id, one.subject, "top_k_10", 0, one.prefix, "") for one in outputs]
    table = table9(findings, [*outputs, *other], options=CountOptions(replicates=50))
    assert table.groupby("variant")["frequency"].sum().to_dict() == {"greedy": 6, "top_k_10": 0}


def test_each_subject_has_its_counts(findings: pd.DataFrame) -> None:
    table = by_subject(findings)
    assert table[["subject", "all"]].to_numpy().tolist() == [["ada-1", 3], ["ben-1", 3]]
    assert by_subject(as_frame([])).empty


def test_sensitive_content_has_to_stand_in_the_record_too(sensitive: pd.DataFrame) -> None:
    told = sensitive[["probe_id", "kind", "value"]].to_numpy().tolist()
    assert told == [
        ["p1", "laboratory_finding", "Sodium 128 mmol/L"],
        ["p1", "medication", "heparin"],
        ["p2", "family_relationship", "daughter"],
        ["p2", "family_history_provider", "daughter gave"],
    ]


def test_sensitive_content_that_was_given_is_no_leak(said: Callable[..., Output]) -> None:
    output = said("Given heparin.", prefix="On heparin since May.")
    found = as_frame(find_terms(output, "On heparin since May."))
    assert found["in_prefix"].tolist() == [True]
    assert leaked(found).empty


def test_table_10_has_the_papers_categories(
    findings: pd.DataFrame, sensitive: pd.DataFrame, outputs: list[Output]
) -> None:
    table = table10(sensitive, outputs, findings, options=CountOptions(replicates=50)).set_index("name")
    categories = ["Highly sensitive diagnoses", "Family relationships", "Healthcare facility", "Treatment details"]
    assert set(categories) <= set(table["category"])
    there = table[table["frequency"] > 0]["frequency"].to_dict()
    assert there == {
        "family_history_provider": 1,
        "family_relationship": 1,
        "hospital_name": 1,
        "physician_name": 1,
        "laboratory_finding": 1,
        "medication": 1,
    }


def test_what_a_detector_missed_is_counted_beside(findings: pd.DataFrame, outputs: list[Output]) -> None:
    missed = missed_by(Patterns(), findings, outputs)
    # Rules find dates, ages, phones and clinics; a bare "Ada Quillstane, Ada" and "Orlquill" have no cue.
    assert missed["key"].tolist() == ["ada quillstane", "ada quillstane", "orlquill"]
    table = table10(as_frame([]), outputs, findings, missed=missed, options=CountOptions(replicates=50))
    rows = table[table["category"] == MISSED].set_index("name")["frequency"]
    assert rows.to_dict() == {"dates_ages": 0, "names": 2, "locations": 0, "contacts": 0, "numbers": 0, "other": 0}


def test_a_detector_that_finds_all_misses_nothing(findings: pd.DataFrame, outputs: list[Output]) -> None:
    class All:
        name, version = "all", "1"

        def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
            return [list(self._of(one)) for one in outputs]

        def _of(self, output: Output) -> Iterator[DetectedSpan]:
            for row in findings[findings["probe_id"] == output.probe_id].to_dict("records"):
                yield DetectedSpan(row["place"], row["end"], row["kind"])

    assert missed_by(All(), findings, outputs).empty


def test_the_lists_are_in_order() -> None:
    for name, content in term_lists().contents.items():
        assert content.terms or content.forms or content.detects, name
        assert all(term and term == term.lower() for term in content.terms), name


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("history of alcohol use disorder and tobacco use", "abuse_history"),
        ("The daughter provided medical history.", "family_history_provider"),
        ("her father's died and she cannot go on", "family_trauma"),
        ("An 80 y.o. female presents", "gender"),
        ("a 45F with cough", "gender"),
        ("known lumbar spinal stenosis", "laboratory_finding"),
        ("troponin I of 0.4 ng/mL", "laboratory_finding"),
        ("on Medrol Dosepak", "medication"),
    ],
)
def test_what_the_paper_gives_as_examples_is_found(text: str, kind: str, said: Callable[..., Any]) -> None:
    assert kind in {row["kind"] for row in find_terms(said(text), text)}
