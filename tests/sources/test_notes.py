"""A person's own notes: every format gives the same, PMC-Patients-V2 is recognised, and bad input is named."""

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
from medunlearn.sources.notes import NoteColumns, read_notes
from medunlearn.sources.table_files import _items, files_in

ROWS = [
    {"id": "a", "text": 'Fever, "high";\nthen none.', "title": "Fever", "subject": "p1"},
    {"id": "b", "text": "Müdigkeit – 3 Tage.", "title": "Tired", "subject": "p1"},
]
PMC = {
    "patient_id": "0", "patient_uid": "7665777-1", "PMID": "33492400", "file_path": "comm/x.xml", "title": "A case",
    "patient": "This 60-year-old male was hospitalized.", "age": [[60.0, "year"]], "gender": "M",
    "relevant_articles": {"32320506": 1}, "similar_patients": {"7665777-2": 2},
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_format_gives_the_same(tmp_path: Path, name: str) -> None:
    write_rows(tmp_path / name, ROWS)
    read = read_notes(tmp_path / name)
    assert [(note.note_id, note.text, note.title, note.subject) for note in read.notes] == [
        (row["id"], row["text"], row["title"], row["subject"]) for row in ROWS
    ]
    assert (read.excluded, read.is_pmc) == ((), False)
    assert {note.identifiers for note in read.notes} == {None}


def test_columns_that_the_first_row_leaves_out(tmp_path: Path) -> None:
    """Two notes of one patient would count as two people if ``subject`` were not seen."""
    first, second = {"id": "c", "text": "Cough."}, {**ROWS[0], "identifiers": ["Ann Lee"]}
    write_rows(tmp_path / "n.jsonl", [first, second, ROWS[1]])
    with pytest.raises(SourceError, match=r"n\.jsonl:1: .*subject"):
        read_notes(tmp_path / "n.jsonl")
    read = read_notes(tmp_path / "n.jsonl", skip_bad_rows=True)
    assert [note.subject for note in read.notes] == ["p1", "p1"]
    write_rows(tmp_path / "n.jsonl", [{**first, "subject": "p2"}, second])
    identifiers = [note.identifiers for note in read_notes(tmp_path / "n.jsonl").notes]
    assert [identifier.value for identifier in identifiers[1] or ()] == ["Ann Lee"]


@pytest.mark.parametrize("name", ["notes.json", "notes.jsonl", "notes.csv", "notes.parquet"])
def test_pmc_patients_is_recognised(tmp_path: Path, name: str) -> None:
    second = {**PMC, "patient_id": "1", "patient_uid": "7665777-2", "patient": "Another one."}
    rows = [{**row, "relevant_articles": "{}", "similar_patients": "{}", "age": "60"} for row in (PMC, second)]
    write_rows(tmp_path / name, [PMC, second] if name.endswith("json") else rows)
    read = read_notes(tmp_path / name)
    assert read.is_pmc
    first = read.notes[0]
    assert (first.note_id, first.subject, first.title) == ("7665777-1", "7665777-1", "A case")
    assert first.text == PMC["patient"]


def test_what_only_looks_like_pmc_patients_is_not_open(tmp_path: Path) -> None:
    write_rows(tmp_path / "notes.json", [PMC, {**PMC, "patient_uid": "ward 3, Ms Quillfeather"}])
    assert not read_notes(tmp_path / "notes.json").is_pmc
    write_rows(tmp_path / "other.json", [{**PMC, "mine": "A letter."}])
    assert not read_notes(tmp_path / "other.json", NoteColumns(text="mine")).is_pmc


def test_columns_are_named_by_flags(tmp_path: Path) -> None:
    rows = [{"key": 7, "letter": "Cough.", "head": "Cough", "who": 12, "names": "Ann Lee; MRN-77"}]
    write_rows(tmp_path / "n.jsonl", rows)
    columns = NoteColumns(id="key", text="letter", title="head", subject="who", disease="head", identifiers="names")
    (note,) = read_notes(tmp_path / "n.jsonl", columns).notes
    assert (note.note_id, note.subject, note.disease) == ("7", "12", "Cough")
    assert note.identifiers == (Identifier("identifier", "Ann Lee"), Identifier("identifier", "MRN-77"))


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
    assert read_notes(tmp_path / "n.jsonl").notes[0].identifiers == identifiers


def test_a_column_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    write_rows(tmp_path / "n.csv", [{"note_txt": "One.", "titel": "x"}])
    with pytest.raises(ConfigError) as caught:
        read_notes(tmp_path / "n.csv", NoteColumns(text="note_text", title="title"))
    assert "--text: There is no column 'note_text'. Did you mean 'note_txt'?" in str(caught.value)
    assert "--title: There is no column 'title'. Did you mean 'titel'?" in str(caught.value)
    with pytest.raises(ConfigError, match=r"--text: There is no column 'text'.*Name the column"):
        read_notes(tmp_path / "n.csv")


GOOD = {"id": "good", "text": "Fine."}
BAD_ROWS: dict[str, Any] = {
    "has no text in 'text'": {"id": "x", "text": " \n"},
    "has nothing in 'id'": {"id": None, "text": "Fine."},
    "has a int instead of text in 'text'": {"id": "x", "text": 5},
    "has a list instead of text in 'id'": {"id": ["x"], "text": "Fine."},
    "has the id of notes.jsonl:1: 'good'": {"id": "good", "text": "Other."},
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
        read_notes(path)
    assert f"notes.jsonl:2: {reason}" in str(caught.value)
    assert "--skip-bad-rows" in str(caught.value)
    read = read_notes(path, skip_bad_rows=True)
    assert [note.note_id for note in read.notes] == ["good"]
    ((place, problem),) = read.excluded
    assert place == "notes.jsonl:2"
    assert problem.startswith(reason)


def test_a_cut_off_line_has_its_number(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text(json.dumps(GOOD) + '\n{"id": "x", "text": "cut o')
    with pytest.raises(SourceError, match=r"notes\.jsonl:2: no JSON \(.* at column 21\); a cut-off line\?"):
        read_notes(path)
    path.write_text('{"id": "x", "text": "cut o\n' + json.dumps(GOOD))
    read = read_notes(path, skip_bad_rows=True)
    assert [note.note_id for note in read.notes] == ["good"]
    assert read.excluded[0][0] == "notes.jsonl:1"


def test_a_csv_row_of_another_width_has_the_line_where_it_starts(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text('id,text\na,"two\nlines"\nb,one,more\nc,Fine.\n')
    with pytest.raises(SourceError, match=r"n\.csv:4: has 3 cells, and the header 2"):
        read_notes(tmp_path / "n.csv")
    assert len(read_notes(tmp_path / "n.csv", skip_bad_rows=True).notes) == 2


WHOLE_FILES = {
    "open.csv": (b'id,text\na,"never closed\n', "not CSV"),
    "twice.csv": (b"text,text\na,b\n", "has the column 'text' twice"),
    "empty.csv": (b"", "is empty"),
    "header.csv": (b"id,text\n", "has no rows"),
    "latin.csv": ("id,text\na,Müde\n".encode("latin-1"), r"is not UTF-8 text .* at byte 11\). Save it as UTF-8"),
    "latin.jsonl": ('{"text": "Müde"}'.encode("latin-1"), "is not UTF-8 text"),
    "lines.json": (b'{"id": 1}\n[2]', r"lines\.json:2: no JSON .* is JSONL"),
    "object.json": (b'{"id": 1}', "must contain a list of objects"),
    "cut.parquet": (b"PAR1 and nothing else", "cannot be read as Parquet"),
    "notes.xlsx": (b"PK", r"notes are read from \.csv, .*\.parquet"),
    "nothing.jsonl": (b"\n\n", "has no rows"),
}


@pytest.mark.parametrize("name", WHOLE_FILES)
def test_a_file_that_is_broken_as_a_whole(tmp_path: Path, name: str) -> None:
    content, reason = WHOLE_FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=reason):
        read_notes(tmp_path / name, skip_bad_rows=True)


def test_a_file_that_is_not_there_or_has_nothing_usable(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="There is no file"):
        read_notes(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(SourceError, match="cannot be read"):
        read_notes(tmp_path / "folder.csv")
    for content in ('{"text": ""}\nno json\n', "no json\n"):
        (tmp_path / "n.jsonl").write_text(content)
        with pytest.raises(SourceError, match="has no usable note"):
            read_notes(tmp_path / "n.jsonl", skip_bad_rows=True)


def test_the_shards_of_a_folder_are_one_table(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for place, row in enumerate(ROWS):
        write_rows(folder / f"train-{place:05d}-of-00002.parquet", [row])
    (folder / "README.md").write_text("about")
    assert [note.note_id for note in read_notes(files_in(folder)).notes] == ["a", "b"]
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
        read_notes(tmp_path / "n.json")


@given(st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=3), max_size=5), st.booleans())
def test_a_list_is_read_one_object_at_a_time_as_json_reads_it(rows: list[dict[str, str]], wide: bool) -> None:
    text = json.dumps(rows, indent=2 if wide else None)
    assert [row for _, row in _items(Path("n.json"), f" \n{text}\n ")] == json.loads(text)
