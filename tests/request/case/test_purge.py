"""Purge: what holds a patient is listed, deleted only when that is confirmed, and nothing else ever is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError, UnknownNameError
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.request.case import purge
from medunlearn.request.case.purge import Purge, purge_patient

BENCHMARK = build(AmnesiaSettings(synthetic=12))
PATIENT = BENCHMARK.records[3].groups["patient"]
TEXT = BENCHMARK.records[3].text


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder with two files that hold the patient and one that does not; a third holder stands outside of it."""
    folder = tmp_path / "data"
    (folder / "responses").mkdir(parents=True)
    (folder / "copy.txt").write_text(TEXT)
    (folder / "responses" / "part.jsonl").write_text(f'{{"patient": "{PATIENT}"}}\n')
    (folder / "other.txt").write_text(BENCHMARK.records[4].text)
    (tmp_path / "outside.txt").write_text(TEXT)
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    yield folder
    assert (tmp_path / "outside.txt").read_text() == TEXT
    assert (folder / "other.txt").exists()


def purged(*folders: Path, benchmark: Benchmark = BENCHMARK, **more: object) -> Purge:
    return purge_patient(list(folders), benchmark, PATIENT, quiet=True, **more)  # type: ignore[arg-type]


def outcomes(result: Purge) -> dict[str, str]:
    return {file.holder.path.name: file.outcome for file in result.files}


def test_without_confirmation_it_lists(place: Path) -> None:
    result = purged(place)
    assert outcomes(result) == {"copy.txt": "listed", "part.jsonl": "listed"}
    assert len(list(place.rglob("*.*"))) == 4
    assert [file.path.name for file in result.log.unread] == ["link.txt"]
    assert TEXT[:40] not in result.table().to_string()


def test_confirmed_it_deletes_these_files_alone(place: Path) -> None:
    result = purged(place, confirmed=True)
    assert outcomes(result) == {"copy.txt": "deleted", "part.jsonl": "deleted"}
    assert sorted(path.name for path in place.rglob("*.*")) == ["link.txt", "other.txt"]
    assert result.remaining == []
    assert purged(place, confirmed=True).files == ()


def test_kinds_choose(place: Path) -> None:
    assert outcomes(purged(place, confirmed=True, kinds=["responses"])) == {
        "copy.txt": "kept",
        "part.jsonl": "deleted",
    }
    with pytest.raises(ConfigError, match="--kinds weights"):
        purged(place, confirmed=True, kinds=["weights"])
    assert (place / "copy.txt").exists()


def test_a_file_that_changes_meanwhile_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = purge.find_holders

    def find(*values: object, **more: object) -> object:
        log = real(*values, **more)  # type: ignore[arg-type]
        (place / "copy.txt").write_text("another text by now")
        (place / "responses").rename(place.parent / "moved")
        (place / "responses").symlink_to(place.parent / "moved")
        return log

    monkeypatch.setattr(purge, "find_holders", find)
    result = purged(place, confirmed=True)
    assert outcomes(result) == {"copy.txt": "changed", "part.jsonl": "refused"}
    assert len(result.remaining) == 2
    assert (place.parent / "moved" / "part.jsonl").exists()


def test_another_name_of_the_file_is_told(place: Path) -> None:
    os.link(place / "copy.txt", place.parent / "second-name.txt")
    result = purged(place, confirmed=True)
    assert [file.note for file in result.remaining] == ["1 further names of the file (hard links) are left"]
    assert (place.parent / "second-name.txt").read_text() == TEXT


def test_the_benchmark_itself_may_go(place: Path) -> None:
    bench = place / "bench"
    BENCHMARK.save(bench)
    result = purged(place, benchmark=Benchmark.load(bench), confirmed=True)
    deleted = {name for name, outcome in outcomes(result).items() if outcome == "deleted"}
    assert {"records.parquet", "questions.parquet"} <= deleted
    assert not (bench / "records.parquet").exists()


def test_mistakes(place: Path) -> None:
    with pytest.raises(InputError, match="root of the file system"):
        purged(Path("/"), confirmed=True)
    with pytest.raises(InputError, match="There is no"):
        purged(place / "nothing")
    with pytest.raises(UnknownNameError) as refused:
        purge_patient([place], BENCHMARK, "patient-0099", confirmed=True, quiet=True)
    assert "patient-00" not in str(refused.value).replace("patient-0099", "")
    with pytest.raises(InputError, match="no subject to search for"):
        purge_patient([place], None, None, confirmed=True, quiet=True)
    assert (place / "copy.txt").exists()
