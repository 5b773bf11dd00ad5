"""A benchmark on disk: what comes back, and what a failed save leaves."""

import errno
import hashlib
import os
import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml

from medunlearn.data.benchmark import MANIFEST, TABLES, Benchmark
from medunlearn.errors import StorageError

FILES = {*TABLES, MANIFEST, "README.md"}


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, hidden ones too."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_what_is_loaded_is_what_was_saved(benchmark: Benchmark, tmp_path: Path) -> None:
    back = Benchmark.load(benchmark.save(tmp_path / "bench"))
    assert back == benchmark
    assert back.fingerprint == benchmark.fingerprint
    assert list(back.splits) == ["one", "house"]
    assert set(content(tmp_path / "bench")) == FILES


def test_the_same_benchmark_is_the_same_bytes(benchmark: Benchmark, tmp_path: Path) -> None:
    first, second = (content(benchmark.save(tmp_path / name)) for name in ("a", "b"))
    assert first == second
    assert content(Benchmark.load(tmp_path / "a").save(tmp_path / "c")) == first


def test_saving_again_over_a_benchmark_replaces_it(benchmark: Benchmark, tmp_path: Path) -> None:
    replace(benchmark, titles={"n1": "A fever."}).save(tmp_path)
    assert Benchmark.load(tmp_path).titles == {"n1": "A fever."}
    replace(benchmark, name="another").save(tmp_path)
    another = Benchmark.load(tmp_path)
    assert (another.name, another.titles) == ("another", {})


def test_the_manifest_describes_the_tables(benchmark: Benchmark, tmp_path: Path) -> None:
    benchmark.save(tmp_path)
    manifest = yaml.safe_load((tmp_path / MANIFEST).read_text())
    for table in TABLES:
        assert manifest["sha256"][table] == hashlib.sha256((tmp_path / table).read_bytes()).hexdigest()
    assert manifest["counts"] == {
        "records": 7, "records_holdout": 1, "records_train": 6, "subjects": 4,
        "questions": 4, "questions_holdout": 1, "questions_train": 3, "splits": 2,
    }  # fmt: skip
    assert manifest["schema_version"] == 1
    assert manifest["data_use"] == "credentialed"
    assert manifest["levels"] == ["institution", "patient", "study", "section"]


def test_any_table_reader_can_open_it(benchmark: Benchmark, tmp_path: Path) -> None:
    benchmark.save(tmp_path)
    records = pd.read_parquet(tmp_path / "records.parquet").set_index("record_id")
    assert records.loc["n2", "groups"]["patient"] == "p2"
    assert records.loc["n2", "groups"]["study"] is None
    splits = pd.read_parquet(tmp_path / "splits.parquet")
    assert sorted(splits[(splits.split == "one") & (splits.side == "retain")].node) == ["p2", "p3", "p4"]


def test_the_card_is_a_dataset_card(benchmark: Benchmark, tmp_path: Path) -> None:
    benchmark.save(tmp_path)
    _, head, body = (tmp_path / "README.md").read_text().split("---\n", 2)
    head = yaml.safe_load(head)
    assert (head["license"], head["size_categories"]) == ("apache-2.0", ["n<1K"])
    assert "| `one` | patient | 1 | 2 |" in body  # p4 is of the holdout fold
    assert "Licence: apache-2.0." in body
    assert "Text of" not in body


@pytest.mark.parametrize(
    ("licence", "head"),
    [
        ("CC BY-NC-SA 4.0", {"license": "cc-by-nc-sa-4.0"}),
        ("", {"license": "unknown"}),
        ("PhysioNet 1.5.0", {"license": "other", "license_name": "physionet-1.5.0"}),
    ],
)
def test_licences_are_those_of_the_hub(
    changed: Callable[..., Benchmark], tmp_path: Path, licence: str, head: dict[str, str]
) -> None:
    changed(licence=licence).save(tmp_path)
    keys = yaml.safe_load((tmp_path / "README.md").read_text().split("---\n", 2)[1])
    assert {key: value for key, value in keys.items() if key.startswith("license")} == head


@pytest.mark.parametrize(
    "change",
    [{"name": "x"}, {"levels": ("patient", "study", "section")}, {"subject_level": "institution"}, {"splits": {}}],
    ids=lambda change: next(iter(change)),
)
def test_the_fingerprint_changes_with_the_content(
    changed: Callable[..., Benchmark], benchmark: Benchmark, change: dict
) -> None:
    assert changed(**change).fingerprint != benchmark.fingerprint


def test_the_fingerprint_sees_one_letter(changed: Callable[..., Benchmark], benchmark: Benchmark) -> None:
    first, *others = benchmark.records
    other = replace(first, text=first.text.replace("T", "t"))
    assert changed(records=(other, *others)).fingerprint != benchmark.fingerprint


def test_no_splits_and_no_questions_are_a_benchmark_too(changed: Callable[..., Benchmark], tmp_path: Path) -> None:
    bare = changed(splits={}, questions=())
    assert Benchmark.load(bare.save(tmp_path)) == bare


class Failing:
    """Stands in for a call that fails the n-th time."""

    def __init__(self, call: Callable, nth: int, error: Exception) -> None:
        self.call, self.nth, self.error = call, nth, error

    def __call__(self, *args: object, **named: object) -> object:
        self.nth -= 1
        if self.nth == 0:
            raise self.error
        return self.call(*args, **named)


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("nth", range(1, 6))
@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_leaves_the_older_benchmark_whole(
    benchmark: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, nth: int
) -> None:
    older = content(benchmark.save(tmp_path))
    newer = replace(benchmark, name="newer", records=tuple(replace(r, text=r.text * 2) for r in benchmark.records))
    if call == "write":
        failing = Failing(Path.write_bytes, nth, FULL)
        monkeypatch.setattr(Path, "write_bytes", lambda path, data: failing(path, data))
    else:
        monkeypatch.setattr(os, "fsync", Failing(os.fsync, nth, FULL))
    with pytest.raises(StorageError, match="disk is full"):
        newer.save(tmp_path)
    assert content(tmp_path) == older
    assert Benchmark.load(tmp_path) == benchmark


def test_a_limit_of_the_real_system_leaves_nothing_behind(benchmark: Benchmark, tmp_path: Path) -> None:
    """The kernel refuses the file half way: EFBIG, which needs no special disk."""
    noise = "".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(200))
    large = replace(benchmark, records=tuple(replace(record, text=noise) for record in benchmark.records))
    older = content(benchmark.save(tmp_path))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        with pytest.raises(StorageError, match=r"records\.parquet was not written: .*ulimit -f"):
            large.save(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert content(tmp_path) == older


def test_subjects_on_whom_no_model_is_trained_have_held_out_documents_alone(benchmark: Benchmark) -> None:
    assert benchmark.unseen_subjects == {"p4"}
    first, *rest = benchmark.records
    held_out = replace(benchmark, records=(replace(first, fold="holdout"), *rest))
    assert held_out.unseen_subjects == {"p4"}, "p1 has other documents, which are trained on"
