"""LUME's released files: read whole, or refused with file and line."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medunlearn.errors import SourceError
from medunlearn.papers.lume.released import LumeFiles, read_lume

Released = Callable[..., Path]


def good(**changes: Any) -> dict[str, Any]:
    return {"id": "newsc1", "input": "In", "output": "out.", "task": "Task1"} | changes


def test_good_files(released: Released) -> None:
    files = read_lume(released())
    assert [(d.document, d.side, d.task, d.member, len(d.rows)) for d in files.documents] == [
        ("story-1", "forget", "story", True, 2),
        ("bio-1", "forget", "personal_biography", True, 3),
        ("story-2", "retain", "story", True, 2),
        ("777", "retain", "public_biography", True, 2),
    ]
    assert files.skipped == ()


def test_an_id_is_cut_at_its_end(released: Released) -> None:
    """Letters of a document's own name may look like the suffix."""
    files = read_lume(released(forget=[good(id="discqa7sc12")]))
    document = next(document for document in files.documents if document.document == "discqa7")
    assert [(row.form, row.number) for row in document.rows] == [("sc", 12)]


BAD = [
    ('{"id": "xsc1", "input": "In", "out', r"no JSON \(.*\); a cut-off line\?"),
    ("[1, 2]", "a row must be an object"),
    ('"text"', "a row must be an object"),
    ("[" * 100_000, "no JSON"),
    ("1" * 5_000, "no JSON"),
    ({"id": "xsc1", "input": "In", "task": "Task1"}, "lacks text in output"),
    (good(id=5, task=None), "lacks text in id, task"),
    (good(input=" "), "has an empty input or output"),
    (good(output=""), "has an empty input or output"),
    (good(id="new"), "id 'new' does not end in"),
    (good(id="newsc"), "id 'newsc' does not end in"),
    (good(id="sc1"), "id 'sc1' does not end in"),
    (good(id="newsc" + "1" * 5_000), "does not end in"),
    (good(task="Task4"), "task 'Task4' is none of Task1, Task2, Task3"),
    (good(id="story-1sc1"), "id 'story-1sc1' stands twice"),
    (good(id="story-1qa5", task="Task3"), "document 'story-1' has two tasks"),
    (good(input="half \ud800"), "half a character"),
]


@pytest.mark.parametrize(("row", "message"), BAD, ids=range(len(BAD)))
def test_a_bad_row_is_refused_with_file_and_line_or_left_out(released: Released, row: Any, message: str) -> None:
    folder = released(forget=[row])
    with pytest.raises(SourceError, match=rf"1 rows cannot be used:\n  - .*forget\.jsonl:6: .*{message}"):
        read_lume(folder)
    files = read_lume(folder, skip_bad_rows=True)
    assert files.documents == read_lume(released()).documents
    assert len(files.skipped) == 1
    assert re.search(message, files.skipped[0])


def test_a_document_in_both_files_is_refused(released: Released) -> None:
    row = good(id="story-1qa5")
    with pytest.raises(SourceError, match=r"retain\.jsonl:5: document 'story-1' stands in two files"):
        read_lume(released(retain=[row]))
    files = read_lume(released(retain=[row]), skip_bad_rows=True)
    assert files.documents[0].side == "forget"
    assert len(files.skipped) == 1


def test_all_bad_rows_are_reported_at_once(released: Released) -> None:
    folder = released(forget=["{", good(id="x")], retain=[good(task="T"), "", good(input="")])
    with pytest.raises(SourceError) as caught:
        read_lume(folder)
    assert re.findall(r"(\w+\.jsonl:\d+)", str(caught.value)) == [
        "forget.jsonl:6", "forget.jsonl:7", "retain.jsonl:5", "retain.jsonl:7",
    ]  # fmt: skip
    assert "--skip-bad-rows" in str(caught.value)


def test_a_document_without_completion_has_no_text(released: Released) -> None:
    lone = good(id="lonelyqa0")
    with pytest.raises(SourceError, match="document 'lonely': no completion row"):
        read_lume(released(retain=[lone]))
    files = read_lume(released(retain=[lone]), skip_bad_rows=True)
    assert "lonely" not in {row.document for row in files.documents}
    assert len(files.skipped) == 1


@pytest.mark.parametrize("name", ["forget.jsonl", "retain.jsonl"])
@pytest.mark.parametrize("skip", [True, False])
def test_a_missing_or_empty_file_is_never_skipped(released: Released, name: str, skip: bool) -> None:
    folder = released()
    (folder / name).write_text("\n\n")
    with pytest.raises(SourceError, match=rf"{re.escape(name)} is empty"):
        read_lume(folder, skip_bad_rows=skip)
    (folder / name).unlink()
    with pytest.raises(SourceError, match=rf"There is no .*{re.escape(name)}"):
        read_lume(folder, skip_bad_rows=skip)
    (folder / name).mkdir()
    with pytest.raises(SourceError, match=rf"{re.escape(name)} cannot be read: it is a folder"):
        read_lume(folder, skip_bad_rows=skip)


def test_a_file_that_is_no_text(released: Released) -> None:
    folder = released()
    (folder / "forget.jsonl").write_bytes(b'{"id": "\xff\xfe"}\n')
    with pytest.raises(SourceError, match=r"forget\.jsonl is not UTF-8 text \(invalid start byte at byte 8\)"):
        read_lume(folder)


def test_nonmembers(released: Released, tmp_path: Path) -> None:
    folder = released()
    other = tmp_path / "outside.jsonl"
    other.write_text('{"id": "outsc1", "input": "Never", "output": "seen.", "task": "Task1"}\n')
    files: LumeFiles = read_lume(folder, nonmembers=other)
    last = files.documents[-1]
    assert (last.document, last.side, last.member) == ("out", "retain", False)
    other.write_text('{"id": "story-2qa9", "input": "What?", "output": "That", "task": "Task1"}\n')
    with pytest.raises(SourceError, match=r"outside\.jsonl:1: document 'story-2' stands in two files"):
        read_lume(folder, nonmembers=other)
    with pytest.raises(SourceError, match=r"There is no .*absent\.jsonl"):
        read_lume(folder, nonmembers=tmp_path / "absent.jsonl")
