"""Corpora in the forms that people have them, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from row_files import write_rows

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Identifier, Record
from medunlearn.errors import ConfigError, InputError, SourceError
from medunlearn.sources.column_prompts import columns_of, fill_prompt
from medunlearn.sources.corpus import OPENI_FIELDS, read_corpora
from medunlearn.sources.notes import NoteColumns

OPENI = Path(__file__).parents[3] / "shared" / "data" / "openi" / "indiana_reports.csv"
ANA = (Identifier("name", "Ana Silva"), Identifier("name", "Silva"))
ROWS = [{"id": "a", "text": "One text."}, {"id": "b", "text": " "}, {"id": "c", "text": "Another one."}]


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    return str(write_rows(path, rows))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_tables(tmp_path: Path, ending: str) -> None:
    (corpus,) = read_corpora([write(tmp_path / f"notes.{ending}", ROWS)])
    assert (corpus.name, corpus.kind, corpus.data_use) == ("notes", "table", None)
    assert [(document.record_id, document.text, document.subject) for document in corpus.documents] == [
        ("a", "One text.", "a"),
        ("c", "Another one.", "c"),
    ]
    assert corpus.excluded == {"empty": 1}
    assert corpus.documents[0].identifiers is None


def test_columns_are_guessed_where_that_is_plain(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write(path, [{"number": 1, "summary": "Text."}])
    assert read_corpora([str(path)])[0].documents[0].text == "Text."
    # A row of JSON may leave out what others have.
    write(path, [{"text": "Text."}, {"text": "More.", "ward": "B"}])
    assert [document.values["ward"] for document in read_corpora([str(path)], values=["ward"])[0].documents] == [
        "",
        "B",
    ]
    several = write(tmp_path / "u.csv", [{"history": "Long ago.", "plan": "Soon.", "who": "p1"}])
    with pytest.raises(ConfigError, match="history, plan, who"):
        read_corpora([several])
    with pytest.raises(ConfigError, match="Did you mean 'plan'"):
        read_corpora([several], NoteColumns(text="plans"))
    (corpus,) = read_corpora([several], NoteColumns(text="plan", subject="who"))
    assert (corpus.documents[0].text, corpus.documents[0].subject) == ("Soon.", "p1")


def test_text_files(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("a.txt", "b/c.md", "empty.txt"):
        (tmp_path / name).write_text("" if "empty" in name else f"text of {name}")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    guides, single = read_corpora([f"guides={tmp_path}", str(tmp_path / "a.txt")])
    assert [document.record_id for document in guides.documents] == ["a", "b/c"]
    assert guides.excluded == {"empty": 1}
    # The same id again: the later corpus' name stands in front.
    assert (single.name, single.documents[0].record_id, single.documents[0].subject) == ("a", "a/a", "a/a")
    before = guides.fingerprint
    (tmp_path / "a.txt").write_text("changed")
    assert read_corpora([f"guides={tmp_path}"])[0].fingerprint != before
    # Two files that differ in their endings alone are two documents.
    (tmp_path / "b" / "c.txt").write_text("another")
    assert [document.record_id for document in read_corpora([str(tmp_path)])[0].documents] == [
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
    assert [document.subject for document in training.documents] == ["p1", "p1"]
    assert training.documents[0].identifiers == ANA
    assert training.documents[1].identifiers == ()
    values = read_corpora([str(tmp_path / "bench")], values=["patient", "name"])[0].documents[0].values
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
    with pytest.raises(SourceError, match="'empty' holds no text"):
        read_corpora([str(tmp_path / "empty.txt")])
    (tmp_path / "latin.txt").write_bytes("é".encode("latin-1"))
    with pytest.raises(SourceError, match="not UTF-8"):
        read_corpora([str(tmp_path / "latin.txt")])


def test_open_i_needs_a_uid_of_each_report(tmp_path: Path) -> None:
    row = dict.fromkeys(OPENI_FIELDS, "Clear.")
    for second, message in (({"uid": "1"}, "stands in an earlier row"), ({"uid": None}, "without uid")):
        path = write(tmp_path / "reports.jsonl", [row | {"uid": "1"}, row | second])
        with pytest.raises(SourceError, match=rf"reports\.jsonl:3: .*{message}"):
            read_corpora([path])


@pytest.mark.skipif(not OPENI.exists(), reason="../shared/data/openi is not here")
def test_openi() -> None:
    (corpus,) = read_corpora([f"openi={OPENI}"])
    assert (corpus.kind, corpus.data_use) == ("open-i", "open")
    assert len(corpus.documents) + sum(corpus.excluded.values()) == 3851
    assert "Findings: " in corpus.documents[0].text
