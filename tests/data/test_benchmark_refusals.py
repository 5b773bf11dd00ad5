"""Every way in which a benchmark's folder or content can be wrong is refused, and the message says what differs."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from medunlearn.data.benchmark import MANIFEST, TABLES, Benchmark
from medunlearn.data.splits import Split
from medunlearn.errors import BenchmarkError, InputError


@pytest.fixture
def folder(benchmark: Benchmark, tmp_path: Path) -> Path:
    return benchmark.save(tmp_path / "bench")


def edit(folder: Path, **changes: Any) -> None:
    """Change the manifest; a value of None takes the key away."""
    path = folder / MANIFEST
    manifest = yaml.safe_load(path.read_text()) | changes
    path.write_text(yaml.safe_dump({key: value for key, value in manifest.items() if value is not None}))


def put(folder: Path, name: str, table: pa.Table) -> None:
    """Another table, with the hash that makes it look right."""
    pq.write_table(table, folder / name)
    hashes = yaml.safe_load((folder / MANIFEST).read_text())["sha256"]
    edit(folder, sha256=hashes | {name: hashlib.sha256((folder / name).read_bytes()).hexdigest()})


def refused(folder: Path, message: str) -> None:
    with pytest.raises(BenchmarkError, match=message):
        Benchmark.load(folder)


def test_a_folder_that_is_absent(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no benchmark folder .*nowhere"):
        Benchmark.load(tmp_path / "nowhere")


def test_a_folder_that_is_no_benchmark(tmp_path: Path) -> None:
    refused(tmp_path, "it has no benchmark.yaml")


@pytest.mark.parametrize("table", TABLES)
def test_a_missing_table(folder: Path, table: str) -> None:
    (folder / table).unlink()
    refused(folder, f"{re.escape(table)} is missing")


@pytest.mark.parametrize("keep", [0, 3, 200, -1])
@pytest.mark.parametrize("table", TABLES)
def test_a_table_that_is_cut_off(folder: Path, table: str, keep: int) -> None:
    whole = (folder / table).read_bytes()
    (folder / table).write_bytes(whole[:keep])
    refused(folder, f"{re.escape(table)} cannot be read as Parquet .* truncated or broken")


@pytest.mark.parametrize("table", TABLES)
def test_a_table_that_was_changed(folder: Path, table: str) -> None:
    pq.write_table(pq.ParquetFile(folder / table).read().slice(1), folder / table)
    refused(folder, f"{re.escape(table)} is not the file that benchmark.yaml describes")


@pytest.mark.parametrize("version", [0, 2])
def test_another_schema_version(folder: Path, version: int) -> None:
    edit(folder, schema_version=version)
    refused(folder, f"has schema version {version}; this medunlearn reads 1")


@pytest.mark.parametrize(
    "key", ["name", "schema_version", "builder", "seed", "source", "licence", "data_use", "levels", "subject_level",
            "counts", "notes", "sha256"],
)  # fmt: skip
def test_a_manifest_without_a_key(folder: Path, key: str) -> None:
    edit(folder, **{key: None})
    refused(folder, f"lacks or has invalid: {key}")


def test_several_wrong_keys_are_named_together(folder: Path) -> None:
    edit(folder, seed="seven", levels="patient", notes=None)
    refused(folder, "lacks or has invalid: seed, levels, notes")


@pytest.mark.parametrize("hashes", [{}, {"records.parquet": "0" * 64}, dict.fromkeys([*TABLES, "more"], "0")])
def test_hashes_of_other_tables(folder: Path, hashes: dict[str, str]) -> None:
    edit(folder, sha256=hashes)
    refused(folder, "must give the SHA-256 of records.parquet, questions.parquet, splits.parquet")


def test_a_hash_that_is_no_text(folder: Path) -> None:
    edit(folder, sha256=dict.fromkeys(TABLES, 5))
    refused(folder, "is not the file")


@pytest.mark.parametrize("content", [b"a: [1", b"\tx: y", b"a: b: c", b"name: \xff\xfe"])
def test_a_manifest_that_is_no_yaml(folder: Path, content: bytes) -> None:
    (folder / MANIFEST).write_bytes(content)
    refused(folder, "cannot be read as YAML|is not UTF-8 text")


@pytest.mark.parametrize("text", ["", "- a\n- b", "just words"])
def test_a_manifest_without_keys(folder: Path, text: str) -> None:
    (folder / MANIFEST).write_text(text)
    refused(folder, "is not a table of keys and values")


def test_an_unknown_and_a_missing_column(folder: Path) -> None:
    table = pq.ParquetFile(folder / "questions.parquet").read()
    put(folder, "questions.parquet", table.rename_columns({"answer": "reply"}))
    refused(folder, "has an unknown column 'reply'; lacks column 'answer'")


def test_a_column_of_another_type(folder: Path) -> None:
    table = pq.ParquetFile(folder / "questions.parquet").read()
    place = table.schema.get_field_index("answer_index")
    put(folder, "questions.parquet", table.set_column(place, "answer_index", pa.array([None] * 4, pa.float64())))
    refused(folder, "column 'answer_index' is double, not int32")


@pytest.mark.parametrize("groups", [pa.array(["p1"] * 7), pa.array([{"patient": 1}] * 7)])
def test_groups_that_are_no_words(folder: Path, groups: pa.Array) -> None:
    table = pq.ParquetFile(folder / "records.parquet").read()
    put(folder, "records.parquet", table.set_column(table.schema.get_field_index("groups"), "groups", groups))
    refused(folder, "column 'groups' is .*, not a struct of strings")


@pytest.mark.parametrize("column", ["record_id", "text", "fold", "groups", "identifiers"])
def test_a_row_without_a_value(folder: Path, column: str) -> None:
    table = pq.ParquetFile(folder / "records.parquet").read()
    place = table.schema.get_field_index(column)
    values = table.column(column).to_pylist()
    values[2] = None
    field = table.schema.field(column)
    put(folder, "records.parquet", table.set_column(place, field, pa.array(values, field.type)))
    refused(folder, f"column '{column}' has no value in row 2")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [("side", "both", "'both' is not a side"), ("level", "study", "split 'one' is on two levels")],
)
def test_splits_that_cannot_be(folder: Path, column: str, value: str, message: str) -> None:
    table = pq.ParquetFile(folder / "splits.parquet").read()
    values = table.column(column).to_pylist()
    values[1] = value
    put(folder, "splits.parquet", table.set_column(table.schema.get_field_index(column), column, [values]))
    refused(folder, message)


def contradicts(changed: Callable[..., Benchmark], message: str, **fields: Any) -> None:
    with pytest.raises(BenchmarkError, match=message):
        changed(**fields)


def test_ids_that_stand_twice(changed: Callable[..., Benchmark], benchmark: Benchmark) -> None:
    records, questions = benchmark.records, benchmark.questions
    contradicts(changed, "record_id 'n1' stands 2 times", records=(*records, records[0]))
    contradicts(changed, "question_id 'q4' stands 3 times", questions=(*questions, questions[3], questions[3]))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"record_id": "n9"}, "question 'q1' asks about a record that is not there: 'n9'"),
        ({"fold": "test"}, "question 'q1' has the unknown fold 'test'"),
        ({"kind": "riddle"}, "question 'q1' has the unknown kind 'riddle'"),
        ({"answer": ""}, "question 'q1' has no answer"),
        ({"answer_index": 0}, "question 'q1' has answer_index 0 for 0 options"),
        ({"options": ("a",), "answer_index": -1}, "question 'q1' has answer_index -1 for 1 options"),
    ],
)
def test_a_wrong_question(
    changed: Callable[..., Benchmark], benchmark: Benchmark, fields: dict[str, Any], message: str
) -> None:
    first, *others = benchmark.questions
    contradicts(changed, message, questions=(replace(first, **fields), *others))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text": " \n"}, "record 'n1' has no text"),
        ({"fold": "test"}, "record 'n1' has the unknown fold 'test'"),
        ({"groups": {"institution": "north"}}, "record 'n1' names no patient"),
        ({"groups": {}}, "Record 'n1' belongs to no group"),
        (
            {"groups": {"institution": "south", "patient": "p1"}},
            "'p1' lies in institution 'south' and in .* 'north'",
        ),
    ],
)
def test_a_wrong_record(
    changed: Callable[..., Benchmark], benchmark: Benchmark, fields: dict[str, Any], message: str
) -> None:
    first, *others = benchmark.records
    contradicts(changed, message, records=(replace(first, **fields), *others))


@pytest.mark.parametrize(
    ("level", "forget", "retain", "message"),
    [
        ("patient", ("p1", "p2"), ("p2", "p3", "p4"), "split 'x' has nodes on both sides: p2"),
        ("patient", ("p1",), ("p2", "p3"), "split 'x' does not cover its level; neither side has: p4"),
        ("patient", (), ("p1", "p2", "p3", "p4"), "split 'x' has an empty forget set"),
        ("patient", ("p1", "p2", "p3", "p4"), (), "split 'x' has an empty retain set"),
        ("patient", ("p1", "p9"), ("p2", "p3", "p4"), "split 'x' names patient nodes that do not exist: p9"),
        ("patient", ("p1", "p1"), ("p2", "p3", "p4"), "split 'x' names nodes twice: p1"),
        ("ward", ("w1",), ("w2",), "split 'x' is on a level that no record has: 'ward'"),
    ],
)
def test_a_wrong_split(
    changed: Callable[..., Benchmark], level: str, forget: tuple, retain: tuple, message: str
) -> None:
    contradicts(changed, message, splits={"x": Split("x", level, forget, retain)})


def test_a_split_under_another_name(changed: Callable[..., Benchmark], benchmark: Benchmark) -> None:
    contradicts(changed, "split 'one' stands under the name 'two'", splits={"two": benchmark.splits["one"]})


def test_the_rest(changed: Callable[..., Benchmark]) -> None:
    contradicts(changed, "it has no records", records=(), questions=(), splits={})
    contradicts(changed, "data_use is 'secret', not open or credentialed", data_use="secret")


def test_many_mistakes_are_shown_together_and_the_rest_counted(
    changed: Callable[..., Benchmark], benchmark: Benchmark
) -> None:
    wrong = [replace(benchmark.questions[0], question_id=f"w{n}", answer="") for n in range(25)]
    with pytest.raises(BenchmarkError) as caught:
        changed(questions=tuple(wrong))
    assert str(caught.value).count("has no answer") == 20
    assert str(caught.value).endswith("... and 5 more")
