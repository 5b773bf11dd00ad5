"""A user's own notes: a table with one note per row, and user-named columns.

PMC-Patients-V2 is recognised by its fields. Its patients are ``patient_uid``s: several patients of an article are
different people.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import Any

from medunlearn.data.records import Identifier
from medunlearn.errors import ConfigError, SourceError, unknown_name
from medunlearn.sources.table_files import (
    BROKEN,
    BadRowError,
    Row,
    column_names,
    listed_cell,
    read_rows,
    refuse_bad_rows,
)

PMC_FIELDS = frozenset(("patient_id", "patient_uid", "PMID", "title", "patient"))
PMC_UID = re.compile(r"\d+-\d+")


@dataclass(frozen=True, slots=True)
class NoteColumns:
    """Column of each field; None for a missing one.

    Without ``id``, notes are named ``note-1``, ``note-2``, ... by row; without ``subject``, every note has its own
    subject. ``title`` is a sentence on the note's topic, ``disease`` an existing label, ``identifiers`` a list or
    values separated by ``;``, ``copies`` the number of copies of the text in a training set.
    """

    id: str | None = None
    text: str | None = None
    title: str | None = None
    subject: str | None = None
    disease: str | None = None
    identifiers: str | None = None
    copies: str | None = None


PMC = NoteColumns(id="patient_uid", text="patient", title="title", subject="patient_uid")


@dataclass(frozen=True, slots=True)
class Note:
    """One note; ``title`` and ``disease`` may be empty, ``identifiers`` and ``copies`` None if unknown.

    ``values``: column -> its text in the row, for the requested columns.
    """

    note_id: str
    text: str
    subject: str
    title: str = ""
    disease: str = ""
    identifiers: tuple[Identifier, ...] | None = None
    copies: int | None = None
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Notes:
    """Notes in file order, (place, reason) of skipped rows, and the columns read.

    ``is_pmc``: the file is PMC-Patients-V2, which is open.
    """

    notes: tuple[Note, ...]
    excluded: tuple[tuple[str, str], ...]
    columns: NoteColumns
    is_pmc: bool


def read_notes(
    path: Path | Sequence[Path],
    user_columns: NoteColumns | None = None,
    *,
    values: Sequence[str] = (),
    skip_bad_rows: bool = False,
) -> Notes:
    """Read notes.

    Args:
        path: a file, or several that form one table (:func:`~medunlearn.sources.hub.files_of`).
        user_columns: columns named by the user; a field with None uses its own name.
        values: further columns to read.
        skip_bad_rows: skip and list unusable rows instead of refusing the file.

    Raises:
        ConfigError: missing columns, all at once, each with the nearest name.
        SourceError: the file cannot be read, or rows are unusable; gives the place of each.
    """
    user_columns = user_columns or NoteColumns()
    files = [path] if isinstance(path, Path) else list(path)
    path, names, number = files[0], column_names(files), 0
    columns, is_pmc = _choose(user_columns, names) if names else (user_columns, False)
    notes: dict[str, Note] = {}
    places: dict[str, str] = {}
    excluded: list[tuple[str, str]] = []
    for number, (place, row) in enumerate(chain.from_iterable(map(read_rows, files)), start=1):
        is_pmc = is_pmc and (isinstance(row, str) or bool(PMC_UID.fullmatch(str(row.get("patient_uid")))))
        try:
            note = _note(row, columns, number, values)
            if note.note_id in notes:
                raise BadRowError(f"has the id of {places[note.note_id]}: {note.note_id!r}")
        except BadRowError as error:
            excluded.append((place, str(error)))
        else:
            notes[note.note_id], places[note.note_id] = note, place
    if not number:
        raise SourceError(f"{path} has no rows.")
    if not skip_bad_rows:
        refuse_bad_rows(excluded, path)
    if not notes:
        raise SourceError(f"{path} has no usable note.")
    return Notes(tuple(notes.values()), tuple(excluded), columns, is_pmc)


def _choose(user_columns: NoteColumns, names: Sequence[str]) -> tuple[NoteColumns, bool]:
    """The columns to read, and whether they are PMC-Patients-V2's."""
    note_fields = {
        field.name: getattr(user_columns, field.name)
        for field in fields(NoteColumns)
        if getattr(user_columns, field.name)
    }
    problems = [
        f"--{flag}: {unknown_name('column', column, names)}"
        for flag, column in note_fields.items()
        if column not in names
    ]
    is_pmc = PMC_FIELDS.issubset(names) and note_fields.get("text", PMC.text) == PMC.text
    usual = {field.name: getattr(PMC, field.name) if is_pmc else field.name for field in fields(NoteColumns)}
    columns = {
        flag: column for flag, column in {**usual, **note_fields}.items() if column is not None and column in names
    }
    if "text" not in columns and "text" not in note_fields:
        problems.append(f"--text: {unknown_name('column', 'text', names)} Name the column that holds the note.")
    if problems:
        raise ConfigError(problems)
    return NoteColumns(**columns), is_pmc


def _note(row: Row | str, columns: NoteColumns, number: int, values: Sequence[str]) -> Note:
    if isinstance(row, str):
        raise BadRowError(row)
    note_id = _name(row, columns.id) if columns.id else f"note-{number}"
    text = _text(row, columns.text)
    if not text.strip():
        raise BadRowError(f"has no text in {columns.text!r}")
    return Note(
        note_id,
        text,
        _name(row, columns.subject) if columns.subject else note_id,
        _text(row, columns.title).strip(),
        _text(row, columns.disease).strip(),
        _identifiers(row, columns.identifiers) if columns.identifiers else None,
        _copies(row, columns.copies) if columns.copies else None,
        {name: "" if row.get(name) is None else str(row[name]).strip() for name in values},
    )


def _name(row: Row, column: str) -> str:
    value = row.get(column)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    name = _text(row, column).strip()
    if not name:
        raise BadRowError(f"has nothing in {column!r}")
    return name


def _text(row: Row, column: str | None) -> str:
    value = row.get(column) if column else None
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRowError(f"has a {type(value).__name__} instead of text in {column!r}")
    if BROKEN.search(value):
        raise BadRowError(f"has half a character or a zero byte in {column!r}; what wrote the file broke it")
    return value


def _copies(row: Row, column: str) -> int | None:
    """A whole number, given as number, text or float; None for an empty cell."""
    value = row.get(column)
    if value is None or value == "" or value != value:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if isinstance(value, bool) or not number.is_integer() or number < 0:
        raise BadRowError(f"has no whole number of copies in {column!r}")
    return int(number)


def _identifiers(row: Row, column: str) -> tuple[Identifier, ...]:
    return tuple(_identifier(entry, column) for entry in listed_cell(row.get(column), column, "identifiers"))


def _identifier(entry: Any, column: str) -> Identifier:
    if isinstance(entry, str | int) and not isinstance(entry, bool):
        entry = {"type": "identifier", "value": str(entry)}
    if not isinstance(entry, Mapping) or not all(isinstance(entry.get(key), str) for key in ("type", "value")):
        raise BadRowError(f"has an identifier that is neither a text nor a type with a value in {column!r}")
    if not entry["value"].strip():
        raise BadRowError(f"has an empty identifier in {column!r}")
    return Identifier(entry["type"], entry["value"])
