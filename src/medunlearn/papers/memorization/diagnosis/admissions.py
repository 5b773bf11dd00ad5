"""User-supplied admissions: a table with history, laboratory results and diagnoses, one stay per row."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from math import isclose
from pathlib import Path
from typing import Any

from medunlearn.errors import ConfigError, SourceError, unknown_name
from medunlearn.sources.table_files import BROKEN, BadRowError, listed_cell, read_rows, refuse_bad_rows
from medunlearn.synthetic.admissions import Admission

FIELDS = ("hpi", "diagnoses", "hpi_date", "labs", "patient", "specialty", "part", "id")
"""Fields of a stay in a file; by default columns of the same names.

``hpi``: history of present illness. ``diagnoses``: a list, or names with ``;`` or line breaks between them; the
principal one first. ``labs``: a text, a list, or test -> result. Without ``patient`` every row is somebody else's,
without ``id`` rows are numbered; ``part`` is of a partition of one's own. All but the first two are optional.
"""
_REQUIRED = FIELDS[:2]
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")
_NUMBER = re.compile(r"^\s*\d+[.)]\s+")


@dataclass(frozen=True, slots=True)
class OwnAdmissions:
    """A file's admissions in order, the part of each by its id, and (place, reason) of skipped rows."""

    admissions: tuple[Admission, ...]
    parts: Mapping[str, str]
    excluded: tuple[tuple[str, str], ...]


def read_admissions(path: Path, columns: Mapping[str, str], *, skip_bad_rows: bool = False) -> OwnAdmissions:
    """Read a CSV, TSV, JSONL, JSON or Parquet file of admissions.

    Args:
        columns: column of each of :data:`FIELDS`.
        skip_bad_rows: skip and list unusable rows instead of refusing the file.

    Raises:
        ConfigError: missing columns, all at once.
        SourceError: the file cannot be read, or rows are unusable; gives the place of each.
    """
    admissions: dict[str, Admission] = {}
    parts: dict[str, str] = {}
    excluded: list[tuple[str, str]] = []
    rows = list(read_rows(path))
    # A row of JSON may leave out what others have.
    names = dict.fromkeys(name for _, row in rows if not isinstance(row, str) for name in row)
    present = _present(columns, names) if names else {}
    for number, (place, row) in enumerate(rows, start=1):
        try:
            if isinstance(row, str):
                raise BadRowError(row)
            admission, part = _admission({field: row.get(name) for field, name in present.items()}, present, number)
            if admission.admission_id in admissions:
                raise BadRowError(f"has the id {admission.admission_id!r} of a row before it")
        except BadRowError as bad:
            excluded.append((place, str(bad)))
            continue
        admissions[admission.admission_id], parts[admission.admission_id] = admission, part
    if not skip_bad_rows:
        refuse_bad_rows(excluded, path)
    if not admissions:
        raise SourceError(f"{path} contains no usable admission.")
    return OwnAdmissions(tuple(admissions.values()), parts, tuple(excluded))


def _present(columns: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """The existing columns by field; refuses missing required or named columns."""
    absent = {field: name for field, name in columns.items() if name not in names}
    problems = [
        f"{field}: {unknown_name('column', name, names)} Name the right one: {field}_column=NAME."
        for field, name in absent.items()
        if field in _REQUIRED or name != field
    ]
    if problems:
        raise ConfigError(problems)
    return {field: name for field, name in columns.items() if name in names}


def _admission(values: Mapping[str, Any], columns: Mapping[str, str], number: int) -> tuple[Admission, str]:
    def text(field: str) -> str:
        return _text(values.get(field), columns.get(field, field))

    def needed(field: str, problem: str) -> str:
        value = text(field)
        if not value:
            raise BadRowError(problem.format(repr(columns[field])))
        return value

    history = needed("hpi", "has no history in {}")
    diagnoses = _diagnoses(values["diagnoses"], columns["diagnoses"])
    if not diagnoses:
        raise BadRowError(f"has no diagnosis in {columns['diagnoses']!r}")
    name, unknown = f"admission-{number}", "has nothing in {}, so that nobody knows whose it is"
    name = needed("id", "has nothing in {}") if "id" in values else name
    patient = needed("patient", unknown) if "patient" in values else name
    labs = _labs(values.get("labs"), columns.get("labs", "labs"))
    admission = Admission(name, patient, text("hpi_date"), history, labs, diagnoses, text("specialty"), ())
    return admission, text("part")


def _text(value: Any, column: str) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        value = value.date()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise BadRowError(f"has a {type(value).__name__} instead of text in {column!r}")
    if BROKEN.search(value):
        raise BadRowError(f"has half a character or a zero byte in {column!r}; what wrote the file broke it")
    return value.strip()


def _labs(value: Any, column: str) -> str:
    def measured(result: Any) -> str:
        return _number(result) if isinstance(result, float) else _text(result, column)

    if isinstance(value, Mapping):
        return "; ".join(f"{test} {measured(result)}" for test, result in value.items() if result is not None)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(measured(result) for result in value if result is not None)
    return _text(value, column)


def _number(value: float) -> str:
    """A number with all its digits, without artefacts of single precision."""
    if value.is_integer():
        return str(int(value))
    short = f"{value:g}"
    return short if isclose(float(short), value, rel_tol=2**-23) else repr(value)


def _diagnoses(value: Any, column: str) -> tuple[str, ...]:
    """Names in order, without duplicates."""
    listed = listed_cell(value, column, "diagnoses", ";\n")
    names = (" ".join(_NUMBER.sub("", _text(name, column)).split()) for name in listed)
    return tuple(dict.fromkeys(name for name in names if name))


def is_iso_date(text: str) -> bool:
    """True if a date is in a sortable notation: ``2019-03-02``, possibly followed by a time."""
    return bool(_ISO.match(text))
