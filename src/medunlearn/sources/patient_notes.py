"""Clinical notes with patients, dates and other columns, recognised by name or named by the user.

Messages contain no patient ids and no text, only a row's place in the file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

from medunlearn.errors import ConfigError, SourceError, unknown_name
from medunlearn.sources.note_files import NoteFile, NoteForm, open_notes
from medunlearn.sources.notes import PMC_UID
from medunlearn.sources.table_files import BROKEN, BadRowError, Row, refuse_bad_rows

_NAMES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "patient": (
        ("patient_id", "subject_id", "patient", "subject", "person_id", "patient_number", "pat_id", "pid"),
        ("mrn", "medical_record_number", "record_number"),
    ),
    "text": (
        ("note_text", "note", "clinical_note", "text", "note_content", "content", "document_text", "document"),
        ("report", "report_text", "body", "letter", "narrative", "summary", "discharge_summary"),
    ),
    "id": (("note_id", "document_id", "record_id", "report_id"), ("id", "row_id", "uid")),
    "date": (
        ("note_date", "date", "charttime", "chartdate", "datetime", "timestamp"),
        ("visit_date", "service_date", "admission_date", "admittime", "created"),
    ),
    "holdout": ((),),
}
"""Usual names of each column, the likeliest first; two of one row at once are for the user to choose from."""
PMC_COLUMNS = {"patient": "patient_uid", "text": "patient", "id": "patient_uid"}
_YES = frozenset(("1", "1.0", "true", "yes", "y", "holdout", "held out", "nonmember", "non-member", "test"))
_NO = frozenset(("", "0", "0.0", "false", "no", "n", "train", "member"))

NO_PATIENT, NO_TEXT = "without a patient's id", "without text"
TWICE = "with the same text as another of the same patient"
UNREADABLE = "in rows that cannot be read"


@dataclass(frozen=True, slots=True)
class NoteFields:
    """Column of each field; None for a missing one, or in settings for one to be detected.

    Attributes:
        holdout: column that marks notes excluded from training.
    """

    patient: str | None = None
    text: str | None = None
    id: str | None = None
    date: str | None = None
    holdout: str | None = None


@dataclass(frozen=True, slots=True)
class PatientNote:
    """One note.

    Attributes:
        note_id: unique among the notes of a file.
        patient: id in the file; a whole number has no decimal point.
        date: date in the file, as ISO 8601 if it is a date; empty without one.
        values: the other columns, as text, without empty cells.
        held_out: True if it is excluded from training.
    """

    note_id: str
    patient: str
    text: str = field(repr=False)
    date: str = ""
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    held_out: bool = False


@dataclass(frozen=True)
class PatientNotes:
    """Notes in the file's order.

    Attributes:
        columns: every column of the file.
        excluded: number of excluded notes, by reason.
        bad_rows: place and reason of unreadable rows.
        patients: all patients in the rows, even those with all notes excluded.
        is_open: a published collection, recognised by its columns.
    """

    notes: tuple[PatientNote, ...]
    files: tuple[Path, ...]
    form: NoteForm
    fields: NoteFields
    columns: tuple[str, ...]
    excluded: Mapping[str, int]
    bad_rows: tuple[tuple[str, str], ...]
    patients: frozenset[str] = field(repr=False)
    is_open: bool = False


def read_patient_notes(
    where: Path | str,
    named: NoteFields | None = None,
    *,
    required: Iterable[tuple[str, str]] = (),
    skip_bad_rows: bool = False,
    held_out: bool = False,
) -> PatientNotes:
    """Read notes row by row.

    Args:
        named: columns named by the user.
        required: further required columns, each with the flag that names it.
        skip_bad_rows: skip unreadable rows instead of refusing the file. Notes without text or patient, and copies,
            are always skipped and counted.
        held_out: mark all notes as excluded from training.

    Raises:
        ConfigError: missing or ambiguous columns, all at once; lists existing ones.
        SourceError: the file cannot be read, or has no usable note.
    """
    file = open_notes(where)
    columns = _choose(file, named or NoteFields(), required)
    notes: dict[tuple[str, bytes], PatientNote] = {}
    excluded: Counter[str] = Counter()
    bad: list[tuple[str, str]] = []
    patients: set[str] = set()
    for number, (place, row) in enumerate(file.rows, start=1):
        try:
            note = _note(row, columns, number, held_out)
        except BadRowError as error:
            bad.append((place, str(error)))
            continue
        if note.patient:
            patients.add(note.patient)
        key = (note.patient, text_key(note.text))
        if not note.patient:
            excluded[NO_PATIENT] += 1
        elif not note.text.strip():
            excluded[NO_TEXT] += 1
        elif key in notes:
            excluded[TWICE] += 1
        else:
            notes[key] = note
    if not skip_bad_rows:
        refuse_bad_rows(bad, file.files[0])
    if bad:
        excluded[UNREADABLE] = len(bad)
    if not notes:
        raise _no_usable_note(where, file, excluded)
    return PatientNotes(
        tuple(_with_own_ids(list(notes.values()))),
        file.files,
        file.form,
        columns,
        file.columns,
        dict(excluded),
        tuple(bad),
        frozenset(patients),
        is_open=_is_published(file.form, patients),
    )


def _no_usable_note(where: Path | str, file: NoteFile, excluded: Mapping[str, int]) -> SourceError:
    counts = ", ".join(f"{n:,} {reason}" for reason, n in excluded.items())
    hint = f" It has one column, {file.columns[0]!r}: is another character between its cells?"
    return SourceError(f"{where} holds no usable note ({counts}).{hint if len(file.columns) == 1 else ''}")


def _is_published(form: NoteForm, patients: Iterable[str]) -> bool:
    return form == "Open-i" or (form == "PMC-Patients" and all(map(PMC_UID.fullmatch, patients)))


def _choose(file: NoteFile, named: NoteFields, required: Iterable[tuple[str, str]]) -> NoteFields:
    problems: list[str] = []
    columns: dict[str, str] = {}
    names = file.columns
    listing = f"There are: {', '.join(names)}."
    for entry in fields(NoteFields):
        user_column, flag = getattr(named, entry.name), f"--{entry.name}-column"
        usual = _usual(entry.name, file)
        if user_column is not None and user_column not in names:
            problems.append(f"{flag}: {unknown_name('column', user_column, names)}")
        elif user_column is not None:
            columns[entry.name] = user_column
        elif usual and len(usual) > 1 and entry.name in ("patient", "text"):
            problems.append(f"{flag}: which column is it? {' and '.join(usual)} could both be.")
        elif usual:
            columns[entry.name] = usual[0]
        elif entry.name in ("patient", "text"):
            what = "the patient's id" if entry.name == "patient" else "the note"
            problems.append(f"{flag}: name the column that holds {what}. {listing}")
    text = columns.get("text")
    for flag, name in dict.fromkeys(required):
        if name not in names:
            problems.append(f"{flag}: {unknown_name('column', name, names)}")
        elif name == text:
            problems.append(f"{flag}: {name!r} is the note itself")
    problems += [
        f"--{key}-column: {text!r} is the note itself" for key in columns if key != "text" and columns[key] == text
    ]
    if problems and len(names) == 1:
        problems.append("the file has one column: is another character between its cells than its ending says?")
    if problems:
        raise ConfigError(problems)
    return NoteFields(**columns)


def _usual(entry: str, file: NoteFile) -> list[str]:
    """Columns of the file with a usual name, only of the likeliest names."""
    if file.form == "PMC-Patients":
        return [PMC_COLUMNS[entry]] if entry in PMC_COLUMNS else []
    for names in _NAMES[entry]:
        order = [_plain(name) for name in names]
        matches = sorted((c for c in file.columns if _plain(c) in order), key=lambda c: order.index(_plain(c)))
        if matches:
            return matches
    return []


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


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

    return PatientNote(
        value_in(columns.id) or f"note-{number}",
        value_in(columns.patient),
        text,
        value_in(columns.date),
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
