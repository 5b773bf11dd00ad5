"""File contents as words, piece by piece: one reader for each format that medunlearn writes.

A file of any other format, such as an archive, is not read at all (:class:`UnreadableError`).
"""

from __future__ import annotations

import csv
import html
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from medunlearn.request.holders.traces import words_of

CHUNK = 1 << 20
BREAK = "endofcell"
"""A word between two cells, so that no phrase reaches over their border."""
ID_COLUMNS = frozenset({
    "record_id", "question_id", "item", "subject", "subject_id", "patient", "patient_id", "node", "probe_id",
    "document", "id", "case_id", "note_id", "hadm_id", "study_id", "record", "question",
})  # fmt: skip
TABLES = (".csv", ".tsv", ".parquet")
_TAG = re.compile(r"</?[A-Za-z!][^<>]*>")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrtbf\"/\\])")
_ID_IN_JSON = re.compile(r'"(\w+)"\s*:\s*(?:"([^"]*)"|(\d+))')
_BINARY = re.compile(r"[\x00-\x08\x0e-\x1a]")


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
        UnreadableError: broken, or of a format without a reader; readable pieces were yielded before.
        OSError: the disk or the system refuses.
    """
    suffix = path.suffix.lower() or path.name
    if suffix in READERS:
        yield from READERS[suffix](path, overlap)
    elif path.stat().st_size:
        raise UnreadableError(f"its format is not read ({path.suffix or 'no suffix'})")


def _read_text(path: Path, overlap: int) -> Iterator[Piece]:
    with _open_text(path) as text:
        yield from _running_words(_plain(_chunks(text)), overlap)


def _read_csv(path: Path, overlap: int) -> Iterator[Piece]:
    """Rows of a CSV file; the first row is the header."""
    csv.field_size_limit(1 << 30)
    with _open_text(path) as text:
        rows = csv.reader(_plain(text), delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        try:
            header = next(rows, [])
            yield Piece(_join_cells(header))
            for row in rows:
                yield _row(zip([*header, *[""] * len(row)], row, strict=False))
        except csv.Error as error:
            raise UnreadableError(f"broken as CSV ({error}); the part before was searched") from error


def _read_binary(path: Path, overlap: int) -> Iterator[Piece]:
    """Text among the bytes of a database: rows that were deleted stay in it."""
    with path.open(encoding="utf-8", errors="ignore", newline="") as text:
        yield from _running_words(_chunks(text), overlap)


def _read_tensors(path: Path, overlap: int) -> Iterator[Piece]:
    """The head of a safetensors file, which is JSON; numbers follow."""
    with path.open("rb") as file:
        size = min(int.from_bytes(file.read(8), "little"), 64 * CHUNK)
        yield from _running_words([file.read(size).decode(errors="ignore")], overlap)


def _open_text(path: Path) -> TextIO:
    """Open text in UTF-8, in UTF-16 with a byte order mark, or else in Latin-1."""
    with path.open("rb") as file:
        sample = file.read(CHUNK)
    encoding = "utf-16" if sample.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8"
    try:
        sample.decode(encoding)
    except UnicodeDecodeError as error:
        if error.start < len(sample) - 4:  # else a character is cut at the sample's end
            encoding = "latin-1"
    return path.open(encoding=encoding, errors="replace", newline="")


def _chunks(text: TextIO) -> Iterator[str]:
    while chunk := text.read(CHUNK):
        yield chunk


def _plain(parts: Iterable[str]) -> Iterator[str]:
    """Parts of a text, as long as they are plain text."""
    for part in parts:
        yield part
        if _BINARY.search(part):
            raise UnreadableError("it is no plain text, or broken; the part before was searched")


def _running_words(chunks: Iterable[str], overlap: int) -> Iterator[Piece]:
    """Words of running text, with those inside tags in pieces of their own."""
    tail, rest = list[str](), ""
    for chunk in chunks:
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


def _read_parquet(path: Path, overlap: int) -> Iterator[Piece]:
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


def _read_sqlite(path: Path, overlap: int) -> Iterator[Piece]:
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
    yield from _read_binary(path, overlap)


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


_PLAIN = (
    *(".txt", ".md", ".html", ".htm", ".json", ".jsonl", ".ndjson", ".yaml", ".yml", ".log", ".jinja", ".tex"),
    *(".svg", ".xml", ".rst", ".toml", ".cfg", ".ini", ".py", ".sh", ".sql", ".js", ".css", ".pem", ".key", ".pub"),
    ".lock",
)
READERS: Mapping[str, Callable[[Path, int], Iterator[Piece]]] = {
    **dict.fromkeys(_PLAIN, _read_text),
    **dict.fromkeys((".csv", ".tsv"), _read_csv),
    ".parquet": _read_parquet,
    ".safetensors": _read_tensors,
    ".sqlite": _read_sqlite,
    # The rows in these are read through the database that they belong to.
    **dict.fromkeys((".sqlite-wal", ".sqlite-shm", ".sqlite-journal"), _read_binary),
}
"""Suffix, or name of a file without one -> reader."""
