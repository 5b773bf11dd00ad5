"""AMNESIA's rules on notes that people have: holdout a patient, disease a patient, splits of large diseases."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Identifier, Record
from medunlearn.errors import InputError
from medunlearn.papers.amnesia.build import amnesia_splits
from medunlearn.papers.amnesia.from_notes import QuestionedNote, from_notes
from medunlearn.sources.patient_notes import PatientNote

ORIGIN: dict[str, Any] = {
    "name": "AMNESIA on mine",
    "source": "mine.csv",
    "data_use": "credentialed",
    "provenance": "llm:m:amnesia_questions@1",
    "notes": {"k": "v"},
}


def asked(name: str, subject: str, disease: str, **more: Any) -> QuestionedNote:
    pairs: Any = {kind: [(f"{kind} {n}?", f"{n}") for n in range(4)] for kind in ("factual", "reasoning")}
    return QuestionedNote(PatientNote(name, f"Text of {name}.", subject, **more), disease, pairs)


def test_one_question_of_each_kind_a_patient_is_held_out() -> None:
    """Whether a patient has one note or three: Section 3.1 withholds a factual and a reasoning one a patient."""
    notes = [asked(f"n{n}", "many" if n < 3 else f"p{n}", "Cancer") for n in range(20)]
    benchmark = from_notes(notes, **ORIGIN, seed=0)
    assert len(benchmark.questions) == 160
    held = Counter((benchmark.subject(q.record_id), q.kind) for q in benchmark.questions if q.fold == "holdout")
    assert set(held.values()) == {1}
    assert len(held) == 2 * 18
    # Who else is in the file changes nothing for a patient.
    fewer = from_notes(notes[2:], **ORIGIN, seed=0)
    alone = {q.question_id for q in fewer.questions if q.fold == "holdout" and q.record_id != "n2"}
    assert alone <= {q.question_id for q in benchmark.questions if q.fold == "holdout"}
    places = Counter(q.question_id[-1] for q in benchmark.questions if q.fold == "holdout")
    assert len(places) == 4, "the same place is held out of every patient"


def test_a_patients_disease_is_what_most_notes_say() -> None:
    notes = [
        asked("a1", "a", "Cancer"), asked("a2", "a", "Diabetes"), asked("a3", "a", "Diabetes"),
        asked("b1", "b", "Cancer"), asked("b2", "b", "Diabetes"),
    ]  # fmt: skip
    benchmark = from_notes(notes, **ORIGIN, seed=0)
    assert {record.groups["patient"]: record.groups["disease"] for record in benchmark.records} == {
        "a": "Diabetes",
        "b": "Cancer",
    }
    assert benchmark.notes["patients by disease"] == {"Diabetes": 1, "Cancer": 1}


def test_splits_are_of_the_three_largest_diseases_and_never_of_other() -> None:
    sizes = {"Other": 30, "Cancer": 25, "Diabetes": 20, "Kidney Disease": 15, "Cardiovascular": 10}
    notes = [
        asked(f"{disease}{n}", f"{disease}{n}", disease) for disease, size in sizes.items() for n in range(size)
    ]
    benchmark = from_notes(notes, **ORIGIN, seed=0, outside=("Other",))
    assert {name.rsplit("_", 1)[0] for name in benchmark.splits} == {"random", "cancer", "diabetes", "kidney"}
    assert len(benchmark.splits["random_05"].forget) == 5
    # 15 patients with kidney disease: no split of 20%.
    assert sorted(name for name in benchmark.splits if name.startswith("kidney")) == [
        "kidney_05", "kidney_10", "kidney_15",
    ]  # fmt: skip


def test_diseases_that_begin_alike_have_splits_of_their_own() -> None:
    diseases = ("Heart failure", "Heart attack", "Random/rare")
    records = [Record(f"n{n}", "t", {"disease": diseases[n % 3], "patient": f"p{n}"}) for n in range(60)]
    splits = amnesia_splits(Hierarchy(("disease", "patient"), records), diseases, 0)
    assert {name.rsplit("_", 1)[0] for name in splits} == {
        "random", "disease_heart_failure", "disease_heart_attack", "disease_random_rare",
    }  # fmt: skip
    of = {record.groups["patient"]: record.groups["disease"] for record in records}
    assert {of[patient] for patient in splits["disease_heart_attack_10"].forget} == {"Heart attack"}


def test_provenance_and_identifiers() -> None:
    found = (Identifier("name", "Text of n0"), Identifier("name", "NOT THERE"))
    benchmark = from_notes([asked("n0", "p0", "A", identifiers=found), asked("n1", "p1", "A")], **ORIGIN, seed=0)
    assert benchmark.record["n0"].identifiers == found[:1]
    assert (benchmark.data_use, benchmark.source, benchmark.builder) == ("credentialed", "mine.csv", "amnesia")
    assert {question.provenance for question in benchmark.questions} == {"llm:m:amnesia_questions@1"}
    assert benchmark.notes["k"] == "v"


def test_one_patient_makes_no_benchmark() -> None:
    with pytest.raises(InputError, match="1 patients are left"):
        from_notes([asked("a", "p", "A"), asked("b", "p", "A")], **ORIGIN, seed=0)
