"""Responses are kept a batch at a time: what comes back, what is refused, what a full disk leaves."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medunlearn.data import responses as responses_module
from medunlearn.data.data_use import recorded_use
from medunlearn.data.responses import JOINED_FROM, REPLIES, RESPONSES, Response, ResponseStore, responses_digest
from medunlearn.errors import InputError, StorageError

SETTINGS = {"model": "abc", "template": "plain"}


def response(number: int, variant: str = "note", sample: int = 0, text: str = "aspirin") -> Response:
    return Response(
        f"q{number}", variant, sample, text, (5, 6, number), True, (-0.5, -float(number)), (True, False)
    )


@pytest.fixture
def store(tmp_path: Path) -> ResponseStore:
    return ResponseStore(tmp_path / "store", SETTINGS)


responses = st.builds(
    Response,
    question_id=st.text(min_size=1, max_size=5),
    variant=st.sampled_from(["note", "closed_book"]),
    sample=st.integers(0, 3),
    response=st.text(max_size=20),
    response_tokens=st.lists(st.integers(0, 200_000), max_size=4).map(tuple),
    finished=st.booleans(),
    answer_log_probs=st.none() | st.lists(st.floats(-99, 0, width=32), max_size=4).map(tuple),
    answer_hits=st.none() | st.lists(st.booleans(), max_size=4).map(tuple),
)


@settings(max_examples=25, deadline=None)
@given(batches=st.lists(st.lists(responses, min_size=1, max_size=4), max_size=3))
def test_what_goes_in_comes_out(tmp_path_factory: pytest.TempPathFactory, batches: list[list[Response]]) -> None:
    folder = tmp_path_factory.mktemp("stores") / "one"
    for batch in batches:
        ResponseStore(folder, SETTINGS).add(batch)
    expected = {(r.question_id, r.variant, r.sample): r for batch in batches for r in batch}
    assert ResponseStore(folder, SETTINGS).read() == expected


def test_nothing_is_written_before_the_first_batch(store: ResponseStore) -> None:
    assert store.read() == {}
    assert not store.folder.exists()
    store.add([response(1)])
    part, settings_file = sorted(path.name for path in store.folder.iterdir())
    assert re.fullmatch(r"part-00000-[0-9a-f]{8}\.parquet", part)
    assert settings_file == "settings.json"
    assert store.folder.stat().st_mode & 0o077 == 0
    assert ResponseStore.settings_of(store.folder) == SETTINGS


@pytest.mark.parametrize("without_parts", [False, True])
def test_other_settings_are_refused(store: ResponseStore, without_parts: bool) -> None:
    store.add([response(1)])
    for part in store.folder.glob("part-*") if without_parts else ():
        part.unlink()
    for other in ({"model": "abd", "template": "plain"}, {"model": "abc"}, {**SETTINGS, "more": 1}):
        with pytest.raises(InputError, match=r"other settings\. Choose another folder"):
            ResponseStore(store.folder, other)


def test_a_store_remembers_the_tighter_data_use(tmp_path: Path) -> None:
    ResponseStore(tmp_path, SETTINGS, data_use="open").add([response(1)])
    assert recorded_use(tmp_path) == "open"
    ResponseStore(tmp_path, SETTINGS, data_use="credentialed").add([response(2)])
    ResponseStore(tmp_path, SETTINGS, data_use="open").add([response(3)])
    assert recorded_use(tmp_path) == "credentialed"
    assert ResponseStore.settings_of(tmp_path) == SETTINGS


@pytest.mark.parametrize("content", [None, "", "{", "\x00"])
def test_responses_of_unknown_settings_are_set_aside(
    store: ResponseStore, content: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    store.add([response(1)])
    settings = store.folder / "settings.json"
    settings.unlink() if content is None else settings.write_text(content)
    again = ResponseStore(store.folder, SETTINGS)
    assert again.read() == {}
    assert "was set aside as .part-00000-" in " ".join(capsys.readouterr().err.split())
    again.add([response(2)])
    assert {key[0] for key in ResponseStore(store.folder, SETTINGS).read()} == {"q2"}
    assert len(list(store.folder.glob(".part-*-broken"))) == 1


def test_a_broken_part_is_set_aside(store: ResponseStore, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        store.add([response(number)])
    part = sorted(store.folder.glob("part-*"))[1]
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(
        InputError, match=r"part-00001-\w+\.parquet cannot be read as Parquet.* requests only missing"
    ):
        ResponseStore.read_complete(store.folder)
    again = ResponseStore(store.folder, SETTINGS)
    assert {key[0] for key in again.read()} == {"q0", "q2"}
    assert capsys.readouterr().err.count("was set aside") == 1
    again.add([response(1)])
    assert {key[0] for key in ResponseStore.read_complete(store.folder)} == {"q0", "q1", "q2"}


def test_a_part_in_the_making_is_no_part(store: ResponseStore) -> None:
    store.add([response(1)])
    (store.folder / ".part-00001.parquet.medunlearn-ffffff-77.part").write_bytes(b"half")
    again = ResponseStore(store.folder, SETTINGS)
    again.add([response(2)])
    assert {key[0] for key in again.read()} == {"q1", "q2"}
    assert len(list(store.folder.glob("part-00001-*.parquet"))) == 1


def test_processes_write_beside_each_other(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    both = [ResponseStore(folder, SETTINGS) for _ in range(2)]
    for turn in range(2):
        for rank, store in enumerate(both):
            store.add([response(10 * turn + rank)])
    # A third process, alone, goes on behind what is there; so do two that come again.
    ResponseStore(folder, SETTINGS).add([response(99)])
    for number, store in enumerate([ResponseStore(folder, SETTINGS) for _ in range(2)]):
        store.add([response(50 + number)])
    names = {question for question, _, _ in ResponseStore(folder, SETTINGS).read()}
    assert names == {f"q{number}" for number in (0, 1, 10, 11, 99, 50, 51)}
    assert len(list(folder.glob("part-*.parquet"))) == 7


def test_the_last_answer_to_a_question_counts(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path, SETTINGS)
    for number in range(12):
        store.add([replace(response(1), response=f"try {number}")])
    assert [response.response for response in store.read().values()] == ["try 11"]


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


def test_what_a_server_says_of_its_reply_comes_back_beside_older_parts(store: ResponseStore) -> None:
    served = replace(
        response(2), finished=False, finish_reason="length", content="text", reasoning="hm", prompt_tokens=9,
        completion_tokens=3, served_model="m.gguf", refused_fields=("top_k", "min_p"),
    )  # fmt: skip
    store.add([response(1)])
    store.add([served, response(3)])
    assert ResponseStore(store.folder, SETTINGS).read() == {
        ("q1", "note", 0): response(1), ("q2", "note", 0): served, ("q3", "note", 0): response(3),
    }  # fmt: skip
    older, newer = (pq.read_schema(part).names for part in sorted(store.folder.glob("part-*")))
    assert older == RESPONSES.names
    assert newer == [*RESPONSES.names, *REPLIES.names]


def test_a_response_that_nobody_says_ended_is_cut() -> None:
    ended, open_ended = response(1), replace(response(1), finished=False)
    assert not ended.cut
    assert open_ended.cut
    assert replace(open_ended, finish_reason="length").cut
    assert not replace(open_ended, finish_reason="tool_calls").cut


def test_many_parts_are_joined_and_say_the_same(store: ResponseStore) -> None:
    for number in range(JOINED_FROM - 1):
        store.add([response(number), response(number, sample=1)])
    assert not store.join(), "few parts are left as they are"
    store.add([replace(response(99), refusal="no", served_model="m")])
    before, digest = store.read(), responses_digest(store.read().values())
    assert store.join()
    (part,) = store.folder.glob("part-*.parquet")
    assert list(store.read().items()) == list(before.items())
    assert responses_digest(ResponseStore.read_complete(store.folder).values()) == digest
    assert pq.read_metadata(part).num_row_groups == 1
    store.add([response(100)])
    assert len(ResponseStore(store.folder, SETTINGS).read()) == len(before) + 1
    assert len([*store.folder.glob("part-*.parquet")]) == 2


@pytest.mark.parametrize("fault", ["disk", "part", "columns", "kill"])
def test_a_join_that_fails_loses_nothing(store: ResponseStore, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(JOINED_FROM):
        store.add([response(number)])
    parts = sorted(store.folder.glob("part-*.parquet"))
    before = store.read()

    groups = list[int]()

    class Filling(pq.ParquetWriter):
        def write_table(self, table: pa.Table, **how: object) -> None:
            groups.append(len(table))
            if len(groups) == 3:
                raise OSError(errno.ENOSPC, "No space left on device")
            super().write_table(table, **how)

    if fault == "disk":
        monkeypatch.setattr("medunlearn.data.responses.ROW_GROUP", 4)
        monkeypatch.setattr("medunlearn.data.responses.pq.ParquetWriter", Filling)
    elif fault == "part":
        parts[5].write_bytes(b"PAR1 cut off")
    elif fault == "columns":
        pq.write_table(pq.read_table(parts[5]).drop_columns("finished"), parts[5])
    else:  # killed after the joined part was written
        monkeypatch.setattr(Path, "unlink", lambda self, missing_ok=False: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            store.join()
        monkeypatch.undo()
        assert ResponseStore.read_complete(store.folder) == before
        assert ResponseStore(store.folder, SETTINGS).join()
        return
    assert not store.join()
    assert sorted(store.folder.glob("part-*.parquet")) == parts
    assert not [*store.folder.glob(".*.part")]
    if fault == "disk":
        assert store.read() == before
        assert groups == [4, 4, 4]
        monkeypatch.undo()  # space is made: the next stage's end joins them
        assert store.join()
        assert ResponseStore.read_complete(store.folder) == before
    else:
        with pytest.raises(InputError, match=parts[5].name):
            ResponseStore.read_complete(store.folder)


def test_a_reader_reads_again_if_another_process_joins_meanwhile(
    store: ResponseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(JOINED_FROM):
        store.add([response(number)])
    before, columns, read = store.read(), responses_module._columns, list[Path]()

    def joining(part: Path) -> Any:
        if not read:
            assert ResponseStore(store.folder, SETTINGS).join()
        read.append(part)
        return columns(part)

    monkeypatch.setattr(responses_module, "_columns", joining)
    assert ResponseStore.read_complete(store.folder) == before
    assert len({*read}) == 2
