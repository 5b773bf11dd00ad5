"""File contents as words, piece by piece: text, tables, SQLite, archives, and text in other binaries."""

from __future__ import annotations

import bz2
import csv
import gzip
import html
import io
import lzma
import re
import sqlite3
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from medunlearn.cases.holders.traces import words_of

CHUNK = 1 << 20
BREAK = "endofcell"
"""A word between two cells, so that no phrase reaches over their border."""
ID_COLUMNS = frozenset({
    "record_id", "question_id", "item", "subject", "subject_id", "patient", "patient_id", "node", "probe_id",
    "document", "id", "case_id", "note_id", "hadm_id", "study_id", "record", "question",
})  # fmt: skip
TEXT = frozenset({
    ".txt", ".md", ".html", ".htm", ".json", ".jsonl", ".ndjson", ".yaml", ".yml", ".log", ".jinja", ".py",
    ".toml", ".cfg", ".ini", ".xml", ".svg", ".rst", ".tex", ".js", ".css", ".sh", ".sql", ".part",
})  # fmt: skip
TABLES = frozenset({".csv", ".tsv"})
PACKED: Mapping[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".lzma": lzma.open}
IMAGES = frozenset([".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".dcm"])
LOGS = ("-wal", "-shm", "-journal")
"""Ends of the names of SQLite's own files; their rows are read through the file that they belong to."""
SQLITE = b"SQLite format 3\0"
_TAG = re.compile(r"</?[A-Za-z!][^<>]*>")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrtbf\"/\\])")
_ID_IN_JSON = re.compile(r'"(\w+)"\s*:\s*(?:"([^"]*)"|(\d+))')


class UnreadableError(Exception):
    """Content that cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Words of one piece of a file.

    Attributes:
        fresh: number of leading words repeated from the previous piece.
        values: contents of columns and keys that contain ids.
        key: request that a table's row belongs to, if the table has such a column.
    """

    words: list[str]
    fresh: int = 0
    values: list[str] = field(default_factory=list)
    key: str | None = None


def pieces(path: Path, overlap: int) -> Iterator[Piece]:
    """Yield a file's content, piece by piece.

    Args:
        overlap: words that are repeated from one piece to the next, so that no phrase is lost between them.

    Raises:
        UnreadableError: broken, encrypted, or of an unknown format; readable pieces were yielded before.
        OSError: the disk or the system refuses.
    """
    with path.open("rb") as file:
        head = _sample(file, 16)
        if head.startswith(b"PAR1"):
            yield from _parquet(path)
        elif head == SQLITE:
            yield from _sqlite(path)
            yield from _text(file, overlap, raw=True)  # rows that were deleted stay in free pages
        elif path.suffix == ".safetensors":  # a head of JSON, then numbers
            size = min(int.from_bytes(file.read(8), "little"), 64 * CHUNK)
            yield from _text(io.BytesIO(file.read(size)), overlap, raw=True)
        elif path.suffix.lower() in IMAGES or path.name.endswith(LOGS):
            yield from _text(file, overlap, raw=True)
        else:
            yield from _stream(file, path.name, overlap)


def _stream(file: IO[bytes], name: str, overlap: int, depth: int = 0) -> Iterator[Piece]:
    suffix = Path(name).suffix.lower()
    if suffix in PACKED and depth < 3:
        yield from _archive_members(file, name, overlap, depth)
    elif suffix == ".tar" and depth < 3:
        yield from _tar(file, overlap, depth)
    elif depth < 3 and _sample(file, 4) == b"PK\3\4":
        yield from _zip(file, overlap, depth)
    elif suffix in TABLES:
        yield from _csv(file, "\t" if suffix == ".tsv" else ",")
    else:
        is_text = suffix in TEXT or (file.seekable() and _is_text(_sample(file)))
        yield from _text(file, overlap, raw=not is_text)
        if not is_text:
            raise UnreadableError("unsupported binary format; the text in it was searched")


def _sample(file: IO[bytes], size: int = CHUNK) -> bytes:
    """First bytes of the rest of a file, without moving its position; empty for a stream."""
    if not file.seekable():
        return b""
    start, sample = file.tell(), file.read(size)
    file.seek(start)
    return sample


def _encoding(sample: bytes) -> str:
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    try:
        sample.decode()
    except UnicodeDecodeError as error:  # a character may be cut at the sample's end
        return "utf-8" if error.start > len(sample) - 4 else "latin-1"
    return "utf-8"


def _is_text(sample: bytes) -> bool:
    """True for a sample of text; in Latin-1, one with letters above 127 and no control characters."""
    encoding = _encoding(sample)
    if encoding == "latin-1":
        return not re.search(rb"[\x00-\x08\x0e-\x1f]", sample)
    return encoding == "utf-16" or b"\0" not in sample


@contextmanager
def _reader(file: IO[bytes], encoding: str, errors: str = "replace") -> Iterator[io.TextIOWrapper]:
    """A text reader for a binary file, which stays open."""
    reader = io.TextIOWrapper(file, encoding=encoding, errors=errors, newline="")
    try:
        yield reader
    finally:
        reader.detach()


def _text(file: IO[bytes], overlap: int, *, raw: bool) -> Iterator[Piece]:
    """Words of text with JSON and HTML escapes resolved; words inside tags are yielded separately."""
    encoding = "utf-8" if raw else _encoding(_sample(file))
    tail, rest = list[str](), ""
    with _reader(file, encoding, "ignore" if raw else "replace") as reader:
        while chunk := reader.read(CHUNK):
            chunk = rest + chunk
            # A word, an escape and an id are never cut in two, unless they have no end in sight.
            cut = max(map(chunk.rfind, " \n\t\0")) + 1 if len(chunk) < 8 * CHUNK else len(chunk)
            chunk, rest = chunk[:cut], chunk[cut:]
            yield from _words(chunk, tail, overlap)
        yield from _words(rest, tail, overlap)


def _words(chunk: str, tail: list[str], overlap: int) -> Iterator[Piece]:
    values = [text or number for key, text, number in _ID_IN_JSON.findall(chunk) if key in ID_COLUMNS]
    plain, tags = _words_without_escapes(chunk)
    if tags:
        yield Piece(tags)
    words = [*tail, *plain]
    yield Piece(words, len(tail), values)
    tail[:] = words[-overlap:]


def _words_without_escapes(text: str) -> tuple[list[str], list[str]]:
    """Words of a text with JSON and HTML escapes resolved, and the words inside tags."""
    if "\\" in text:
        text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else " ", text)
    tags = list[str]()
    if "<" in text:
        tags = [word for tag in _TAG.findall(text) for word in (*words_of(html.unescape(tag)), BREAK)]
        text = _TAG.sub(" ", text)
    return words_of(html.unescape(text) if "&" in text else text), tags


def _csv(file: IO[bytes], delimiter: str) -> Iterator[Piece]:
    """Rows of a CSV file; the first row is the header."""
    csv.field_size_limit(1 << 30)
    with _reader(file, _encoding(_sample(file))) as reader:
        rows = csv.reader((line.replace("\0", " ") for line in reader), delimiter=delimiter)
        try:
            header = next(rows, [])
            yield Piece(_join_cells(header))
            for row in rows:
                yield _row(zip([*header, *[""] * len(row)], row, strict=False))
        except csv.Error as error:
            raise UnreadableError(f"broken as CSV ({error}); the part before was searched") from error


def _join_cells(cells: Iterable[str]) -> list[str]:
    return [word for cell in cells for part in _words_without_escapes(cell) for word in (*part, BREAK)]


def _row(cells: Iterable[tuple[str, Any]]) -> Piece:
    """A row of a table: its texts, the values of its id columns, and its key, if it has one."""
    cells = list(cells)
    words = _join_cells(text for _, cell in cells for text in _leaves(cell))
    values = [text for name, cell in cells if name in ID_COLUMNS for text in _leaves(cell, numbers=True)]
    return Piece(words, 0, values, next((cell for name, cell in cells if name == "key"), None))


def _leaves(cell: Any, *, numbers: bool = False) -> Iterator[str]:
    """The texts in a cell, at any depth of nesting."""
    if isinstance(cell, str):
        yield cell
    elif isinstance(cell, bytes):
        yield cell.decode(errors="ignore")
    elif isinstance(cell, Mapping):
        for name, value in cell.items():
            yield from (str(name), *_leaves(value, numbers=numbers))
    elif isinstance(cell, list | tuple):
        for value in cell:
            yield from _leaves(value, numbers=numbers)
    elif numbers and isinstance(cell, int):
        yield str(cell)


def _parquet(path: Path) -> Iterator[Piece]:
    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            yield Piece(_join_cells(schema.names))
            textual = [field.name for field in schema if _has_text(field.type) or field.name in ID_COLUMNS]
            for batch in file.iter_batches(batch_size=512, columns=textual) if textual else ():
                yield from (_row(row.items()) for row in batch.to_pylist())
    except (pa.ArrowException, OSError) as error:
        raise UnreadableError(f"broken as Parquet ({str(error).splitlines()[0][:100]})") from error


def _has_text(kind: pa.DataType) -> bool:
    if any(kind.field(place) and _has_text(kind.field(place).type) for place in range(kind.num_fields)):
        return True
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(check(kind) for check in checks) or "view" in str(kind)


def _sqlite(path: Path) -> Iterator[Piece]:
    # Without a log, nothing is written beside the file; with one, its rows are only there through it.
    immutable = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{immutable}", uri=True)) as database:
            database.text_factory = lambda content: content.decode(errors="ignore")
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in tables:
                cursor = database.execute('SELECT * FROM "{}"'.format(table.replace('"', '""')))
                names = [column[0] for column in cursor.description]
                for row in cursor:
                    yield _row(zip(names, row, strict=True))
    except sqlite3.Error as error:
        raise UnreadableError(f"broken as SQLite ({error})") from error


def _archive_members(file: IO[bytes], name: str, overlap: int, depth: int) -> Iterator[Piece]:
    suffix = Path(name).suffix.lower()
    inner = name[: -len(suffix)]
    try:
        with PACKED[suffix](file, "rb") as unpacked:
            if inner.lower().endswith(".tar"):
                yield from _tar(unpacked, overlap, depth)
            else:
                yield from _stream(unpacked, inner, overlap, depth + 1)
    except (OSError, EOFError, lzma.LZMAError, ValueError) as error:
        raise UnreadableError(f"broken as {suffix} ({error})") from error


def _zip(file: IO[bytes], overlap: int, depth: int) -> Iterator[Piece]:
    unread = list[str]()
    try:
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                yield Piece(words_of(member.filename))
                if member.flag_bits & 1:
                    unread.append("an encrypted member")
                    continue
                with archive.open(member) as content:
                    yield from _member(content, member.filename, overlap, depth, unread)
    except (zipfile.BadZipFile, OSError, NotImplementedError, EOFError) as error:
        raise UnreadableError(f"broken as ZIP ({error})") from error
    _refuse_unread(unread)


def _tar(file: IO[bytes], overlap: int, depth: int) -> Iterator[Piece]:
    unread = list[str]()
    try:
        with tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                yield Piece(words_of(member.name))
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:  # in memory, since a stream cannot be gone back in
                    yield from _member(io.BytesIO(content.read()), member.name, overlap, depth, unread)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UnreadableError(f"broken as TAR ({error})") from error
    _refuse_unread(unread)


def _member(content: IO[bytes], name: str, overlap: int, depth: int, unread: list[str]) -> Iterator[Piece]:
    try:
        yield from _stream(content, name, overlap, depth + 1)
    except UnreadableError as error:
        unread.append(str(error))


def _refuse_unread(members: list[str]) -> None:
    if members:
        raise UnreadableError(f"{len(members)} members of the archive are not read: {members[0]}")
