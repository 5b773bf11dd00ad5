"""Columns of notes: found by their usual names, or named by the user."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from medunlearn.config.clinical_notes import NoteColumnFields
from medunlearn.errors import ConfigError, unknown_name
from medunlearn.sources.note_forms import NoteFile

_NAMES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "patient": (
        ("patient_id", "subject_id", "patient", "subject", "person_id", "patient_number", "pat_id", "pid"),
        ("mrn", "medical_record_number", "record_number"),
    ),
    "text": (
        ("note_text", "note", "clinical_note", "text", "note_content", "content", "document_text", "document"),
        ("report", "report_text", "body", "letter", "narrative", "summary", "discharge_summary"),
        ("abstract", "article"),
    ),
    "id": (("note_id", "document_id", "record_id", "report_id"), ("id", "row_id", "uid")),
    "date": (
        ("note_date", "date", "chartdate", "charttime", "datetime", "timestamp"),
        ("visit_date", "service_date", "admission_date", "admittime", "created"),
    ),
    "title": (("title", "note_title"),),
    "disease": (("disease",),),
    "copies": (("copies",),),
    "identifiers": (("identifiers",),),
    "holdout": ((),),
}
"""Usual names of each column, the likeliest first; two of one row at once are for the user to choose from."""
_AMBIGUOUS = ("patient", "text")


@dataclass(frozen=True, slots=True)
class NoteFields:
    """Column of each field; None for a missing one, or in settings for one to be detected.

    Attributes:
        patient: whose note it is; a patient, or another subject.
        title: a sentence on the note's topic.
        disease: an existing label.
        copies: number of copies of the text in a training set.
        identifiers: a list of identifiers, or a text with ``;`` between them.
        holdout: column that marks notes excluded from training.
    """

    patient: str | None = None
    text: str | None = None
    id: str | None = None
    date: str | None = None
    title: str | None = None
    disease: str | None = None
    copies: str | None = None
    identifiers: str | None = None
    holdout: str | None = None

    @staticmethod
    def of_settings(settings: NoteColumnFields) -> NoteFields:
        """The columns that a command's settings name; lists of identifiers are found by their name alone."""
        named = {name: getattr(settings, f"{name}_column", None) for name in NoteFields.__slots__}
        return NoteFields(**named)


def choose_columns(
    file: NoteFile, named: NoteFields, required: Iterable[tuple[str, str]], needs_patient: bool
) -> NoteFields:
    """The columns to read.

    Args:
        required: further required columns, each with the flag that names it.
        needs_patient: False if there may be no column of patients.

    Raises:
        ConfigError: missing or ambiguous columns, all at once; lists existing ones.
    """
    problems: list[str] = []
    columns: dict[str, str] = {}
    names = file.columns
    listing = f"There are: {', '.join(names)}."
    needed = {"text": "the note", **({"patient": "the patient's id"} if needs_patient else {})}
    for entry in fields(NoteFields):
        user_column, flag = getattr(named, entry.name), f"--{entry.name}-column"
        usual = _usual(entry.name, file)
        if user_column is not None and user_column not in names:
            problems.append(f"{flag}: {unknown_name('column', user_column, names)}")
        elif user_column is not None:
            columns[entry.name] = user_column
        elif len(usual) > 1 and entry.name in _AMBIGUOUS:
            problems.append(f"{flag}: which column is it? {' and '.join(usual)} could both be.")
        elif usual:
            columns[entry.name] = usual[0]
        elif entry.name == "text" and (only := _only_text(file, named)):
            columns["text"] = only
        elif entry.name in needed:
            problems.append(f"{flag}: name the column that holds {needed[entry.name]}. {listing}")
    text = columns.get("text")
    for flag, name in dict.fromkeys(required):
        if name not in names:
            problems.append(f"{flag}: {unknown_name('column', name, names)}")
        elif name == text:
            problems.append(f"{flag}: {name!r} is the note itself")
    problems += [
        f"--{key}-column: {text!r} is the note itself"
        for key in columns
        if key not in ("text", "title") and columns[key] == text
    ]
    if problems and len(names) == 1:
        problems.append("the file has one column: is another character between its cells than its ending says?")
    if problems:
        raise ConfigError(problems)
    return NoteFields(**columns)


def _usual(entry: str, file: NoteFile) -> list[str]:
    """Columns of the file with a usual name, only of the likeliest names."""
    if file.form.columns:
        return [file.form.columns[entry]] if entry in file.form.columns else []
    for names in _NAMES[entry]:
        order = [_plain(name) for name in names]
        matches = sorted((c for c in file.columns if _plain(c) in order), key=lambda c: order.index(_plain(c)))
        if matches:
            return matches
    return []


def _only_text(file: NoteFile, named: NoteFields) -> str | None:
    """The only column with text that is neither named nor usual for another field; None if there are several."""
    others = {getattr(named, name) for name in _NAMES} | {c for name in _NAMES for c in _usual(name, file)}
    texts = [name for name, value in file.first.items() if isinstance(value, str) and name not in others]
    return texts[0] if len(texts) == 1 else None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
