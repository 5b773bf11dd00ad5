"""Patients are chosen by ids; only the notes of these are searched and asked about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from case_evidence import SECRET

from medunlearn.config import ForgetSettings, check
from medunlearn.config.clinical_notes import NotesSettings
from medunlearn.data.deletion_requests import relatives_of
from medunlearn.notes import note_columns
from medunlearn.notes.note_benchmark import build
from medunlearn.request import note_reading
from medunlearn.request.case.ledger import RequestLedger
from medunlearn.request.direct_probes import is_made_by_rule
from medunlearn.request.note_reading import CLOZES
from medunlearn.request.patient_choice import PatientGroups
from medunlearn.request.request_benchmarks import RequestBenchmarks, make_benchmarks
from medunlearn.synthetic.note_table import write_note_table

PATIENT, NAMESAKE, COPY = "100003", "100021", "100030"
SHARED = "Seen in the clinic again and doing well; the next visit is in six weeks at the same place."


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty patients: one has the patient's name, and another one a note of the namesake's."""
    file = write_note_table(tmp_path_factory.mktemp("notes") / "notes.csv", 40, studies=0)
    table = pd.read_csv(file, dtype=str)
    own = table[table["patient_id"] == PATIENT].iloc[0]
    row = table["patient_id"] == NAMESAKE
    name = table.loc[row, "name"].iloc[0]
    table.loc[row, "note"] = table.loc[row, "note"].str.replace(name, own["name"])
    table.loc[row, "name"] = own["name"]
    table.loc[table["patient_id"] == COPY, "note"] = SHARED
    more = table.loc[row].assign(note=SHARED, note_id="more")
    pd.concat([table, more]).to_csv(file, index=False)
    return file


def settings_of(**more: Any) -> ForgetSettings:
    return check(ForgetSettings, {"patient": PATIENT, "key": "no.key", "others": 6, "same_person": PATIENT, **more})


def made(notes: Path, **more: Any) -> RequestBenchmarks:
    return make_benchmarks(notes, settings_of(**more), RequestLedger(), SECRET, quiet=True)


def asked_of(benchmarks: RequestBenchmarks) -> set[str]:
    benchmark = benchmarks.benchmark
    trained = {record.record_id for record in benchmark.records if record.fold == "train"}
    return {benchmark.subject(q.record_id) for q in benchmark.questions if q.record_id in trained}


def test_probes_are_those_of_a_benchmark_of_everybody(notes: Path) -> None:
    whole = build(
        check(NotesSettings, {"notes": notes, "clozes": CLOZES, "forget_patients": PATIENT, "same_person": PATIENT})
    )
    part = made(notes)
    asked = PatientGroups.of(whole).asked_about([PATIENT], relatives_of(whole, [PATIENT]), settings_of())
    assert asked_of(part) == asked
    trained = tuple(record for record in part.benchmark.records if record.fold == "train")
    assert trained == whole.records
    probes = [q for q in part.benchmark.questions if not is_made_by_rule(q) and q.record_id in whole.record]
    assert probes == [q for q in whole.questions if whole.subject(q.record_id) in asked]


def test_of_a_large_hospital_a_part_is_searched_and_the_same_patients_are_asked_about(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, searched, find = made(notes), list[str](), note_columns._declared_identifiers

    def noted(note: Any, columns: Any) -> Any:
        searched.append(note.patient)
        return find(note, columns)

    monkeypatch.setattr(note_columns, "_declared_identifiers", noted)
    monkeypatch.setattr(note_reading, "MOST_NOTES", 12)
    part = made(notes)
    assert asked_of(part) == asked_of(whole)
    assert NAMESAKE in asked_of(part), "a relative is found without searching everybody's notes"
    assert len(searched) == 12, "each note that is read, once"
    read = {record.groups["patient"] for record in part.benchmark.records if record.fold == "train"}
    assert COPY in read, "whoever has the same text shows that it is not one patient's alone"
    assert len(read) <= 12
    assert part.totals == whole.totals
    assert (part.totals.records, part.totals.patients) == (41, 40)
