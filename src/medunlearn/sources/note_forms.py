"""Forms in which hospitals and data sets keep notes: tables, FHIR, XML, folders of text files, hub data sets.

A folder of text files has a subfolder a patient; a file outside of subfolders is its own patient. In MIMIC-CXR's
folders (``p10/p10000032/s1.txt``) the patient is ``p10000032``. Where files lie deeper, the user says which folder
(``folder_1``, ``folder_2``, ...) is the patient's.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from medunlearn.errors import SourceError
from medunlearn.input_files import LONGEST_TEXT, path_text, regular_file, told_unreadable
from medunlearn.sources.fhir_notes import IN_ERROR, fhir_rows, is_fhir
from medunlearn.sources.hub import PREFIX, files_of
from medunlearn.sources.table_files import (
    READERS,
    BadRowError,
    LeftOut,
    Row,
    Rows,
    column_names,
    is_jsonl,
    read_rows,
)
from medunlearn.sources.text_encodings import decode_text, ending_of, open_bytes, open_text
from medunlearn.sources.xml_notes import xml_rows

TEXT_FILES = (".txt", ".md", ".text")
_DAY = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)")
_MIMIC_PATIENT = re.compile(r"p\d{8}")
_OPENI_SECTIONS = ("indication", "comparison", "findings", "impression")


@dataclass(frozen=True)
class NoteForm:
    """A form of notes.

    Attributes:
        marks: columns that only this form has, in lower case.
        columns: field -> column, where its name does not say it.
        is_open: a published collection.
        row: a row as it is read.
        left_out: why a row's note is left out by rule; None if it is read.
    """

    name: str
    marks: frozenset[str] = frozenset()
    columns: Mapping[str, str] = field(default_factory=dict)
    is_open: bool = False
    row: Callable[[Row], Row] = lambda row: row
    left_out: Callable[[Row], str | None] = lambda row: None


def openi_text(row: Row) -> str:
    """A report of the Indiana University collection: one line per section, with its name first."""
    sections = [(section, str(row.get(section) or "").strip()) for section in _OPENI_SECTIONS]
    return "\n".join(f"{section.capitalize()}: {words}" for section, words in sections if words)


def _openi_row(row: Row) -> Row:
    rest = {name: row[name] for name in ("MeSH", "Problems", "image") if name in row}
    return {"patient_id": row.get("uid"), "note": openi_text(row), **rest}


def _is_error(row: Row) -> str | None:
    """NOTEEVENTS marks notes that physicians identified as errors by 1."""
    flag = next((value for name, value in row.items() if name.lower() == "iserror"), None)
    return IN_ERROR if str(flag).strip() in ("1", "1.0") else None


OPENI_FIELDS = frozenset(("uid", "MeSH", "Problems", "image", "indication", "comparison", "findings", "impression"))
PMC_FIELDS = frozenset(("patient_id", "patient_uid", "PMID", "title", "patient"))
TABLE = NoteForm("table")
FORMS = (
    NoteForm("Open-i", OPENI_FIELDS, is_open=True, row=_openi_row),
    NoteForm(
        "PMC-Patients",
        PMC_FIELDS,
        {"patient": "patient_uid", "id": "patient_uid", "text": "patient", "title": "title"},
        is_open=True,
    ),
    NoteForm("NOTEEVENTS", frozenset(("row_id", "subject_id", "iserror", "text")), left_out=_is_error),
    NoteForm("MIMIC-IV-Note", frozenset(("note_id", "subject_id", "hadm_id", "note_type", "note_seq", "text"))),
    NoteForm("OMOP NOTE", frozenset(("note_id", "person_id", "note_text", "note_type_concept_id"))),
)


@dataclass(frozen=True)
class NoteFile:
    """Rows of one source of notes, to be read once.

    Attributes:
        files: source files.
        columns: columns of all readable rows.
        first: the first readable row.
        rows: place and content of each row; for an unreadable row, or one left out by rule, the reason as text.
    """

    files: tuple[Path, ...]
    form: NoteForm
    columns: tuple[str, ...]
    first: Row = field(repr=False)
    rows: Rows


def open_notes(where: Path | str, *, text_column: str | None = None) -> NoteFile:
    """Open a file or folder of notes, or ``hub:org/name``.

    Args:
        text_column: column that the user named as the note; a published form with another one is a plain table.

    Raises:
        SourceError: nothing there, an unknown form, or no readable row.
        HubError: the hub cannot be reached.
    """
    text = where if isinstance(where, str) else where.as_posix()
    path = Path(text)
    if not text.startswith(PREFIX):
        if not path.exists():
            raise SourceError(f"There is no file or folder {path}.")
        folder = path if path.is_dir() else path.parent
        if texts := files_ending(path, TEXT_FILES):
            return _open_files(texts, "text files", _text_rows(folder, texts))
        if documents := files_ending(path, (".xml",)):
            rows = chain.from_iterable(xml_rows(folder, file) for file in documents)
            return _open_files(documents, "XML", rows)
    files = files_of(text)
    if all(ending_of(file) == ".json" and _holds_object(file) and not is_jsonl(file) for file in files):
        return _open_files(files, "FHIR", fhir_rows(chain.from_iterable(map(_resources, files))))
    rows = chain.from_iterable(read_rows(file) for file in files)
    early, first = _until_readable(files, rows)
    rows = chain(early, rows)
    if is_fhir(first):
        return _open_files(files, "FHIR", _fhir_lines(rows))
    columns = column_names(files)
    lower = {name.lower() for name in columns}
    own = (form for form in FORMS if {mark.lower() for mark in form.marks} <= lower)
    form = next((f for f in own if not f.is_open or text_column in (None, f.columns.get("text"))), TABLE)
    if form.name == "Open-i":
        columns = tuple(form.row(dict.fromkeys(columns)))
    return NoteFile(files, form, columns, first, (_in_form(form, place, row) for place, row in rows))


def _in_form(form: NoteForm, place: str, row: Row | str) -> tuple[str, Row | str]:
    if isinstance(row, str):
        return place, row
    reason = form.left_out(row)
    return place, LeftOut(reason) if reason else form.row(row)


def files_ending(path: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """A file, or all files of a folder and its subfolders, with one of some endings.

    README and LICENSE files beside tables or documents are none.
    """
    if not path.is_dir():
        return (path,) if path.suffix.lower() in endings else ()
    every = sorted(file for file in path.rglob("*") if file.is_file())
    others = any(ending_of(file) in (*READERS, ".xml") for file in every)
    files = (file for file in every if file.suffix.lower() in endings)
    return tuple(file for file in files if not (others and file.stem.upper() in ("README", "LICENSE")))


def _open_files(files: Sequence[Path], form: str, rows: Rows) -> NoteFile:
    early, first = _until_readable(files, rows)
    return NoteFile(tuple(files), NoteForm(form), tuple(first), first, chain(early, rows))


def _until_readable(files: Sequence[Path], rows: Rows) -> tuple[list[tuple[str, Row | str]], Row]:
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
    raise SourceError(f"{files[0] if files else 'The source'} holds no row that can be read{reason}.")


def _text_rows(folder: Path, files: Sequence[Path]) -> Rows:
    names = [file.relative_to(folder) for file in files]
    deepest = max(len(name.parts) for name in names) - 1
    stems = Counter(name.with_suffix("") for name in names)
    for file, name in zip(files, names, strict=True):
        plain = name.with_suffix("")
        try:
            text = _text_of(file)
        except BadRowError as error:
            yield path_text(name), str(error)
            continue
        patient, day = _patient_of(plain, deepest), _DAY.search(plain.name)
        folders = [*plain.parts[:-1], *[""] * deepest][:deepest] if deepest > 1 else []
        row: dict[str, Any] = {} if patient is None else {"patient_id": path_text(Path(patient))}
        row |= {"note_id": path_text(name if stems[plain] > 1 else plain), "date": day[0] if day else ""}
        yield path_text(name), row | {"note": text} | {f"folder_{n}": f for n, f in enumerate(folders, start=1)}


def _patient_of(name: Path, deepest: int) -> str | None:
    """The patient of a text file by its path, without its ending; None if it could be one of several folders."""
    by_name = [part for part in name.parts if _MIMIC_PATIENT.fullmatch(part)]
    return by_name[-1] if by_name else name.parts[0] if deepest < 2 else None


def _text_of(file: Path) -> str:
    with told_unreadable(file, SourceError), open_bytes(regular_file(file, SourceError)) as opened:
        content = opened.read(LONGEST_TEXT + 1)
    if len(content) > LONGEST_TEXT:
        raise BadRowError(f"has more than {LONGEST_TEXT:,} bytes")
    try:
        return decode_text(content)
    except UnicodeDecodeError as error:
        raise BadRowError(f"is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8") from None


def _holds_object(path: Path) -> bool:
    """True if a JSON file begins with an object, not a list."""
    with told_unreadable(path, SourceError), open_bytes(regular_file(path, SourceError)) as file:
        return file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"


def _resources(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        with told_unreadable(path, SourceError), open_text(path) as file:
            content = json.loads(file.read())
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
