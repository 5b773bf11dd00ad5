"""Notes of patients: forms, columns, what is left out, and what no message says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from row_files import TABLE_NAMES, write_csv, write_rows

from medunlearn.errors import ConfigError, SourceError
from medunlearn.sources.note_fields import NoteFields
from medunlearn.sources.patient_notes import NO_PATIENT, NO_TEXT, TWICE, read_patient_notes

ROWS: list[dict[str, Any]] = [
    {"subject_id": "4711", "note_text": "Fever, then none.", "charttime": "2015-03-04", "ward": "A"},
    {"subject_id": "4711", "note_text": "Fever again.", "charttime": "2015-03-05", "ward": "B"},
    {"subject_id": "4712", "note_text": "Müdigkeit; 3 Tage.", "charttime": "", "ward": ""},
]
SECRET = ("4711", "4712", "Fever", "Müdigkeit")


def write_folder(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    for number, row in enumerate(rows):
        (path / row["subject_id"]).mkdir(parents=True, exist_ok=True)
        name = f"{number} {row['charttime']}".strip()
        (path / row["subject_id"] / f"{name}.txt").write_text(row["note_text"])


@pytest.mark.parametrize("name", [*TABLE_NAMES, "folder"])
def test_every_form_gives_the_same_notes(tmp_path: Path, name: str) -> None:
    (write_folder if name == "folder" else write_rows)(tmp_path / name, ROWS)
    read = read_patient_notes(tmp_path / name)
    assert [(n.patient, n.text, n.date) for n in read.notes] == [
        (row["subject_id"], row["note_text"], row["charttime"]) for row in ROWS
    ]
    assert len({n.note_id for n in read.notes}) == 3
    assert (read.excluded, read.bad_rows, read.is_open) == ({}, (), False)
    assert read.form == ("text files" if name == "folder" else "table")
    if name != "folder":
        assert [n.values.get("ward") for n in read.notes] == ["A", "B", None]


def test_a_flat_folder_has_a_patient_a_file(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("First.")
    (tmp_path / "two.txt").write_text("Second.")
    (tmp_path / "three.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SourceError, match=r"three\.txt: is not UTF-8 text"):
        read_patient_notes(tmp_path)
    read = read_patient_notes(tmp_path, skip_bad_rows=True)
    assert [n.patient for n in read.notes] == ["one", "two"]
    assert read.excluded == {"in rows that cannot be read": 1}


def test_numbers_and_days_of_parquet_are_read_as_people_write_them(tmp_path: Path) -> None:
    rows = [{"patient_id": 4711.0, "note": "One.", "date": date(2015, 3, 4), "mrn": 12, "list": [1]}, {
        "patient_id": None, "note": "Two.", "date": None, "mrn": None, "list": None}]  # fmt: skip
    write_rows(tmp_path / "n.parquet", rows)
    read = read_patient_notes(tmp_path / "n.parquet")
    (note,) = read.notes
    assert (note.patient, note.date, note.values) == (
        "4711", "2015-03-04", {"patient_id": "4711", "date": "2015-03-04", "mrn": "12"},
    )  # fmt: skip
    assert read.excluded == {NO_PATIENT: 1}


def test_columns_of_json_are_those_of_all_rows(tmp_path: Path) -> None:
    """Dates and identifiers that the first row leaves out are found by the names of their columns."""
    rows = [
        {"patient_id": "p1", "note": "One."},
        {"patient_id": "p1", "note": "Two.", "date": "2015-03-04", "mrn": "7"},
    ]
    write_rows(tmp_path / "n.jsonl", rows)
    read = read_patient_notes(tmp_path / "n.jsonl")
    assert read.columns == ("patient_id", "note", "date", "mrn")
    assert [n.date for n in read.notes] == ["", "2015-03-04"]


def test_a_column_without_a_name_is_no_date(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text(",patient_id,note\n0,p1,One.\n1,p2,Two.\n")  # as pandas writes its index
    read = read_patient_notes(tmp_path / "n.csv")
    assert [(n.note_id, n.date, n.held_out) for n in read.notes] == [("note-1", "", False), ("note-2", "", False)]


def test_a_readme_beside_tables_is_no_note(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("About these notes.")
    assert [n.text for n in read_patient_notes(tmp_path).notes] == ["About these notes."]
    write_rows(tmp_path / "n.csv", ROWS)
    read = read_patient_notes(tmp_path)
    assert (read.form, len(read.notes)) == ("table", 3)


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    def row(patient: str, text: str) -> dict[str, Any]:
        return {"patient_id": patient, "note": text, "note_id": "same"}

    rows = [
        row("p1", "One."),
        row("p1", " One. "),
        row("p2", "One."),
        row("", "Two."),
        row("p3", " "),
        row("p1", "2"),
    ]
    read = read_patient_notes(write_csv(tmp_path / "n.csv", rows))
    assert [(n.note_id, n.patient) for n in read.notes] == [("same", "p1"), ("same#2", "p2"), ("same#3", "p1")]
    assert read.excluded == {TWICE: 1, NO_PATIENT: 1, NO_TEXT: 1}
    assert read.patients == {"p1", "p2", "p3"}


def test_columns_are_named_by_flags_and_all_mistakes_said_at_once(tmp_path: Path) -> None:
    rows = [{"who": "4711", "letter_a": "Fever.", "letter_b": "None.", "seen": "no"}]
    file = write_csv(tmp_path / "n.csv", rows)
    with pytest.raises(ConfigError) as error:
        read_patient_notes(file, NoteFields(date="dat"), required=[("--level", "ward")])
    message = str(error.value)
    for part in ("--patient-column", "--text-column", "--date-column: There is no column 'dat'", "--level: "):
        assert part in message
    assert "There are: who, letter_a, letter_b, seen." in message
    assert not any(secret in message for secret in SECRET)
    read = read_patient_notes(file, NoteFields(patient="who", text="letter_b"))
    assert (read.notes[0].patient, read.notes[0].text, read.notes[0].values["letter_a"]) == (
        "4711",
        "None.",
        "Fever.",
    )


def test_two_columns_that_could_be_the_note_are_for_the_user(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "n.csv", [{"patient_id": "p", "mrn": "m", "note": "One.", "text": "Two."}])
    with pytest.raises(ConfigError, match="--text-column: which column is it\\? note and text could both be"):
        read_patient_notes(file)
    assert read_patient_notes(file, NoteFields(text="text")).fields.patient == "patient_id"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"patient_id^note\n4711^Fever\n", "one column"),
        ("patient_id,note\n4711,Жар\n".encode("cp1251"), "not UTF-8 text"),
        (b"patient_id,note\n", "no row that can be read"),
        (b"", "empty"),
        (b"patient_id,note\n4711,Fever,more\n4712,Fever\n", "has 3 cells, and the header 2"),
        (b"patient_id,note\n4711,\n4712,  \n", "no usable note \\(2 without text\\)"),
        (b'patient_id,note\n4711,"Fever\n', "not CSV"),
    ],
)
def test_a_broken_file_is_a_clear_error_without_anybodys_id(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "n.csv").write_bytes(content)
    with pytest.raises((ConfigError, SourceError), match=message) as error:
        read_patient_notes(tmp_path / "n.csv")
    assert not any(secret in str(error.value) for secret in SECRET)


def test_the_holdout_column_says_yes_or_no(tmp_path: Path) -> None:
    rows = [
        {"patient_id": f"p{n}", "note": f"Note {n}.", "seen": word} for n, word in enumerate(("", "1", "Holdout"))
    ]
    read = read_patient_notes(write_csv(tmp_path / "n.csv", rows), NoteFields(holdout="seen"))
    assert [n.held_out for n in read.notes] == [False, True, True]
    rows[0]["seen"] = "4711"
    with pytest.raises(SourceError, match=r"n\.csv:2: is neither yes nor no") as error:
        read_patient_notes(write_csv(tmp_path / "n.csv", rows), NoteFields(holdout="seen"))
    assert "4711" not in str(error.value)


def test_published_collections_are_recognised(tmp_path: Path) -> None:
    pmc = {"patient_id": "0", "patient_uid": "7665777-1", "PMID": "1", "title": "A case", "patient": "Fever."}
    read = read_patient_notes(write_csv(tmp_path / "n.csv", [pmc]))
    assert (read.form, read.is_open, read.notes[0].patient, read.notes[0].text) == (
        "PMC-Patients", True, "7665777-1", "Fever.",
    )  # fmt: skip
    assert not read_patient_notes(write_csv(tmp_path / "n.csv", [{**pmc, "patient_uid": "ward 3"}])).is_open
    openi = Path(__file__).parents[2].parent / "shared" / "data" / "openi" / "indiana_reports.csv"
    if not openi.exists():
        pytest.skip("Open-i's reports (../shared/data/openi) are not here")
    read = read_patient_notes(openi)
    assert (read.form, read.is_open) == ("Open-i", True)
    assert len(read.notes) + sum(read.excluded.values()) == 3851
    assert all(
        n.text.startswith(("Indication: ", "Comparison: ", "Findings: ", "Impression: ")) for n in read.notes
    )


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="There is no file or folder"):
        read_patient_notes(tmp_path / "none.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="contains no file of"):
        read_patient_notes(tmp_path / "empty")
