"""Responses are kept a batch at a time; what was kept stays, whatever happens next."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from medunlearn.data.responses import Response, ResponseStore
from medunlearn.errors import BenchmarkError, InputError, StorageError

SETTINGS = {"model": "abc", "template": "plain", "max_new_tokens": 8}


def response(number: int, sample: int = 0, variant: str = "note") -> Response:
    return Response(f"q{number}", variant, sample, f"said {number}", (number, 2), True)


FULL = Response("q9", "closed_book", 1, "", (), False, (-0.5, -2.0), (True, False))


def test_what_was_kept_comes_back(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path / "store", SETTINGS)
    assert store.read() == {}
    store.add([response(1), response(2)])
    store.add([response(1, sample=1), FULL])
    wanted = {(r.question_id, r.variant, r.sample): r for r in (response(1), response(2), response(1, 1), FULL)}
    assert store.read() == wanted
    assert ResponseStore(tmp_path / "store", SETTINGS).read() == wanted
    assert ResponseStore.settings_of(tmp_path / "store") == SETTINGS


def test_a_store_opened_again_goes_on(tmp_path: Path) -> None:
    ResponseStore(tmp_path, SETTINGS).add([response(1)])
    ResponseStore(tmp_path, SETTINGS).add([response(2)])
    assert sorted(file.name for file in tmp_path.glob("part-*")) == ["part-00000.parquet", "part-00001.parquet"]
    assert len(ResponseStore(tmp_path, SETTINGS).read()) == 2


def test_the_last_answer_to_a_question_counts(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path, SETTINGS)
    for number in range(12):
        store.add([replace(response(1), response=f"try {number}")])
    assert [found.response for found in store.read().values()] == ["try 11"]


def test_other_settings_are_refused(tmp_path: Path) -> None:
    ResponseStore(tmp_path, SETTINGS).add([response(1)])
    with pytest.raises(InputError, match="made with other settings"):
        ResponseStore(tmp_path, SETTINGS | {"template": "chat"})


def test_parts_without_settings_are_refused(tmp_path: Path) -> None:
    ResponseStore(tmp_path, SETTINGS).add([response(1)])
    (tmp_path / "settings.json").unlink()
    with pytest.raises(InputError, match=r"There is no .*settings\.json"):
        ResponseStore(tmp_path, SETTINGS)


def test_a_full_disk_loses_the_batch_in_flight_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ResponseStore(tmp_path, SETTINGS)
    store.add([response(1)])

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="disk is full"):
            store.add([response(2)])
    assert list(store.read().values()) == [response(1)]
    store.add([response(3)])
    assert list(store.read().values()) == [response(1), response(3)]


def test_a_broken_part_is_named(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path, SETTINGS)
    store.add([response(1)])
    part = tmp_path / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:50])
    with pytest.raises(BenchmarkError, match=r"part-00000\.parquet cannot be read as Parquet"):
        store.read()


def test_a_part_that_was_never_finished_is_not_read(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path, SETTINGS)
    store.add([response(1)])
    (tmp_path / ".part-00001.parquet.77.part").write_bytes(b"half")
    assert len(ResponseStore(tmp_path, SETTINGS).read()) == 1
