"""Clinical notes with patients, dates, identifiers and other columns: the one reader of every command.

Columns are recognised by name or named by the user. Messages contain no patient ids and no text, only the place of
a row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

from medunlearn.data.records import Identifier
from medunlearn.errors import SourceError
from medunlearn.sources.note_fields import NoteFields, choose_columns
from medunlearn.sources.note_forms import NoteFile, open_notes
from medunlearn.sources.table_files import BROKEN, BadRowError, LeftOut, Row, listed_cell, refuse_bad_rows

PMC_UID = re.compile(r"\d+-\d+")
_YES = frozenset(("1", "1.0", "true", "yes", "y", "holdout", "held out", "nonmember", "non-member", "test"))
_NO = frozenset(("", "0", "0.0", "false", "no", "n", "train", "member"))
_WHOLE = re.compile(r"\d+(?:\.0+)?")

NO_PATIENT, NO_TEXT = "without a patient's id", "without text"
TWICE = "with the same text as another of the same patient"
UNREADABLE = "in rows that cannot be read"


@dataclass(frozen=True, slots=True)
class PatientNote:
    """One note, or another text.

    Attributes:
        note_id: unique among the notes of a file.
        patient: id in the file, its own id if unknown; a whole number has no decimal point.
        date: date in the file, as ISO 8601 if it is a date; empty without one.
        title, disease: empty without one.
        identifiers: those listed; None if there is no list.
        copies: number of copies of the text in a training set; None if unknown.
        values: the other columns, as text, without empty cells.
        held_out: True if it is excluded from training.
    """

    note_id: str
    text: str = field(repr=False)
    patient: str
    date: str = ""
    title: str = ""
    disease: str = ""
    identifiers: tuple[Identifier, ...] | None = None
    copies: int | None = None
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    held_out: bool = False


@dataclass(frozen=True)
class PatientNotes:
    """Notes in the file's order.

    Attributes:
        fields: the columns read.
        columns: every column of the file.
        left_out: place and reason of notes that are left out by rule, without text or patient, or copies.
        bad_rows: place and reason of unreadable rows.
        patients: all patients in the rows, even those with all notes excluded.
        is_open: a published collection, recognised by its columns.
    """

    notes: tuple[PatientNote, ...]
    files: tuple[Path, ...]
    form: str
    fields: NoteFields
    columns: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    bad_rows: tuple[tuple[str, str], ...]
    patients: frozenset[str] = field(repr=False)
    is_open: bool = False

    @property
    def excluded(self) -> dict[str, int]:
        """Number of excluded notes, by reason."""
        return _count(self.left_out, self.bad_rows)

    @property
    def is_pmc(self) -> bool:
        """True for PMC-Patients, as its authors published it."""
        return self.is_open and self.form == "PMC-Patients"


def _count(left_out: Iterable[tuple[str, str]], bad: Sequence[object]) -> dict[str, int]:
    return {**Counter(reason for _, reason in left_out), **({UNREADABLE: len(bad)} if bad else {})}


def read_patient_notes(
    where: Path | str,
    named: NoteFields | None = None,
    *,
    required: Iterable[tuple[str, str]] = (),
    skip_bad_rows: bool = False,
    held_out: bool = False,
    needs_patient: bool = True,
) -> PatientNotes:
    """Read notes row by row.

    Args:
        named: columns named by the user.
        required: further required columns, each with the flag that names it.
        skip_bad_rows: skip unreadable rows instead of refusing the file. Notes without text or patient, notes
            entered in error or superseded, and copies, are always skipped and counted.
        held_out: mark all notes as excluded from training.
        needs_patient: False if without a column of patients each text is its own subject.

    Raises:
        ConfigError: missing or ambiguous columns, all at once; lists existing ones.
        SourceError: the file cannot be read, or has no usable note.
    """
    named = named or NoteFields()
    file = open_notes(where, text_column=named.text)
    columns = choose_columns(file, named, required, needs_patient)
    rows: list[tuple[str, PatientNote]] = []
    left_out: list[tuple[str, str]] = []
    bad: list[tuple[str, str]] = []
    for number, (place, row) in enumerate(file.rows, start=1):
        try:
            if isinstance(row, LeftOut):
                left_out.append((place, row))
            else:
                rows.append((place, _note(row, columns, number, held_out)))
        except BadRowError as error:
            bad.append((place, str(error)))
    rows = _without_point_zero(rows)
    notes: dict[tuple[str, bytes], PatientNote] = {}
    for place, note in rows:
        key = (note.patient, text_key(note.text))
        reason = NO_PATIENT if not note.patient else NO_TEXT if not note.text.strip() else TWICE
        if reason is TWICE and key not in notes:
            notes[key] = note
        else:
            left_out.append((place, reason))
    if not skip_bad_rows:
        refuse_bad_rows(bad, where)
    if not notes:
        raise _no_usable_note(where, file, _count(left_out, bad))
    patients = frozenset(note.patient for _, note in rows if note.patient)
    is_pmc = columns.patient == file.form.columns.get("patient") and all(map(PMC_UID.fullmatch, patients))
    unique = _with_own_ids(list(notes.values()))
    return PatientNotes(
        tuple(unique if columns.patient else (replace(note, patient=note.note_id) for note in unique)),
        file.files,
        file.form.name,
        columns,
        file.columns,
        tuple(left_out),
        tuple(bad),
        patients,
        is_open=file.form.is_open and (is_pmc or not file.form.columns),
    )


def _no_usable_note(where: Path | str, file: NoteFile, excluded: Mapping[str, int]) -> SourceError:
    counts = ", ".join(f"{n:,} {reason}" for reason, n in excluded.items())
    hint = f" It has one column, {file.columns[0]!r}: is another character between its cells?"
    return SourceError(f"{where} holds no usable note ({counts}).{hint if len(file.columns) == 1 else ''}")


def _note(row: Row | str, columns: NoteFields, number: int, held_out: bool) -> PatientNote:
    if isinstance(row, str):
        raise BadRowError(row)
    text = row.get(str(columns.text))
    if text is not None and text == text and not isinstance(text, str):
        raise BadRowError(f"has a {type(text).__name__} instead of text in {columns.text!r}")
    text = text if isinstance(text, str) else ""
    if BROKEN.search(text):
        raise BadRowError(f"has half a character or a zero byte in {columns.text!r}; what wrote the file broke it")
    values = {name: _cell(value) for name, value in row.items() if name != columns.text}

    def value_in(column: str | None) -> str:
        # A table may have a column without a name, as pandas writes its index.
        return "" if column is None else values.get(column, "")

    note_id = value_in(columns.id) or f"note-{number}"
    return PatientNote(
        note_id,
        text,
        value_in(columns.patient) if columns.patient else note_id,
        value_in(columns.date),
        text.strip() if columns.title == columns.text else value_in(columns.title),
        value_in(columns.disease),
        None if columns.identifiers is None else _identifiers(row.get(columns.identifiers), columns.identifiers),
        _copies(row, columns.copies) if columns.copies else None,
        {name: value for name, value in values.items() if value},
        held_out or (columns.holdout is not None and _is_yes(value_in(columns.holdout), columns.holdout)),
    )


def _cell(value: Any) -> str:
    """A cell as text: whole floats without decimals, midnight dates without time; empty for nested values."""
    if value is None or isinstance(value, list | dict | bytes) or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, date):
        value = value.isoformat().removesuffix("T00:00:00")
    return BROKEN.sub("", str(value)).strip()


def _is_yes(value: str, column: str) -> bool:
    word = value.lower()
    if word not in _YES | _NO:
        raise BadRowError(f"is neither yes nor no (1 or 0, holdout or train) in {column!r}")
    return word in _YES


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


def _identifiers(value: Any, column: str) -> tuple[Identifier, ...]:
    return tuple(_identifier(entry, column) for entry in listed_cell(value, column, "identifiers"))


def _identifier(entry: Any, column: str) -> Identifier:
    if isinstance(entry, str | int) and not isinstance(entry, bool):
        entry = {"type": "identifier", "value": str(entry)}
    if not isinstance(entry, Mapping) or not all(isinstance(entry.get(key), str) for key in ("type", "value")):
        raise BadRowError(f"has an identifier that is neither a text nor a type with a value in {column!r}")
    if not entry["value"].strip():
        raise BadRowError(f"has an empty identifier in {column!r}")
    return Identifier(entry["type"], entry["value"])


def _without_point_zero(rows: list[tuple[str, PatientNote]]) -> list[tuple[str, PatientNote]]:
    """Ids as whole numbers where a column holds nothing else: spreadsheets write 4711 as 4711.0."""
    for name in ("patient", "note_id"):
        ids = {getattr(note, name) for _, note in rows} - {""}
        if any("." in own for own in ids) and all(map(_WHOLE.fullmatch, ids)):
            whole = {own: own.partition(".")[0] for own in ids}
            rows = [(place, replace(n, **{name: whole.get(getattr(n, name), "")})) for place, n in rows]
    return rows


def join_persons(notes: Iterable[PatientNote], joined: Mapping[str, str]) -> tuple[PatientNote, ...]:
    """The notes with one id for each person; ``joined`` is id -> the id that stands for it."""
    return tuple(replace(note, patient=joined.get(note.patient, note.patient)) for note in notes)


def text_key(text: str) -> bytes:
    """Hash of a text, ignoring white space."""
    return sha256(" ".join(text.split()).encode()).digest()


def _with_own_ids(notes: Sequence[PatientNote]) -> Iterable[PatientNote]:
    """Make duplicate ids unique by numbering them: ``17``, ``17#2``."""
    ids = {note.note_id for note in notes}
    earlier: Counter[str] = Counter()
    for note in notes:
        earlier[note.note_id] += 1
        number = earlier[note.note_id]
        if number == 1:
            yield note
            continue
        while (unique_id := f"{note.note_id}#{number}") in ids:
            number += 1
        ids.add(unique_id)
        yield replace(note, note_id=unique_id)
