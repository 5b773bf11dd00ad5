"""A benchmark's sides, and a deletion request that no split foresaw."""

from dataclasses import replace
from pathlib import Path

import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.deletion_requests import read_subjects, save_splits, with_request
from medunlearn.errors import BenchmarkError, InputError, UnknownNameError


def ids(rows: list, field: str) -> list[str]:
    return [getattr(row, field) for row in rows]


def test_a_named_split(benchmark: Benchmark) -> None:
    assert benchmark.split("one") is benchmark.splits["one"]
    with pytest.raises(UnknownNameError, match=r"no split 'hous'. Did you mean 'house'\?"):
        benchmark.split("hous")


@pytest.mark.parametrize("words", ["patient=p1, p4", " patient = p1,p4 ", "patient=p1,,p4,", "patient=p4,p1,p4"])
def test_a_request_is_read_kindly(benchmark: Benchmark, words: str) -> None:
    assert benchmark.split(words).forget == ("p1", "p4")


@pytest.mark.parametrize(
    ("words", "forgotten"),
    [
        ("institution=south", ["n3", "s2a", "n4"]),
        ("patient=p3", ["n3", "s2a"]),
        ("study=s1", ["s1a", "s1b"]),
        ("section=s1b", ["s1b"]),
        ("disease=Diabetes", ["n2", "n4"]),
    ],
)
def test_a_request_takes_what_lies_below(benchmark: Benchmark, words: str, forgotten: list[str]) -> None:
    """Records without a node at the level of the request (notes, for a study) are retained."""
    split = benchmark.split(words)
    assert ids(benchmark.records_of(split, "forget"), "record_id") == forgotten
    retained = [name for name in ids(list(benchmark.records), "record_id") if name not in forgotten]
    assert ids(benchmark.records_of(split, "retain"), "record_id") == retained
    assert {name for name, side in benchmark.sides(split).items() if side == "forget"} == set(forgotten)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("patient=p1,p7", "There is no patient 'p7'"),
        ("institution=nort", r"no institution 'nort'. Did you mean 'north'\?"),
        ("patients=p1", r"no level 'patients'. Did you mean 'patient'\?"),
        ("=p1", "There is no level ''"),
    ],
)
def test_a_request_for_what_does_not_exist(benchmark: Benchmark, words: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        benchmark.split(words)


@pytest.mark.parametrize("words", ["patient=", "patient=,", "patient= "])
def test_a_request_for_nothing(benchmark: Benchmark, words: str) -> None:
    with pytest.raises(InputError, match="forgets nothing"):
        benchmark.split(words)


@pytest.mark.parametrize("words", ["patient=p1,p2,p3,p4", "disease=Cancer,Diabetes"])
def test_a_request_for_everything(benchmark: Benchmark, words: str) -> None:
    with pytest.raises(InputError, match="nothing is left to retain"):
        benchmark.split(words)


def test_questions_follow_their_records(benchmark: Benchmark) -> None:
    split = benchmark.split("one")
    assert ids(benchmark.questions_of(split, "forget"), "question_id") == ["q1", "q2", "q3"]
    assert ids(benchmark.questions_of(split, "retain"), "question_id") == ["q4"]
    assert ids(benchmark.questions_of(split, "forget", folds=("train",)), "question_id") == ["q1", "q3"]
    assert ids(benchmark.questions_of(split, "forget", kinds=("factual", "reasoning")), "question_id") == [
        "q1",
        "q2",
    ]
    assert benchmark.questions_of(split, "retain", folds=("holdout",)) == []


def test_subjects_and_facts(benchmark: Benchmark) -> None:
    assert [benchmark.subject(name) for name in ("n1", "s1b", "s2a", "n4")] == ["p1", "p1", "p3", "p4"]
    facts = benchmark.facts()
    assert facts["counts"]["subjects"] == 4
    assert facts["fingerprint"] == benchmark.fingerprint
    assert facts["invented"] is True
    assert "Text of" not in str(facts)
    assert "aspirin" not in str(facts)


def test_a_request_becomes_a_split(benchmark: Benchmark) -> None:
    requested = with_request(benchmark, ["p3", "p1", "p1"])
    assert requested.splits["request"].forget == ("p1", "p3")
    assert {name: split for name, split in requested.splits.items() if name != "request"} == benchmark.splits
    assert requested.texts_fingerprint == benchmark.texts_fingerprint
    assert with_request(requested, ["p1", "p3"]) == requested
    assert with_request(requested, ["p1"], name="second").splits["second"].forget == ("p1",)
    with pytest.raises(InputError, match="another split 'request'"):
        with_request(requested, ["p1"])


def test_a_request_that_cannot_be(benchmark: Benchmark) -> None:
    with pytest.raises(UnknownNameError, match=r"There is no patient 'p7'\.$"):
        with_request(benchmark, ["p7"])
    with pytest.raises(InputError, match="forgets nothing"):
        with_request(benchmark, [])
    with pytest.raises(InputError, match="names every patient"):
        with_request(benchmark, ["p1", "p2", "p3"])
    with pytest.raises(InputError, match="No model is trained on patient 'p4'"):
        with_request(benchmark, ["p4"])


def test_splits_are_written_and_nothing_else(benchmark: Benchmark, tmp_path: Path) -> None:
    benchmark.save(tmp_path / "b")
    tables = {name: (tmp_path / "b" / name).stat().st_mtime_ns for name in ("records.parquet", "questions.parquet")}
    requested = with_request(Benchmark.load(tmp_path / "b"), ["p1"])
    save_splits(requested)
    assert Benchmark.load(tmp_path / "b") == requested
    assert tables == {name: (tmp_path / "b" / name).stat().st_mtime_ns for name in tables}
    assert "`request`" in (tmp_path / "b" / "README.md").read_text()
    assert (tmp_path / "b" / "splits.parquet").stat().st_mode & 0o077 == 0
    with pytest.raises(InputError, match="was not read from a folder"):
        save_splits(with_request(benchmark, ["p1"]))
    other = replace(requested, records=(replace(requested.records[0], text="Another."), *requested.records[1:]))
    with pytest.raises(BenchmarkError, match="holds another benchmark"):
        save_splits(other)


def test_ids_of_a_request(tmp_path: Path) -> None:
    assert read_subjects("4711, 4712,4711") == ["4711", "4712"]
    many = [f"patient-{number:04d}" for number in range(60)]
    assert read_subjects(",".join(many)) == many, "longer than the name of a file may be"
    (tmp_path / "ids.txt").write_text("4711\nVane, Ann\n\n")
    assert read_subjects(str(tmp_path / "ids.txt")) == ["4711", "Vane, Ann"]
    for words, message in ((" , ", "names no patient"), ("none.txt", "There is no file")):
        with pytest.raises(InputError, match=message):
            read_subjects(words)
