"""Rows of tables: every form gives the same, a bad row or file is named, lists are read object by object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from row_files import TABLE_NAMES, write_rows

from medunlearn.data.records import Identifier
from medunlearn.errors import ConfigError, SourceError
from medunlearn.sources.note_fields import NoteFields
from medunlearn.sources.patient_notes import PatientNotes, read_patient_notes
from medunlearn.sources.table_files import _items, files_in

ROWS = [
    {"id": "a", "text": 'Fever, "high";\nthen none.', "title": "Fever", "subject": "p1"},
    {"id": "b", "text": "Müdigkeit – 3 Tage.", "title": "Tired", "subject": "p1"},
]


def read(path: Path, named: NoteFields | None = None, *, skip: bool = False) -> PatientNotes:
    return read_patient_notes(path, named, skip_bad_rows=skip, needs_patient=False)


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_format_gives_the_same(tmp_path: Path, name: str) -> None:
    write_rows(tmp_path / name, ROWS)
    table = read(tmp_path / name)
    assert [(note.note_id, note.text, note.title, note.patient) for note in table.notes] == [
        (row["id"], row["text"], row["title"], row["subject"]) for row in ROWS
    ]
    assert (table.excluded, table.is_pmc) == ({}, False)
    assert {note.identifiers for note in table.notes} == {None}


def test_columns_are_named_by_flags(tmp_path: Path) -> None:
    rows = [
        {"key": 7, "letter": "Cough.", "head": "Cough", "who": 12, "identifiers": "Ann Lee; MRN-77", "n": "2.0"}
    ]
    write_rows(tmp_path / "n.jsonl", rows)
    named = NoteFields(id="key", text="letter", title="head", patient="who", disease="head", copies="n")
    (note,) = read(tmp_path / "n.jsonl", named).notes
    assert (note.note_id, note.patient, note.title, note.disease, note.copies) == ("7", "12", "Cough", "Cough", 2)
    assert note.identifiers == (Identifier("identifier", "Ann Lee"), Identifier("identifier", "MRN-77"))
    (note,) = read(tmp_path / "n.jsonl", NoteFields(text="letter", title="letter")).notes
    assert (note.title, note.patient) == ("Cough.", "note-1"), "the note is its own title, and its own patient"


@pytest.mark.parametrize(
    ("cell", "identifiers"),
    [
        (None, ()),
        ("", ()),
        ('[{"type": "name", "value": "Ann Lee"}]', (Identifier("name", "Ann Lee"),)),
        (
            [{"type": "name", "value": "Ann Lee"}, 77],
            (Identifier("name", "Ann Lee"), Identifier("identifier", "77")),
        ),
    ],
)
def test_identifiers_as_a_list_or_a_text(tmp_path: Path, cell: Any, identifiers: Any) -> None:
    write_rows(tmp_path / "n.jsonl", [{"id": "a", "text": "Ann Lee 77", "identifiers": cell}])
    assert read(tmp_path / "n.jsonl").notes[0].identifiers == identifiers


def test_a_column_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    write_rows(tmp_path / "n.csv", [{"note_txt": "One.", "titel": "x"}])
    with pytest.raises(ConfigError) as caught:
        read(tmp_path / "n.csv", NoteFields(text="note_text", title="title"))
    assert "--text-column: There is no column 'note_text'. Did you mean 'note_txt'?" in str(caught.value)
    assert "--title-column: There is no column 'title'. Did you mean 'titel'?" in str(caught.value)


GOOD = {"id": "good", "text": "Fine."}
BAD_ROWS: dict[str, Any] = {
    "has a int instead of text in 'text'": {"id": "x", "text": 5},
    "has half a character": {"id": "x", "text": "broken \ud83d"},
    "has an identifier that is neither": {"id": "x", "text": "Fine.", "identifiers": [[5]]},
    "has a list that is not JSON": {"id": "x", "text": "Fine.", "identifiers": "[1,"},
    "has an empty identifier": {"id": "x", "text": "Fine.", "identifiers": [" "]},
    "has no whole number of copies": {"id": "x", "text": "Fine.", "copies": -1},
    "has no whole number of copies in 'copies'": {"id": "x", "text": "Fine.", "copies": 10**400},
    "a row must be an object": ["x"],
}


@pytest.mark.parametrize("reason", BAD_ROWS)
def test_a_bad_row_is_named_or_left_out_and_listed(tmp_path: Path, reason: str) -> None:
    path = tmp_path / "notes.jsonl"
    first = {**GOOD, "identifiers": []}
    path.write_text(json.dumps(first) + "\n" + json.dumps(BAD_ROWS[reason]) + "\n")
    with pytest.raises(SourceError) as caught:
        read(path)
    assert f"notes.jsonl:2: {reason}" in str(caught.value)
    assert "--skip-bad-rows" in str(caught.value)
    table = read(path, skip=True)
    assert [note.note_id for note in table.notes] == ["good"]
    ((place, problem),) = table.bad_rows
    assert place == "notes.jsonl:2"
    assert problem.startswith(reason)


def test_a_cut_off_line_has_its_number(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text(json.dumps(GOOD) + '\n{"id": "x", "text": "cut o')
    with pytest.raises(SourceError, match=r"notes\.jsonl:2: no JSON \(.* at column 21\); a cut-off line\?"):
        read(path)
    path.write_text('{"id": "x", "text": "cut o\n' + json.dumps(GOOD))
    table = read(path, skip=True)
    assert [note.note_id for note in table.notes] == ["good"]
    assert table.bad_rows[0][0] == "notes.jsonl:1"


def test_a_csv_row_of_another_width_has_the_line_where_it_starts(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text('id,text\na,"two\nlines"\nb,one,more\nc,Fine.\n')
    with pytest.raises(SourceError, match=r"n\.csv:4: has 3 cells, and the header 2"):
        read(tmp_path / "n.csv")
    assert len(read(tmp_path / "n.csv", skip=True).notes) == 2


WHOLE_FILES = {
    "open.csv": (b'id,text\na,"never closed\n', "not CSV"),
    "twice.csv": (b"text,text\na,b\n", "has the column 'text' twice"),
    "empty.csv": (b"", "is empty"),
    "header.csv": (b"id,text\n", "no row that can be read"),
    "lines.json": (b'{"id": 1}\n[2]', r"lines\.json cannot be read as JSON \(line 2\)"),
    "object.json": (b'{"id": 1}', "must contain a list of objects"),
    "cut.parquet": (b"PAR1 and nothing else", "cannot be read as Parquet"),
    "nothing.jsonl": (b"\n\n", "no row that can be read"),
}


@pytest.mark.parametrize("name", WHOLE_FILES)
def test_a_file_that_is_broken_as_a_whole(tmp_path: Path, name: str) -> None:
    content, reason = WHOLE_FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=reason):
        read(tmp_path / name, skip=True)


def test_a_file_that_is_not_there_or_has_nothing_usable(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="There is no file"):
        read(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(SourceError, match="contains no file"):
        read(tmp_path / "folder.csv")
    for content in ('{"text": ""}\nno json\n', "no json\n"):
        (tmp_path / "n.jsonl").write_text(content)
        with pytest.raises(SourceError, match=r"no usable note|no row that can be read"):
            read(tmp_path / "n.jsonl", skip=True)


def test_the_shards_of_a_folder_are_one_table(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for place, row in enumerate(ROWS):
        write_rows(folder / f"train-{place:05d}-of-00002.parquet", [row])
    (folder / "README.md").write_text("about")
    assert [note.note_id for note in read(folder).notes] == ["a", "b"]
    write_rows(folder / "notes.csv", ROWS)
    with pytest.raises(SourceError, match=r"contains files of .csv, .parquet: give one of them"):
        files_in(folder)
    with pytest.raises(SourceError, match=r"contains no file of .csv"):
        files_in(tmp_path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", "Expecting value"),
        ('[{"text": "a"},]', "no JSON"),
        ('[{"text": "a"} {}]', "Expecting ',' delimiter"),
        ('[{"text": "a"}', "Expecting ',' delimiter"),
        ("[] 5", "Extra data"),
        ('{"a": 1}', "must contain a list"),
        ("", "Expecting value"),
        ("[" * 100_000, "nested too deep"),
        (f"[{'9' * 5000}]", "unreadable JSON"),
    ],
)
def test_json_that_is_no_list_of_objects(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "n.json").write_text(text)
    with pytest.raises(SourceError, match=problem):
        read(tmp_path / "n.json")


@given(st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=3), max_size=5), st.booleans())
def test_a_list_is_read_one_object_at_a_time_as_json_reads_it(rows: list[dict[str, str]], wide: bool) -> None:
    text = json.dumps(rows, indent=2 if wide else None)
    assert [row for _, row in _items(Path("n.json"), f" \n{text}\n ")] == json.loads(text)
