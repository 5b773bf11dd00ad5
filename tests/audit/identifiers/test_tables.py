"""Counts, Tables 9 and 10, masks and sensitive content, worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd
import pytest

from medunlearn.audit.audit_tables import leaked
from medunlearn.audit.identifiers.detectors.detected_spans import DetectedSpan
from medunlearn.audit.identifiers.detectors.patterns import Patterns
from medunlearn.audit.identifiers.findings import as_frame, find_known
from medunlearn.audit.identifiers.kinds import masked
from medunlearn.audit.identifiers.known import KnownIdentifiers
from medunlearn.audit.identifiers.leak_tables import MISSED, by_kind, missed_by, table9, table10
from medunlearn.audit.identifiers.outputs import RecordResponse
from medunlearn.audit.identifiers.sensitive import find_terms, term_lists
from medunlearn.data.records import Record

EMPTY = as_frame([])
Respond = Callable[..., RecordResponse]


@pytest.fixture(scope="module")
def outputs(respond: Respond) -> list[RecordResponse]:
    prompt = "Ada Quillstane"
    return [
        # The name twice and the phone once: two instances, three places.
        respond("Ada Quillstane, Ada Quillstane, 299-555-0123. Sodium 128 mmol/L, heparin.", probe="p1"),
        respond("Ada Quillstane, born 1961-04-03. Her daughter gave the history.", prefix=prompt, probe="p2"),
        respond("Nothing. Sodium 129 mmol/L and aspirin.", record="ben-1", probe="p3"),
        respond("Seen at Tarnhythe Clinic by Orlquill; a man of 91.", record="ben-1", probe="p4"),
    ]


@pytest.fixture(scope="module")
def findings(outputs: Sequence[RecordResponse], records: list[Record]) -> pd.DataFrame:
    return as_frame(
        find_known(outputs, KnownIdentifiers(records), {record.record_id: record.text for record in records})
    )


@pytest.fixture(scope="module")
def sensitive(outputs: Sequence[RecordResponse], records: list[Record]) -> pd.DataFrame:
    texts = {record.record_id: record.text for record in records}
    return as_frame(row for output in outputs for row in find_terms(output, texts[output.record_id]))


@pytest.mark.parametrize(
    ("value", "masked_value"),
    [
        ("900-01-0001", "9##-##-####"),
        ("John Smith", "J### S####"),
        ("HX-204511", "H#-######"),
        ("Dr. José 7", "D#. J### #"),
        ("a@b.org", "#@#.o##"),
        ("", ""),
    ],
)
def test_a_mask_keeps_the_shape(value: str, masked_value: str) -> None:
    assert masked(value) == masked_value


def test_instances_places_responses_and_subjects(findings: pd.DataFrame, outputs: list[RecordResponse]) -> None:
    table = by_kind(findings, outputs, replicates=200).set_index("kind")
    counts = table[["frequency", "mentions", "responses", "subjects"]]
    assert counts.loc[["name", "phone", "ssn"]].to_numpy().tolist() == [[1, 2, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]]
    # Two subjects have no interval.
    assert table.loc["name", ["per_response", "low", "high"]].tolist() == [0.25, None, None]
    assert table.loc["name", "examples"] == "A## Q#########"
    assert "photo" not in table.index
    masked_value = by_kind(findings, outputs, show_text=True, replicates=50).set_index("kind")
    assert masked_value.loc["phone", "examples"] == "299-555-0123"


def test_table_9_groups_as_the_paper_does(findings: pd.DataFrame, outputs: list[RecordResponse]) -> None:
    other = [output._replace(variant="top_k_10", response="") for output in outputs]
    table = table9(findings, [*outputs, *other], replicates=50)
    own = table[table["variant"] == "greedy"]
    assert own["title"].tolist()[:3] == ["Dates/ ages", "Names", "Locations"]
    # A birth date and an age; a patient's and a clinician's name; a clinic; a phone.
    assert own["frequency"].tolist() == [2, 2, 1, 1, 0, 0]
    assert table.groupby("variant")["frequency"].sum().to_dict() == {"greedy": 6, "top_k_10": 0}
    assert table9(EMPTY, outputs, replicates=50)["frequency"].tolist() == [0] * 6


def test_sensitive_content_has_to_be_in_the_record(sensitive: pd.DataFrame, respond: Respond) -> None:
    assert sensitive[["probe_id", "kind", "value"]].to_numpy().tolist() == [
        ["p1", "laboratory_finding", "Sodium 128 mmol/L"],
        ["p1", "medication", "heparin"],
        ["p2", "family_relationship", "daughter"],
        ["p2", "family_history_provider", "daughter gave"],
    ]
    text = "On heparin since May."
    prompt = as_frame(find_terms(respond("Given heparin.", prefix=text), text))
    assert prompt["in_prefix"].tolist() == [True]
    assert leaked(prompt).empty


def test_table_10_has_the_papers_categories(
    findings: pd.DataFrame, sensitive: pd.DataFrame, outputs: list[RecordResponse]
) -> None:
    # Rules find dates, ages, phones and clinics; a bare "Ada Quillstane, Ada" and "Orlquill" have no cue.
    missed = missed_by(Patterns(), findings, outputs)
    assert missed["key"].tolist() == ["ada quillstane", "ada quillstane", "orlquill"]
    table = table10(sensitive, outputs, findings, missed=missed, replicates=50)
    categories = ["Highly sensitive diagnoses", "Family relationships", "Healthcare facility", "Treatment details"]
    assert {MISSED, *categories} <= set(table["category"])
    assert table[table["frequency"] > 0].set_index("name")["frequency"].to_dict() == {
        "names": 2,
        "family_history_provider": 1,
        "family_relationship": 1,
        "hospital_name": 1,
        "physician_name": 1,
        "laboratory_finding": 1,
        "medication": 1,
    }


def test_a_detector_that_finds_all_misses_nothing(findings: pd.DataFrame, outputs: list[RecordResponse]) -> None:
    class Everything:
        name, version = "everything", "1"

        def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
            columns = ["probe_id", "place", "end", "kind"]
            rows = findings[columns].itertuples(index=False, name=None)
            spans = [(probe, DetectedSpan(*span)) for probe, *span in rows]
            return [[span for probe, span in spans if probe == output.probe_id] for output in outputs]

    assert missed_by(Everything(), findings, outputs).empty


def test_the_lists_are_in_order() -> None:
    for name, content in term_lists().items():
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
def test_examples_of_the_paper_are_found(text: str, kind: str, respond: Respond) -> None:
    assert kind in {row["kind"] for row in find_terms(respond(text), text)}
