"""Atomic file writes and schema-checked table reads."""

from __future__ import annotations

import errno
import gc
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from medunlearn.data.leftovers import part_of, remove_stray_parts
from medunlearn.errors import BenchmarkError, InputError, StorageError, first_line
from medunlearn.input_files import read_text, regular_file

if TYPE_CHECKING:
    import pandas as pd

_Columns = TypeVar("_Columns", "pd.DataFrame", pa.Table)
_FULL = (errno.ENOSPC, errno.EDQUOT)
BUILD = "build.json"
"""Record of a build that asks a language model, or writes files besides the benchmark's tables."""
RECORDS = (
    "run.json",
    "benchmark.yaml",
    BUILD,
    "statement.dsse.json",
    "config.json",
    "adapter_config.json",
    "delta.json",
)
"""Files that describe the others of their folder: of a run, benchmark, case or model."""


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Context in which one file is written, like :func:`atomic_files`; yields the temporary path."""
    with atomic_files(path) as parts:
        yield parts[0]


@contextmanager
def atomic_files(*paths: Path) -> Iterator[list[Path]]:
    """Context in which several files are written atomically, to the temporary paths that it yields.

    At its end they replace the files in this order, none before all are complete. After an error or a crash the
    old files are intact, never partial new ones. Files are readable only by their owner (0600), and so are created
    folders (0700).

    Raises:
        StorageError: the disk refused; the old files are untouched.
    """
    parts = {path: part_of(path) for path in paths}
    try:
        for path, part in parts.items():
            make_folder(path.parent)
            _clean(path.parent, os.getpid())
            _create(part)
        yield [*parts.values()]
        for part in parts.values():
            handle = os.open(part, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                os.fchmod(handle, 0o600)  # a writer may have put a file of its own there
                os.fsync(handle)
            finally:
                os.close(handle)
        for path, part in parts.items():
            part.replace(path)
    except BaseException as error:
        unwritten = _last_begun(parts)
        for part in parts.values():
            with suppress(OSError):
                part.unlink(missing_ok=True)
        # A copy that fills the disk names the file that it reads.
        if isinstance(error, OSError) and error.filename and error.errno not in _FULL:
            targets = {*paths, *parts.values(), *(folder for path in paths for folder in path.parents)}
            if Path(str(error.filename)) not in targets:  # what is written is made from another file
                raise InputError(f"{error.filename} cannot be read: {error.strerror or error}.") from error
        refused = as_storage_error(error, unwritten)
        if refused is None:
            raise
        raise refused from error


def _create(part: Path) -> None:
    """Create an empty file of our own; whatever had the name of a part, such as a link, is removed first."""
    with suppress(FileNotFoundError):
        part.unlink()
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))


def refuse_existing(*paths: Path, why: str = "no file is written over", overwrite: bool | None = None) -> None:
    """Refuse to write over a file that a user named; checked before the work begins.

    Args:
        overwrite: whether a regular file may be replaced, which is no part of a benchmark, run, case or model; None
            for a command that has no such flag.

    Raises:
        InputError: something has that name.
    """
    for path in filter(os.path.lexists, paths):
        if path.is_dir():
            raise InputError(f"{path} is a folder; --out is the file to write.")
        if not overwrite:
            more = "" if overwrite is None else " --overwrite replaces it."
            raise InputError(f"{path} exists, and {why}. Choose another --out.{more}")
        if path.is_symlink() or not path.is_file():
            raise InputError(
                f"{path} is a link or a device, which --overwrite does not replace: choose another --out."
            )
        folder = path.absolute().parent
        for record in (place / name for place in (folder, folder.parent) for name in RECORDS):
            if os.path.lexists(record):
                raise InputError(
                    f"{path} lies in a folder that {record} describes, and --overwrite replaces nothing there. "
                    "Choose another --out."
                )


def _last_begun(parts: Mapping[Path, Path]) -> Path:
    """The last file whose part has content, or the first file."""
    first, *others = parts
    for path in reversed(others):
        with suppress(OSError):
            if parts[path].stat().st_size:
                return path
    return first


@lru_cache(maxsize=1024)
def _clean(folder: Path, process: int) -> None:
    """Remove part files of dead processes from a folder, once per process."""
    remove_stray_parts(folder, ".*.part")


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, readable only by their owner (0700)."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def close_folder(folder: Path) -> None:
    """Make the files in a folder readable only by their owner, whatever library wrote them."""
    for file in folder.iterdir():
        if file.is_file():
            file.chmod(0o600)


def as_storage_error(error: BaseException, path: Path) -> StorageError | None:
    """The :class:`StorageError` for a failed write; None if the disk was not the reason.

    Native libraries wrap the system's error in their own types and messages, so the error number is checked first
    and the text second.
    """
    text = str(error)
    said = re.search(r"os error (\d+)|\[errno (\d+)\]", text)
    number = getattr(error, "errno", None) or (int(said[1] or said[2]) if said else None)
    if number in _FULL or any(words in text for words in ("No space left", "Disk quota exceeded")):
        return StorageError(f"The disk is full: {path} was not written. Free some space and run it again.")
    if number == errno.EFBIG:
        return StorageError(
            f"{path} was not written: it is larger than this process may write. Raise the limit (ulimit -f "
            "unlimited) and run it again."
        )
    if number in (errno.EROFS, errno.EIO) and not isinstance(error, OSError):
        return StorageError(f"Cannot write {path}: {os.strerror(number)}.")
    if isinstance(error, OSError):
        return StorageError(f"Cannot write {path}: {error.strerror or error}.")
    return None


def write_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write several files of a folder by name, in :func:`atomic_files`."""
    with atomic_files(*(folder / name for name in contents)) as parts:
        for part, content in zip(parts, contents.values(), strict=True):
            part.write_bytes(content)


def write_bytes(path: Path, content: bytes) -> None:
    with atomic_file(path) as part:
        part.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode(errors="backslashreplace"))


def write_json(path: Path, value: Any) -> None:
    write_bytes(path, json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """A value as the bytes of a JSON file; half a character, as of a file name that is not UTF-8, is escaped."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode(errors="backslashreplace")


def read_json(path: Path) -> Any:
    """Content of a JSON file.

    Raises:
        InputError: it is not there or not JSON.
    """
    if not path.exists() and not path.is_symlink():
        raise InputError(f"There is no {path}.")
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as JSON: {error}.") from error


def write_table(path: Path, rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> None:
    """Write rows to a Parquet file, deterministically."""
    write_bytes(path, table_bytes(rows, schema))


def table_bytes(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> bytes:
    """Rows as the bytes of a Parquet file; deterministic."""
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd")
    content: bytes = buffer.getvalue().to_pybytes()
    return content


def read_table(
    path: Path, schema: pa.Schema | None = None, *, optional: pa.Schema | None = None
) -> list[dict[str, Any]]:
    """Rows of a Parquet file, as of :func:`read_columns`."""
    rows: list[dict[str, Any]] = read_columns(path, schema, optional=optional).to_pylist()
    return rows


def read_columns(path: Path, schema: pa.Schema | None = None, *, optional: pa.Schema | None = None) -> pa.Table:
    """A Parquet file as columns.

    Args:
        schema: required columns and types, if given.
        optional: further permitted columns.

    Raises:
        BenchmarkError: the file is missing, cut off, or has other columns.
    """
    try:
        with pq.ParquetFile(regular_file(path, BenchmarkError)) as file:
            refuse_large(file, path, BenchmarkError)
            table = file.read()
        table.validate(full=True)
    except FileNotFoundError:
        raise BenchmarkError(f"{path} is missing. Build or copy the folder again.") from None
    except (OSError, pa.ArrowException) as error:
        raise BenchmarkError(
            f"{path} cannot be read as Parquet ({first_line(error)}). It is truncated or broken: "
            "build or copy the folder again."
        ) from error
    if schema is not None:
        extra = [field for field in optional or () if field.name in table.schema.names]
        _check_columns(path, table.schema, pa.schema([*schema, *extra]))
    return table


def rows_of(table: pa.Table, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The values of some columns row by row; only a few thousand rows are Python objects at a time."""
    for batch in table.select(list(names)).to_batches(max_chunksize=BATCH):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


@contextmanager
def collection_paused() -> Iterator[None]:
    """Context without cyclic garbage collection, which would traverse thousands of new objects again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


BATCH = 8192
"""Rows of a table that are Python objects at a time."""
MOST_ROWS, MOST_CELLS = 5_000_000, 1_000_000_000
"""Rows that are read one by one, twice those of the largest public collections of notes; values of a table."""


def refuse_large(
    file: pq.ParquetFile, path: Path, error: type[InputError] = InputError, most_rows: int = MOST_ROWS
) -> None:
    """Refuse a Parquet file that says it has more rows or values than are read: a small file can have billions.

    Raises:
        InputError: it has; of the type ``error``.
    """
    rows, columns = file.metadata.num_rows, file.metadata.num_columns
    if rows > most_rows or rows * columns > MOST_CELLS:
        raise error(
            f"{path} has {rows:,} rows of {columns:,} columns; at most {most_rows:,} rows and {MOST_CELLS:,} "
            "values are read. Is it the right file? If so, split it."
        )


def write_frame(path: Path, table: pd.DataFrame, **how: Any) -> None:
    """Write a DataFrame to a Parquet file; ``how`` is passed to :meth:`pandas.DataFrame.to_parquet`."""
    with atomic_file(path) as part:
        table.to_parquet(part, **how)


def write_frames(folder: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """Write several DataFrames to Parquet files of a folder by name, in :func:`atomic_files`."""
    with atomic_files(*(folder / name for name in tables)) as parts:
        for part, table in zip(parts, tables.values(), strict=True):
            table.to_parquet(part)


def read_frame(path: Path, required: Sequence[str] = (), **how: Any) -> pd.DataFrame:
    """A table of a run as a DataFrame; ``how`` is passed to :func:`pandas.read_parquet`.

    Args:
        required: columns that it must have.

    Raises:
        InputError: the file is missing, not Parquet, truncated, or lacks a column.
    """
    import pandas as pd

    table: pd.DataFrame = _read_columns(path, required, lambda file: pd.read_parquet(path, **how))
    return table


def read_arrow(path: Path, required: Sequence[str] = ()) -> pa.Table:
    """:func:`read_frame` without pandas, for many small tables that become one."""
    return _read_columns(path, required, lambda file: file.read(use_threads=False))


def _read_columns(path: Path, required: Sequence[str], read: Callable[[pq.ParquetFile], _Columns]) -> _Columns:
    remedy = "Copy the whole folder again, or remove it and give the command that made it."
    if not path.exists():
        raise InputError(f"{path} is missing. {remedy}")
    try:
        with pq.ParquetFile(regular_file(path)) as file:
            refuse_large(file, path, InputError, MOST_CELLS)
            table = read(file)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(
            f"{path} cannot be read as Parquet ({first_line(error)}). It is truncated or broken. {remedy}"
        ) from error
    names = table.column_names if isinstance(table, pa.Table) else table.columns
    if absent := [name for name in required if name not in names]:
        raise InputError(
            f"{path} lacks the column {', '.join(absent)}: it is another table, or was written by another version "
            f"of medunlearn. {remedy}"
        )
    return table


def _check_columns(path: Path, schema: pa.Schema, expected: pa.Schema) -> None:
    problems = [f"lacks column {name!r}" for name in expected.names if name not in schema.names]
    problems += [f"has an unknown column {name!r}" for name in schema.names if name not in expected.names]
    for name in set(expected.names) & set(schema.names):
        have, want = schema.field(name).type, expected.field(name).type
        if name == "groups":
            if not pa.types.is_struct(have) or any(field.type != pa.string() for field in have):
                problems.append(f"column 'groups' is {have}, not a struct of strings")
        elif have != want:
            problems.append(f"column {name!r} is {have}, not {want}")
    if problems:
        raise BenchmarkError(f"{path} " + "; ".join(sorted(problems)) + ".")


def refuse_nulls(path: Path, rows: Sequence[Mapping[str, Any]], allowed: Sequence[str]) -> None:
    """Refuse rows without a value in a column that must have one.

    Raises:
        BenchmarkError: names the first such row of each column.
    """
    first: dict[str, int] = {}
    for place, row in enumerate(rows):
        for column, value in row.items():
            if value is None and column not in allowed:
                first.setdefault(column, place)
    if first:
        problems = "; ".join(f"column {column!r} has no value in row {place}" for column, place in first.items())
        raise BenchmarkError(f"{path}: {problems}. Build it again.")


_HASHES: ContextVar[dict[tuple[int, ...], str] | None] = ContextVar("hashes", default=None)


@contextmanager
def hash_once() -> Iterator[None]:
    """Context in which :func:`sha256_of` reads each file once, however many records name it."""
    token = _HASHES.set({})
    try:
        yield
    finally:
        _HASHES.reset(token)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, hex."""
    known = _HASHES.get()
    with regular_file(path).open("rb") as file:
        state = os.fstat(file.fileno())
        key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        if known is not None and key in known:
            return known[key]
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if known is not None:
        known[key] = digest
    return digest


def _as_text(value: Any) -> str:
    if isinstance(value, Iterator):
        raise TypeError("an iterator inside of a mapping has no JSON: its text is its address")
    return str(value)


_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_as_text).encode


def sha256_of_json(value: Any) -> str:
    """SHA-256 of a value's canonical JSON: sorted keys, no spaces.

    An iterator, or one in a list, is hashed as a list, an element at a time.
    """
    digest = hashlib.sha256()
    for text in _json_texts(value):
        digest.update(text.encode())
    return digest.hexdigest()


def _json_texts(value: Any) -> Iterator[str]:
    is_list = isinstance(value, list | tuple) and any(isinstance(part, Iterator) for part in value)
    if not is_list and not isinstance(value, Iterator):
        yield _canonical(value)
        return
    yield "["
    for place, part in enumerate(value):
        if place:
            yield ","
        yield from _json_texts(part)
    yield "]"
