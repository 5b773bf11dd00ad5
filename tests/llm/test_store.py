"""The store: durable, private, shared between processes, read by pandas."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from forking import Forked

from medunlearn.errors import InputError, StorageError
from medunlearn.llm import LogProbs, ReplyDetails, Store, StoredResponse, Usage

USAGE = Usage(2, 10, 5, 3, 0.25)
LOG_PROBS = LogProbs(("a", " b"), (None, -0.5), (0, 1))
SAID = StoredResponse(
    "k1", "answered", "", "é \x00 病", "stop", LOG_PROBS, "m", "m-1", "fp", "label@1", 0.7, 2**31, 1, 64, USAGE,
    "2026", ReplyDetails("text", "hm", "", 0, 5, 2, ("top_k",)),
)  # fmt: skip


def write(folder: Path, name: str) -> None:
    """Takes turns with others of its kind: each puts its own keys and the common ones."""
    with Store(folder) as store:
        for number in range(150):
            for key in (f"{name}-{number}", f"common-{number}"):
                store.put(replace(SAID, key=key, text=name))


def test_what_is_put_comes_back(tmp_path: Path) -> None:
    with Store(tmp_path / "llm") as store:
        assert store.get("k1") is None
        assert store.put(SAID) == SAID
    with Store(tmp_path / "llm") as store:
        assert store.get("k1") == SAID
        assert len(store) == 1
        assert store.spent() == USAGE
        assert store.mean_answer_tokens("label@1", "m") == 2.5
        assert store.mean_answer_tokens("label@2", "m") is None


def test_the_first_response_stays_unless_it_is_replaced(tmp_path: Path) -> None:
    later = replace(SAID, text="later")
    with Store(tmp_path) as store:
        store.put(SAID)
        assert store.put(later) == SAID
        assert store.put(later, replace=True) == later
        assert len(store) == 1


def test_it_is_private_to_its_owner(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Store(tmp_path / "llm") as store:
            store.put(SAID)
            files = sorted((tmp_path / "llm").iterdir())
            assert {file.name for file in files} >= {"responses.sqlite", "responses.sqlite-wal"}
            assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
            assert stat.S_IMODE((tmp_path / "llm").stat().st_mode) == 0o700
    finally:
        os.umask(before)
    (tmp_path / "llm" / "responses.sqlite").chmod(0o644)
    Store(tmp_path / "llm").close()
    assert stat.S_IMODE((tmp_path / "llm" / "responses.sqlite").stat().st_mode) == 0o600


def test_pandas_reads_it_and_finds_no_prompt(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.put(SAID)
        table = store.table()
        direct = pd.read_sql("SELECT * FROM responses", sqlite3.connect(tmp_path / "responses.sqlite"))
    pd.testing.assert_frame_equal(table, direct, check_dtype=False)
    row = table.iloc[0]
    assert (row.key, row.temperature, row.seed, row.prompt_version) == ("k1", 0.7, 2**31, "label@1")
    assert row.money == 0.25
    assert not {"prompt", "messages"} & set(table.columns)


def test_several_processes_share_it(tmp_path: Path) -> None:
    names = ["one", "two", "three"]
    running = [Forked(partial(write, tmp_path, name)) for name in names]
    assert [process.wait() for process in running] == [0, 0, 0]
    with Store(tmp_path) as store:
        table = store.table()
    assert len(table) == 150 * 4
    assert table.key.is_unique
    for name in names:
        assert (table.text[table.key.str.startswith(name)] == name).all()


def test_something_else_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file"):
        Store(tmp_path / "file")
    (tmp_path / "responses.sqlite").write_bytes(b"not a database, but long enough to be taken for one" * 50)
    with pytest.raises(InputError, match="not a response store"):
        Store(tmp_path)


@pytest.mark.parametrize(
    ("statement", "part"),
    [("CREATE TABLE responses (id)", "not a response store"), ("PRAGMA user_version = 9", "another version")],
)
def test_another_database_and_another_version_are_refused(tmp_path: Path, statement: str, part: str) -> None:
    database = sqlite3.connect(tmp_path / "responses.sqlite")
    database.execute(statement)
    database.commit()
    database.close()
    with pytest.raises(InputError, match=part):
        Store(tmp_path)


def test_a_full_disk_is_said_clearly_and_loses_nothing(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.put(SAID)
        store._database.execute("PRAGMA max_page_count = 8")
        with pytest.raises(StorageError, match="full"):
            store.put(replace(SAID, key="big", text="x" * 100_000))
        assert store.get("k1") == SAID


def test_a_store_of_an_older_version_is_read_and_continued(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.put(SAID)
    with closing(sqlite3.connect(tmp_path / "responses.sqlite")) as database:
        database.execute("ALTER TABLE responses DROP COLUMN details")
        database.commit()
    with Store(tmp_path) as store:
        assert store.get("k1") == replace(SAID, details=None)
        assert store.put(replace(SAID, key="k2")).details == SAID.details
