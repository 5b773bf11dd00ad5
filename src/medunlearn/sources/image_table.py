"""User-supplied images and reports: a table with one row per image.

Columns: ``patient``, ``study``, ``image`` (a path), and ``report`` (the text) or ``report_file`` (a path);
optionally ``institution``. Paths are relative to the table's folder, or for images to a separate folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from medunlearn.data.data_use import use_of_file
from medunlearn.data.studies_of_patients import Exclusion, RadiologyStudy, StudyImage, frontal_first
from medunlearn.errors import SourceError
from medunlearn.input_files import read_text
from medunlearn.sources.report_sections import read_report
from medunlearn.sources.table_files import list_bad_rows, read_rows

_NAMES = {
    "patient": ("patient", "patient_id", "subject", "subject_id"),
    "study": ("study", "study_id"),
    "image": ("image", "path", "image_path", "file"),
    "report": ("report", "text"),
    "report_file": ("report_file", "report_path"),
    "institution": ("institution", "hospital", "site"),
    "view": ("view", "view_position", "ViewPosition", "projection"),
}


class ImageTable:
    """A table of images and reports; see ``RadiologySource``. A study with several images has several rows; frontal
    views are shown before unknown views, and those before lateral ones.

    Args:
        images: folder of the images; None: the table's.

    Raises:
        SourceError: missing columns, or contradictory rows; names all of them.
    """

    name = "folder"
    licence = ""
    composed = False

    def __init__(self, path: Path, images: Path | None) -> None:
        self.source = path.name
        self.data_use = use_of_file(path)
        self.excluded: list[Exclusion] = []
        self._path, self._images = path, images or path.parent
        self._patients: dict[str, dict[str, RadiologyStudy]] = {}
        self._owners: dict[str, str] = {}
        self._reports: dict[str, str] = {}
        problems: list[tuple[str, str]] = []
        for place, row in read_rows(path):
            if isinstance(row, str):
                self.excluded.append(Exclusion("row", place, row))
            else:
                problems += self._take(place, {name: _cell(row, names) for name, names in _NAMES.items()})
        if problems:
            raise SourceError(f"{path} contradicts itself in {len(problems)} rows:{list_bad_rows(problems)}")
        if not self._patients:
            raise SourceError(f"{path} holds no study. Its columns must be patient, study, image and report.")
        self.has_images = any(study.shown for studies in self._patients.values() for study in studies.values())

    def patients(self) -> Sequence[str]:
        return sorted(self._patients)

    def studies(self, patient: str) -> list[RadiologyStudy]:
        return list(self._patients[patient].values())

    def _take(self, place: str, row: Mapping[str, str]) -> list[tuple[str, str]]:
        """Add a row; returns its place and the rows that it contradicts."""
        patient, study = row["patient"], row["study"]
        if not patient or not study:
            raise SourceError(f"{self._path.name}: {place} names no {'study' if patient else 'patient'}.")
        report = row["report"] or self._read(place, row["report_file"])
        institution = row["institution"] or None
        studies = self._patients.setdefault(patient, {})
        problems = []
        if studies and institution not in {other.institution for other in studies.values()}:
            problems.append((place, f"patient {patient!r} is in two institutions. Name one in all rows."))
        owner = self._owners.setdefault(study, patient)
        if owner != patient:
            problems.append((place, f"study {study!r} belongs to patient {owner!r} in an earlier row. Rename one."))
        images = (StudyImage(self._images / row["image"], row["view"]),) if row["image"] else ()
        if owner == patient and study in studies:
            if report and report != self._reports[study]:
                problems.append((place, f"study {study!r} has another report in an earlier row. Keep one."))
            studies[study] = replace(studies[study], images=frontal_first([*studies[study].images, *images]))
            return problems
        self._reports[study] = report
        sections = read_report(report).sections
        studies[study] = RadiologyStudy(patient, study, sections, images, institution=institution)
        return problems

    def _read(self, place: str, name: str) -> str:
        if not name:
            return ""
        try:
            return read_text(self._path.parent / name, SourceError)
        except SourceError as error:
            raise SourceError(f"{place}: the report {name} cannot be read. {error}") from error


def _cell(row: Mapping[str, Any], names: Sequence[str]) -> str:
    value = next((row[name] for name in names if row.get(name) not in (None, "")), "")
    return str(value).strip()
