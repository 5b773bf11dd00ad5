"""Clinical notes in hospital formats as rows: tables, FHIR, folders of text files, hub data sets.

A folder of text files has one subfolder per patient; a file outside of subfolders is its own patient.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from medunlearn.errors import SourceError
from medunlearn.input_files import path_text, read_text, regular_file
from medunlearn.sources.corpus import OPENI_FIELDS, openi_text, text_files_in
from medunlearn.sources.fhir_notes import fhir_rows, is_fhir
from medunlearn.sources.hub import PREFIX, files_of
from medunlearn.sources.notes import PMC_FIELDS
from medunlearn.sources.table_files import Row, Rows, column_names, read_rows

NoteForm = Literal["table", "FHIR", "text files", "PMC-Patients", "Open-i"]
_DAY = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)")


@dataclass(frozen=True)
class NoteFile:
    """Rows of one source of notes, to be read once.

    Attributes:
        files: source files.
        columns: columns of all readable rows.
        rows: place and content of each row; for an unreadable row the reason as text.
    """

    files: tuple[Path, ...]
    form: NoteForm
    columns: tuple[str, ...]
    rows: Rows


def open_notes(where: Path | str) -> NoteFile:
    """Open a file or folder of notes, or ``hub:org/name``.

    Raises:
        SourceError: nothing there, an unknown format, or no readable row.
        HubError: the hub cannot be reached.
    """
    text = where if isinstance(where, str) else where.as_posix()
    path = Path(text)
    if not text.startswith(PREFIX):
        if not path.exists():
            raise SourceError(f"There is no file or folder {path}.")
        if texts := text_files_in(path):
            return _open_files(
                tuple(texts), "text files", _text_rows(path if path.is_dir() else path.parent, texts)
            )
    files = files_of(text)
    if all(file.suffix.lower() == ".json" and _holds_object(file) for file in files):
        return _open_files(files, "FHIR", fhir_rows(chain.from_iterable(map(_resources, files))))
    rows = chain.from_iterable(read_rows(file) for file in files)
    early, first = _until_readable(rows)
    rows = chain(early, rows)
    if is_fhir(first):
        return _open_files(files, "FHIR", _fhir_lines(rows))
    if first.keys() >= OPENI_FIELDS:
        return _open_files(files, "Open-i", (_openi_row(row) for row in rows))
    form: NoteForm = "PMC-Patients" if first.keys() >= PMC_FIELDS else "table"
    return NoteFile(files, form, column_names(files), rows)


def _open_files(files: tuple[Path, ...], form: NoteForm, rows: Rows) -> NoteFile:
    early, first = _until_readable(rows)
    return NoteFile(files, form, tuple(first), chain(early, rows))


def _until_readable(rows: Rows) -> tuple[list[tuple[str, Row | str]], Row]:
    """The rows up to and including the first readable one.

    Raises:
        SourceError: there is none.
    """
    early = []
    for place, row in rows:
        early.append((place, row))
        if not isinstance(row, str):
            return early, row
    reason = f": {early[0][0]} {early[0][1]}" if early else ""
    raise SourceError(f"The notes hold no row that can be read{reason}.")


def _text_rows(folder: Path, files: Sequence[Path]) -> Rows:
    for number, file in enumerate(files, start=1):
        # A file's name may be a patient's: its place is its number in the order of names.
        place, name = f"text file {number}", file.relative_to(folder).with_suffix("")
        try:
            text = read_text(file, SourceError)
        except SourceError:
            yield place, "is no text in UTF-8, or too large"
            continue
        day = _DAY.search(name.name)
        yield (
            place,
            {
                "patient_id": path_text(Path(name.parts[0])),
                "note_id": path_text(name),
                "date": day[0] if day else "",
                "note": text,
            },
        )


def _holds_object(path: Path) -> bool:
    """True if a JSON file begins with an object, not a list."""
    try:
        with regular_file(path, SourceError).open(encoding="utf-8-sig", errors="replace") as file:
            return file.read(4096).lstrip()[:1] == "{"
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}.") from None


def _resources(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        content = json.loads(read_text(path, SourceError))
    except (ValueError, RecursionError) as error:
        line = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise SourceError(f"{path} cannot be read as JSON{line}. It is truncated or broken.") from None
    if not is_fhir(content):
        raise SourceError(f"{path} must contain a list of objects, one per note, or a FHIR resource or Bundle.")
    yield path.name, content


def _fhir_lines(rows: Rows) -> Rows:
    """Rows of a bulk export; lines that are not resources are passed through."""
    resources: list[tuple[str, Mapping[str, Any]]] = []
    for place, row in rows:
        if isinstance(row, str):
            yield place, row
        elif is_fhir(row):
            resources.append((place, row))
        else:
            yield place, "is no FHIR resource"
    yield from fhir_rows(resources)


def _openi_row(item: tuple[str, Row | str]) -> tuple[str, Row | str]:
    place, row = item
    if isinstance(row, str):
        return place, row
    rest = {name: row[name] for name in ("MeSH", "Problems", "image") if name in row}
    return place, {"patient_id": row.get("uid"), "note": openi_text(row), **rest}
