"""A person's own admissions: a table with history, laboratory results and diagnoses, one stay a row."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from pathlib import Path
from typing import Any

from medunlearn.errors import ConfigError, SourceError, unknown_name
from medunlearn.sources.tables import read_rows

_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")
_NUMBER = re.compile(r"^\s*\d+[.)]\s+")
_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class AdmissionColumns:
    """Which column holds what; optional ones that are not there are left out.

    Attributes:
        hpi: history of present illness.
        diagnoses: a list, or names with ``;`` or line breaks between them; the principal one first.
        hpi_date: of the history; optional.
        labs: a text, a list, or test -> result; optional.
        patient: whose stay it is; without it every row is somebody else's.
        specialty: optional.
        part: ``train``, ``validation`` or ``test``, for a partition of one's own; optional.
        id: the row's name; without it rows are numbered.
    """

    hpi: str = "hpi"
    diagnoses: str = "diagnoses"
    hpi_date: str = "hpi_date"
    labs: str = "labs"
    patient: str = "patient"
    specialty: str = "specialty"
    part: str = "part"
    id: str = "id"


REQUIRED = ("hpi", "diagnoses")


@dataclass(frozen=True, slots=True)
class OwnAdmission:
    """One row; what the file does not have is empty."""

    admission_id: str
    patient: str
    date: str
    history: str
    labs: str
    diagnoses: tuple[str, ...]
    specialty: str
    part: str


@dataclass(frozen=True, slots=True)
class OwnAdmissions:
    """Everything read: rows in the file's order, and (place, reason) of those that were left out."""

    admissions: tuple[OwnAdmission, ...]
    excluded: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]


def read_admissions(path: Path, columns: AdmissionColumns, *, skip_bad_rows: bool = False) -> OwnAdmissions:
    """Read a CSV, TSV, JSONL, JSON or Parquet file of admissions.

    Args:
        skip_bad_rows: leave out rows that cannot be used, and list them, instead of refusing the file.

    Raises:
        ConfigError: columns that are not there, all at once.
        SourceError: the file cannot be read, or rows cannot be used; gives the place of each.
    """
    found: dict[str, OwnAdmission] = {}
    excluded: list[tuple[str, str]] = []
    there: frozenset[str] | None = None
    for number, (place, row) in enumerate(read_rows(path), start=1):
        if isinstance(row, str):
            excluded.append((place, row))
            continue
        if there is None:
            there = _present(columns, row)
        try:
            one = _admission(row, columns, there, number)
        except _BadRowError as bad:
            excluded.append((place, str(bad)))
            continue
        if one.admission_id in found:
            excluded.append((place, f"has the id {one.admission_id!r} of a row before it"))
            continue
        found[one.admission_id] = one
    if excluded and not skip_bad_rows:
        shown = "\n".join(f"  - {place}: {reason}" for place, reason in excluded[:_MOST_SHOWN])
        more = f"\n  ... and {len(excluded) - _MOST_SHOWN} more" if len(excluded) > _MOST_SHOWN else ""
        raise SourceError(
            f"{len(excluded)} rows of {path} cannot be used:\n{shown}{more}\n"
            "Mend them, or leave them out with --skip-bad-rows."
        )
    if not found:
        raise SourceError(f"{path} holds no usable admission.")
    return OwnAdmissions(tuple(found.values()), tuple(excluded), tuple(sorted(there or ())))


class _BadRowError(Exception):
    pass


def _present(columns: AdmissionColumns, row: Mapping[str, Any]) -> frozenset[str]:
    """Names of the fields whose columns are there.

    Raises:
        ConfigError: a required column, or one that the user named, is not.
    """
    problems, usual = [], AdmissionColumns()
    for field in fields(AdmissionColumns):
        column = getattr(columns, field.name)
        if column not in row and (field.name in REQUIRED or column != getattr(usual, field.name)):
            problems.append(
                f"{field.name}: {unknown_name('column', column, row)} Name the right one: {field.name}_column=NAME."
            )
    if problems:
        raise ConfigError(problems)
    return frozenset(field.name for field in fields(AdmissionColumns) if getattr(columns, field.name) in row)


def _admission(
    row: Mapping[str, Any], columns: AdmissionColumns, there: frozenset[str], number: int
) -> OwnAdmission:
    def value(field: str) -> Any:
        return row.get(getattr(columns, field)) if field in there else None

    history = _text(value("hpi"), columns.hpi)
    if not history:
        raise _BadRowError(f"has no history in {columns.hpi!r}")
    diagnoses = _diagnoses(value("diagnoses"), columns.diagnoses)
    if not diagnoses:
        raise _BadRowError(f"has no diagnosis in {columns.diagnoses!r}")
    admission_id = _text(value("id"), columns.id) if "id" in there else f"admission-{number}"
    if not admission_id:
        raise _BadRowError(f"has nothing in {columns.id!r}")
    patient = _text(value("patient"), columns.patient) if "patient" in there else admission_id
    if not patient:
        raise _BadRowError(f"has nothing in {columns.patient!r}, so that nobody knows whose it is")
    return OwnAdmission(
        admission_id,
        patient,
        _text(value("hpi_date"), columns.hpi_date),
        history,
        _labs(value("labs"), columns.labs),
        diagnoses,
        _text(value("specialty"), columns.specialty),
        _text(value("part"), columns.part),
    )


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
        raise _BadRowError(f"has no text but a {type(value).__name__} in {column!r}")
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise _BadRowError(f"has half a character or a zero byte in {column!r}; what wrote the file broke it")
    return value.strip()


def _labs(value: Any, column: str) -> str:
    if isinstance(value, Mapping):
        return "; ".join(
            f"{test} {_measured(result, column)}" for test, result in value.items() if result is not None
        )
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(_measured(result, column) for result in value if result is not None)
    return _text(value, column)


def _measured(value: Any, column: str) -> str:
    return f"{value:g}" if isinstance(value, float) else _text(value, column)


def _diagnoses(value: Any, column: str) -> tuple[str, ...]:
    """Names in their order, each once."""
    if isinstance(value, str):
        value = _listed(value, column)
    if value is None:
        return ()
    if not isinstance(value, Sequence):
        raise _BadRowError(f"has no list of diagnoses in {column!r}")
    names = (" ".join(_NUMBER.sub("", _text(one, column)).split()) for one in value)
    return tuple(dict.fromkeys(name for name in names if name))


def _listed(value: str, column: str) -> Any:
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise _BadRowError(f"has a list that is no JSON in {column!r}") from None
    return re.split(r"[;\n]", value)


def is_iso_date(text: str) -> bool:
    """Whether a date is written so that dates sort as texts do: ``2019-03-02``, perhaps with a time behind it."""
    return bool(_ISO.match(text))
