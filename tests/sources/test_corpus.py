"""Corpora in the forms that people have them, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from row_files import write_rows

import medunlearn as mu
from medunlearn.audit.identifiers.declared import with_declared
from medunlearn.audit.identifiers.same_person import joined_ids, read_same_person
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Identifier, Record
from medunlearn.errors import ConfigError, InputError, SourceError
from medunlearn.sources.column_prompts import columns_of, fill_prompt
from medunlearn.sources.corpus import read_corpora
from medunlearn.sources.note_fields import NoteFields
from medunlearn.sources.patient_notes import NO_PATIENT, NO_TEXT

OPENI = Path(__file__).parents[3] / "shared" / "data" / "openi" / "indiana_reports.csv"
ANA = (Identifier("name", "Ana Silva"), Identifier("name", "Silva"))
WARD = ("--prompt", "ward")
ROWS = [{"id": "a", "text": "One text."}, {"id": "b", "text": " "}, {"id": "c", "text": "Another one."}]


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    return str(write_rows(path, rows))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_tables(tmp_path: Path, ending: str) -> None:
    (corpus,) = read_corpora([write(tmp_path / f"notes.{ending}", ROWS)])
    assert (corpus.name, corpus.kind, corpus.data_use) == ("notes", "table", None)
    assert [(document.note_id, document.text, document.patient) for document in corpus.documents] == [
        ("a", "One text.", "a"),
        ("c", "Another one.", "c"),
    ]
    assert corpus.excluded == {NO_TEXT: 1}
    assert corpus.documents[0].identifiers is None


def test_columns_are_guessed_where_that_is_plain(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write(path, [{"number": 1, "summary": "Text."}])
    assert read_corpora([str(path)])[0].documents[0].text == "Text."
    # A row of JSON may leave out what others have.
    write(path, [{"text": "Text."}, {"text": "More.", "ward": "B"}])
    assert [
        document.values.get("ward") for document in read_corpora([str(path)], required=[WARD])[0].documents
    ] == [
        None,
        "B",
    ]
    several = write(tmp_path / "u.csv", [{"history": "Long ago.", "plan": "Soon.", "who": "p1"}])
    with pytest.raises(ConfigError, match=r"--prompt: .*'ward'"):
        read_corpora([several], required=[WARD])
    with pytest.raises(ConfigError, match="history, plan, who"):
        read_corpora([several])
    with pytest.raises(ConfigError, match="Did you mean 'plan'"):
        read_corpora([several], NoteFields(text="plans"))
    (corpus,) = read_corpora([several], NoteFields(text="plan", patient="who"))
    assert (corpus.documents[0].text, corpus.documents[0].patient) == ("Soon.", "p1")


def test_text_files(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("a.txt", "b/c.md", "empty.txt"):
        (tmp_path / name).write_text("" if "empty" in name else f"text of {name}")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    guides, single = read_corpora([f"guides={tmp_path}", str(tmp_path / "a.txt")])
    assert [document.note_id for document in guides.documents] == ["a", "b/c"]
    assert guides.excluded == {NO_TEXT: 1}
    # The same id again: the later corpus' name stands in front.
    assert (single.name, single.documents[0].note_id, single.documents[0].patient) == ("a", "a/a", "a/a")
    before = guides.fingerprint
    (tmp_path / "a.txt").write_text("changed")
    assert read_corpora([f"guides={tmp_path}"])[0].fingerprint != before
    # Two files that differ in their endings alone are two documents.
    (tmp_path / "b" / "c.txt").write_text("another")
    assert [document.note_id for document in read_corpora([str(tmp_path)])[0].documents] == [
        "a",
        "b/c.md",
        "b/c.txt",
    ]


def test_a_benchmarks_records_with_those_that_nobody_trained_on(tmp_path: Path) -> None:
    records = [
        Record("r1", "Ana Silva had a fever.", {"patient": "p1"}, ANA),
        Record("r2", "It was the flu.", {"patient": "p1"}),
        Record("r3", "Never seen.", {"patient": "p2"}, fold="holdout"),
    ]
    bench = Benchmark(
        "hospital", "amnesia", ("patient",), "patient", tuple(records), (), {}, data_use="credentialed"
    )
    bench.save(tmp_path / "bench")
    training, holdout = read_corpora([str(tmp_path / "bench")])
    assert (training.name, holdout.name) == ("bench", "bench_holdout")
    assert [document.patient for document in training.documents] == ["p1", "p1"]
    assert training.documents[0].identifiers == ANA
    assert training.documents[1].identifiers == ()
    values = (
        read_corpora([str(tmp_path / "bench")], required=[("--prompt", "patient"), ("", "name")])[0]
        .documents[0]
        .values
    )
    assert (values["patient"], values["name"]) == ("p1", "Ana Silva"), "the first identifier of a type"
    assert training.data_use == "credentialed"


def test_a_prompt_needs_every_column_that_it_names() -> None:
    prompt = "Write the note of {name}, {complaint}."
    assert columns_of([prompt, "{ name }"]) == ["name", "complaint"]
    assert fill_prompt(prompt, {"name": "Ana", "complaint": "cough"}) == "Write the note of Ana, cough."
    assert fill_prompt(prompt, {"name": "Ana", "complaint": ""}) is None
    assert fill_prompt(prompt, {"name": "Ana"}) is None


def test_what_is_refused(tmp_path: Path) -> None:
    notes = write(tmp_path / "notes.csv", ROWS)
    with pytest.raises(InputError, match="Two corpora are called 'notes'"):
        read_corpora([notes, f"notes={notes}"])
    with pytest.raises(InputError, match="no corpus"):
        read_corpora([str(tmp_path / "nothing")])
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    with pytest.raises(InputError, match="these endings"):
        read_corpora([str(tmp_path / "a.pdf")])
    (tmp_path / "bad.jsonl").write_text('{"text": "fine"}\n{"text": "cut o')
    with pytest.raises(SourceError, match=r"bad\.jsonl:2"):
        read_corpora([str(tmp_path / "bad.jsonl")])
    (tmp_path / "empty.txt").write_text(" ")
    with pytest.raises(SourceError, match="no usable note"):
        read_corpora([str(tmp_path / "empty.txt")])


def test_patients_identifiers_and_holdout_are_those_of_build_notes(tmp_path: Path) -> None:
    """Notes of one patient are one subject, known by the columns that ``build notes`` reads too."""
    rows = [
        {"subject_id": "4711", "name": "Ada Vane", "mrn": "77001.0", "note": "Ada Vane has fever.", "seen": ""},
        {"subject_id": "4711", "name": "Ada Vane", "mrn": "77001.0", "note": "VANE, ADA has a cough.", "seen": ""},
        {"subject_id": "13", "name": "Bo Low", "mrn": "", "note": "Bo Low has a rash.", "seen": "0"},
        {"subject_id": "12", "name": "Cy Ray", "mrn": "", "note": "Cy Ray is well.", "seen": "1"},
        {"subject_id": "", "name": "", "mrn": "", "note": "Nobody's.", "seen": ""},
    ]
    path = write(tmp_path / "notes.csv", rows)
    trained, unseen = read_corpora([path], NoteFields(holdout="seen"))
    assert [document.patient for document in trained.documents] == ["4711", "4711", "13"]
    assert (unseen.name, unseen.held_out, unseen.documents[0].patient) == ("notes_holdout", True, "12")
    assert trained.excluded == {NO_PATIENT: 1}
    # Whether the text has the name as the column writes it or not.
    for document in with_declared(trained, ()).documents[:2]:
        assert document.identifiers == (Identifier("name", "Ada Vane"), Identifier("mrn", "77001"))
    assert with_declared(trained, ["mrn"]).documents[0].identifiers == (Identifier("mrn", "77001"),)
    mu.build.notes(path, holdout_column="seen").save(tmp_path / "bench")
    built, _ = read_corpora([str(tmp_path / "bench")])
    assert {d.text: d.patient for d in built.documents} == {d.text: d.patient for d in trained.documents}


def test_ids_of_one_person_are_joined(tmp_path: Path) -> None:
    rows = [{"patient_id": name, "note": f"Note of {name}."} for name in ("4711", "0004711", "12")]
    path = write(tmp_path / "notes.csv", rows)
    (corpus,) = read_corpora([path], same_person=joined_ids(read_same_person("4711,0004711,99")))
    assert [document.patient for document in corpus.documents] == ["4711", "4711", "12"]


@pytest.mark.skipif(not OPENI.exists(), reason="../shared/data/openi is not here")
def test_openi() -> None:
    (corpus,) = read_corpora([f"openi={OPENI}"])
    assert (corpus.kind, corpus.data_use) == ("Open-i", "open")
    assert len(corpus.documents) + sum(corpus.excluded.values()) == 3851
    assert "Findings: " in corpus.documents[0].text
