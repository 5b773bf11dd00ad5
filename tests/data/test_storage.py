"""Files are whole or not there, and what the disk refuses is said clearly."""

import errno
import hashlib
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medunlearn.data import storage
from medunlearn.data.leftovers import part_of
from medunlearn.errors import BenchmarkError, InputError, SourceError, StorageError
from medunlearn.input_files import path_text
from medunlearn.sources.table_files import READERS

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int32())])


def write_half(path: Path, error: BaseException) -> None:
    """Writes half of a file and fails."""
    with storage.atomic_file(path) as part:
        part.write_text("half")
        raise error


def write_link(path: Path, victim: Path) -> None:
    """Puts a link in the place of a part."""
    with storage.atomic_file(path) as part:
        part.unlink()
        part.symlink_to(victim)


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "x"), ValueError("a bug of ours"), KeyboardInterrupt(), SystemExit(1)],
    ids=lambda error: type(error).__name__,
)
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    file = tmp_path / "table"
    storage.write_text(file, "old")
    with pytest.raises((StorageError, type(error))):
        write_half(file, error)
    assert file.read_text() == "old"
    assert names(tmp_path) == ["table"]


def test_a_failed_first_write_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="a bug"):
        write_half(tmp_path / "new" / "table", RuntimeError("a bug"))
    assert names(tmp_path / "new") == []


def test_a_copy_that_fills_the_disk_is_no_unreadable_file(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "weights", None, str(tmp_path / "table"))
    with pytest.raises(StorageError, match=r"The disk is full: .*table was not written"):
        write_half(tmp_path / "table", full)
    with pytest.raises(InputError, match="weights cannot be read"):
        write_half(tmp_path / "table", FileNotFoundError(errno.ENOENT, "x", "weights"))


def test_a_refused_rename_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "table"
    storage.write_text(file, "old")

    def replace(self: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(StorageError, match=r"Cannot write .*table: Permission denied"):
        storage.write_text(file, "new")
    assert file.read_text() == "old"
    assert names(tmp_path) == ["table"]


def test_the_content_is_on_the_disk_before_it_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda file: (events.append("fsync"), fsync(file))[1])
    monkeypatch.setattr(Path, "replace", lambda a, b: (events.append("replace"), replace(a, b))[1])
    storage.write_files(tmp_path, dict.fromkeys(("a", "b"), b"x"))
    assert events == ["fsync", "fsync", "replace", "replace"]


def test_several_files_are_replaced_together_or_not_at_all(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a", "b", "c")]
    storage.write_files(tmp_path, {file.name: b"old" for file in files})

    def write_new() -> None:
        with storage.atomic_files(*files) as parts:
            for part in parts:
                part.write_bytes(b"new")
            raise OSError(errno.ENOSPC, "x")

    with pytest.raises(StorageError, match="c was not written"):
        write_new()
    assert [file.read_bytes() for file in files] == [b"old"] * 3
    assert names(tmp_path) == ["a", "b", "c"]


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="Cannot write"):
        storage.write_text(tmp_path / "file" / "table", "new")


def test_a_new_folder_is_private(tmp_path: Path) -> None:
    storage.write_text(tmp_path / "run" / "table", "x")
    assert (tmp_path / "run").stat().st_mode & 0o077 == 0


class LibraryError(Exception):
    """Error of a library written in another language."""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "anything"), "The disk is full"),
        (OSError(errno.EDQUOT, "anything"), "The disk is full"),
        (LibraryError("I/O error: No space left on device (os error 28)"), "The disk is full"),
        (LibraryError("IoError(Os { code: 28 }) (os error 28)"), "The disk is full"),
        (pa.ArrowException("Error writing bytes: Disk quota exceeded"), "The disk is full"),
        (PermissionError(errno.EACCES, "Permission denied"), "Cannot write /x/y: Permission denied"),
        (OSError(errno.EROFS, "Read-only file system"), "Cannot write /x/y: Read-only file system"),
        (OSError("words alone"), "Cannot write /x/y: words alone"),
    ],
)
def test_what_the_disk_refuses_has_one_form(error: Exception, message: str) -> None:
    refused = storage.as_storage_error(error, Path("/x/y"))
    assert str(refused).startswith(message)
    assert "/x/y" in str(refused)


@pytest.mark.parametrize("error", [ValueError("no number"), KeyError("x"), KeyboardInterrupt()])
def test_other_errors_are_no_storage_errors(error: BaseException) -> None:
    assert storage.as_storage_error(error, Path("x")) is None


def test_a_table_comes_back_and_is_the_same_bytes(tmp_path: Path) -> None:
    rows = [{"id": "ä", "n": 1}, {"id": "b", "n": None}]
    for name in ("a", "b"):
        storage.write_table(tmp_path / name, rows, SCHEMA)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert storage.read_table(tmp_path / "a", SCHEMA) == rows


def test_a_table_that_is_absent_or_a_folder(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="is missing"):
        storage.read_table(tmp_path / "a")
    with pytest.raises(BenchmarkError, match="cannot be read: it is a folder"):
        storage.read_table(tmp_path)


def test_a_table_whose_text_is_no_utf_8_is_broken(tmp_path: Path) -> None:
    text = pa.array([b"\xff"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"id": text}), tmp_path / "a")
    with pytest.raises(BenchmarkError, match="cannot be read as Parquet"):
        storage.read_table(tmp_path / "a")


def test_nulls_are_refused_with_their_first_row() -> None:
    rows = [{"id": "a", "n": None}, {"id": None, "n": 1}, {"id": None, "n": 2}]
    storage.refuse_nulls(Path("t"), rows[:1], ("n",))
    with pytest.raises(BenchmarkError, match=r"t: column 'id' has no value in row 1. Build"):
        storage.refuse_nulls(Path("t"), rows, ("n",))


def test_json_comes_back(tmp_path: Path) -> None:
    storage.write_json(tmp_path / "a.json", {"ü": [1, 2.5, None]})
    assert storage.read_json(tmp_path / "a.json") == {"ü": [1, 2.5, None]}
    assert "ü" in (tmp_path / "a.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("content", [b"", b'{"a":', b"\xff", b"[" * 200_000, b"1" * 5_000])
def test_json_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json (cannot be read as JSON|is not UTF-8 text)"):
        storage.read_json(tmp_path / "a.json")


def test_hashes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert storage.sha256_of(tmp_path / "a") == hashlib.sha256(b"abc").hexdigest()
    expected = hashlib.sha256(b'{"a":[1,2],"b":"x"}').hexdigest()
    assert storage.sha256_of_json({"b": "x", "a": (1, 2)}) == expected


def test_a_small_file_of_many_rows_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path, rows = tmp_path / "t.parquet", storage.MOST_ROWS + 1
    pq.write_table(pa.table({"a": pa.nulls(rows)}), path)
    assert path.stat().st_size < 100_000
    with pytest.raises(BenchmarkError, match=r"5,000,001 rows of 1 columns; at most 5,000,000 rows"):
        storage.read_table(path)
    with pytest.raises(SourceError, match="at most 5,000,000 rows"):
        list(READERS[".parquet"](path))
    wide = pa.table({f"c{number}": pa.nulls(rows) for number in range(201)})
    pq.write_table(wide, path)
    with pytest.raises(InputError, match=r"at most .* 1,000,000,000 values"):
        storage.read_frame(path)


def test_a_part_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    victim, file = tmp_path / "victim", tmp_path / "file"
    victim.write_text("mine")
    part_of(file).symlink_to(victim)
    storage.write_text(file, "ours")
    assert (victim.read_text(), file.read_text()) == ("mine", "ours")
    assert not file.is_symlink()
    file.unlink()
    file.symlink_to(victim)  # nor is a link in the file's own place
    storage.write_text(file, "ours")
    assert (victim.read_text(), file.read_text()) == ("mine", "ours")
    file.unlink()
    with pytest.raises(StorageError):
        write_link(file, victim)
    assert victim.read_text() == "mine"


def test_files_that_a_user_names_are_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    storage.refuse_existing(file, overwrite=False)
    file.write_text("mine")
    storage.refuse_existing(file, overwrite=True)
    for overwrite, more in ((False, r"--overwrite replaces it\."), (None, r"Choose another --out\.$")):
        with pytest.raises(InputError, match=more):
            storage.refuse_existing(file, overwrite=overwrite)
    (tmp_path / "link.csv").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe.csv")
    for name in ("link.csv", "pipe.csv"):
        for overwrite in (False, True):
            with pytest.raises(InputError):
                storage.refuse_existing(tmp_path / name, overwrite=overwrite)
    with pytest.raises(InputError, match="is a folder"):
        storage.refuse_existing(tmp_path, overwrite=True)
    for record in storage.RECORDS:
        folder = tmp_path / record.replace(".", "_")
        (folder / "below").mkdir(parents=True)
        for path in (folder / record, folder / "records.parquet", folder / "below" / "model.safetensors"):
            path.write_text("ours")
            with pytest.raises(InputError, match="--overwrite replaces nothing there"):
                storage.refuse_existing(path, overwrite=True)


def test_half_a_character_is_escaped(tmp_path: Path) -> None:
    value = {"file": "caf\udce9.txt"}
    storage.write_json(tmp_path / "a.json", value)
    assert storage.read_json(tmp_path / "a.json") == value
    storage.write_text(tmp_path / "a.txt", "caf\udce9 é")
    assert (tmp_path / "a.txt").read_text() == r"caf\udce9 é"
    assert path_text(Path(os.fsdecode(b"caf\xe9/\xc3\xa9"))) == r"caf\xe9/é"
