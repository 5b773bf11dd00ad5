"""Rows of a table in CSV, TSV, JSONL, JSON, Parquet or Excel, one by one, each with its place in the file.

CSV, TSV and JSON may be packed by gzip (``notes.csv.gz``).

An unreadable row is yielded as a reason, not raised, so that one broken line does not hide the next. Problems of
the whole file (another encoding, a truncated Parquet file) raise a :class:`SourceError`.
"""

from __future__ import annotations

import csv
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from medunlearn.data.storage import refuse_large
from medunlearn.errors import SourceError, bullet_list, first_line
from medunlearn.input_files import regular_file, told_unreadable
from medunlearn.sources.excel import excel_rows
from medunlearn.sources.plug_ins import source_for
from medunlearn.sources.text_encodings import ending_of, open_text

Row = Mapping[str, Any]
Rows = Iterator[tuple[str, Row | str]]
LONGEST_CELL = 2**27  # characters
_LONGEST_LINE = 2**30  # characters of a row in JSONL
_SEPARATOR = re.compile(r'"?sep=(.)"?\s*')
_SPACE = re.compile(r"[ \t\n\r]*")
BROKEN = re.compile(r"[\ud800-\udfff\0]")
"""Half a character (a lone surrogate) or a zero byte: what wrote the file broke it."""


class LeftOut(str):
    """Reason why a document is left out by rule, in place of a row: it can be read, and is none that counts."""

    __slots__ = ()


class BadRowError(Exception):
    """Reason why a row is unusable; the reader adds the place."""


def list_bad_rows(rows: Sequence[tuple[str, str]], most: int = 20) -> str:
    """Place and reason of the first rows, one per line, and the number of further ones."""
    return bullet_list([f"{place}: {reason}" for place, reason in rows], most)


def refuse_bad_rows(
    rows: Sequence[tuple[str, str]], path: Path | str | None = None, *, skippable: bool = True
) -> None:
    """Refuse a file with unusable rows.

    Args:
        rows: place and reason of each; may be empty.
        skippable: True if the command supports --skip-bad-rows.

    Raises:
        SourceError: there are some.
    """
    if rows:
        source = f" of {path}" if path else ""
        remedy = ", or leave them out with --skip-bad-rows." if skippable else " and try again."
        raise SourceError(f"{len(rows)} rows{source} cannot be used:{list_bad_rows(rows)}\nCorrect them{remedy}")


def read_rows(path: Path) -> Rows:
    """Place (``notes.csv:12``) and content of each row; for an unreadable row the reason as text.

    Raises:
        SourceError: no such file, an unknown ending, or a broken file.
    """
    read = reader_of(path)
    if read is None:
        raise SourceError(f"{path}: notes are read from {', '.join(READERS)}. Save the file as one of these.")
    with told_unreadable(path, SourceError):
        try:
            yield from read(regular_file(path, SourceError))
        except (EOFError, zlib.error):
            raise SourceError(f"{path} is cut off or broken: its end cannot be unpacked.") from None


def column_names(files: Iterable[Path]) -> tuple[str, ...]:
    """Column names of files that form one table; JSON rows may omit columns.

    Raises:
        SourceError: as :func:`read_rows`.
    """
    names: dict[str, None] = {}
    for file in files:
        rows = (row for _, row in read_rows(file) if not isinstance(row, str))
        for row in islice(rows, 1) if reader_of(file) in (_csv, _parquet, excel_rows) else rows:
            names |= dict.fromkeys(row)
    return tuple(names)


def listed_cell(value: Any, column: str, what: str, between: str = ";") -> Sequence[Any]:
    """Entries of a cell: a list, a JSON list, or a text with separators; empty entries of a text are dropped.

    Args:
        between: separators, one character each.

    Raises:
        BadRowError: not a list.
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise BadRowError(f"has a list that is not JSON in {column!r}") from None
    elif isinstance(value, str):
        value = [part.strip() for part in re.split(f"[{between}]", value) if part.strip()]
    if value is None:
        return ()
    if not isinstance(value, Sequence):
        raise BadRowError(f"has no list of {what} in {column!r}")
    return value


def files_in(path: Path) -> tuple[Path, ...]:
    """A file, or the files of a folder that form one table, such as shards of a dataset.

    Raises:
        SourceError: a folder without tables, or with tables of several kinds.
    """
    if not path.is_dir():
        return (path,)
    files = sorted(file for file in path.iterdir() if file.is_file() and reader_of(file))
    kinds = sorted({ending_of(file) for file in files})
    if len(kinds) != 1:
        what = f"files of {', '.join(kinds)}: give one of them" if kinds else f"no file of {', '.join(READERS)}"
        raise SourceError(f"The folder {path} contains {what}.")
    return tuple(files)


def _csv(path: Path) -> Rows:
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        with open_text(path, newline="") as file:
            header = file.readline()
            # Excel writes the separator into a line before the header, and reads it there.
            declared = _SEPARATOR.fullmatch(header)
            header = file.readline() if declared else header
            delimiter = declared[1] if declared else _delimiter(path, header)
            lines = csv.reader(chain([header] if header else [], file), delimiter=delimiter, strict=True)
            yield from _lines_of(path, lines, above=1 if declared else 0)
    finally:
        csv.field_size_limit(before)


def _lines_of(path: Path, reader: Any, above: int) -> Rows:
    """Rows of a CSV reader; ``above`` is the number of lines before the header."""
    try:
        header = next(reader, None)
        if not header:
            raise SourceError(f"{path} is empty. Its first line must name the columns.")
        if twice := sorted({name for name in header if header.count(name) > 1}):
            raise SourceError(f"{path} has the column {twice[0]!r} twice. Rename one of them.")
        start = reader.line_num + 1 + above
        for cells in reader:
            place, start = f"{path.name}:{start}", reader.line_num + 1 + above
            if len(cells) == len(header):
                yield place, dict(zip(header, cells, strict=True))
            elif cells:
                yield place, f"has {len(cells)} cells, and the header {len(header)}"
    except csv.Error as error:
        # Where a quotation mark is wrong, nobody can say where the next row starts.
        raise SourceError(
            f"{path}:{reader.line_num + above}: not CSV ({error}). Correct the line and try again."
        ) from None


def _delimiter(path: Path, header: str) -> str:
    """The mark that divides most columns outside quotation marks."""
    plain = re.sub(r'"[^"]*"', "", header)
    return "\t" if ending_of(path) == ".tsv" else max(",;\t|", key=plain.count)


def _jsonl(path: Path) -> Rows:
    with open_text(path, newline="\n", western=False) as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), ""), start=1):
            if len(line) == _LONGEST_LINE:
                raise SourceError(f"{path}:{number}: a line of more than {_LONGEST_LINE:,} characters is no row.")
            if line.strip():
                yield f"{path.name}:{number}", _object(line)


def _object(line: str) -> Row | str:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        return f"no JSON ({error.msg} at column {error.colno}); a cut-off line?"
    except (ValueError, RecursionError):
        return "no JSON that can be read (a huge number, or nested too deep)"
    return row if isinstance(row, dict) else "a row must be an object with a key a column"


def _json(path: Path) -> Rows:
    if is_jsonl(path):
        yield from _jsonl(path)
        return
    try:
        with open_text(path, western=False) as file:
            yield from _items(path, file.read())
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}: no JSON ({error.msg} at column {error.colno})"
        raise SourceError(f"{where}. A file with one object per line is JSONL: give it that ending.") from None
    except RecursionError:
        raise SourceError(f"{path} is nested too deep to be a table.") from None
    except UnicodeDecodeError:
        raise
    except ValueError:
        raise SourceError(f"{path}: unreadable JSON (a huge number).") from None


def is_jsonl(path: Path) -> bool:
    """True if several lines contain an object each, as in MedMCQA, which was published with the ending of JSON."""
    with open_text(path, newline="\n", western=False) as file:
        lines = (line for line in file if line.strip())
        first = next(lines, "")
        if not first.lstrip().startswith("{") or isinstance(_object(first), str):
            return False
        return next(lines, "").lstrip().startswith("{")


def _items(path: Path, text: str) -> Rows:
    """The objects of a list, parsed one by one, to limit memory."""
    decoder, number, place = json.JSONDecoder(), 0, _past_space(text, 0)
    if text[place : place + 1] != "[":
        json.loads(text)
        raise SourceError(f"{path} must contain a list of objects, one per note.")
    place = _past_space(text, place + 1)
    closed = text[place : place + 1] == "]"
    while not closed:
        row, place = decoder.raw_decode(text, place)
        number, place = number + 1, _past_space(text, place)
        yield f"{path.name} row {number}", row if isinstance(row, dict) else "a row must be an object"
        closed = text[place : place + 1] == "]"
        if not closed:
            if text[place : place + 1] != ",":
                raise json.JSONDecodeError("Expecting ',' delimiter", text, place)
            place = _past_space(text, place + 1)
    place = _past_space(text, place + 1)
    if place < len(text):
        raise json.JSONDecodeError("Extra data", text, place)


def _past_space(text: str, place: int) -> int:
    space = _SPACE.match(text, place)
    return space.end() if space else place


def _parquet(path: Path) -> Rows:
    number = 0
    try:
        with pq.ParquetFile(path) as file:
            refuse_large(file, path, SourceError)
            for batch in file.iter_batches(batch_size=1024):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path.name} row {number}", row
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = first_line(error)
        raise SourceError(f"{path} cannot be read as Parquet ({reason}). It is truncated or broken.") from error


def reader_of(path: Path) -> Callable[[Path], Rows] | None:
    """The reader of a file by its ending: ours, else that of an installed source; None without one."""
    ending = ending_of(path)
    return READERS.get(ending) or (source_for(ending) if ending else None)


READERS: Mapping[str, Callable[[Path], Rows]] = {
    ".csv": _csv,
    ".tsv": _csv,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".json": _json,
    ".parquet": _parquet,
    ".xlsx": excel_rows,
    ".xlsm": excel_rows,
}
