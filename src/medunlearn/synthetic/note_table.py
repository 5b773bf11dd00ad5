"""The invented hospital as an export table: one row per note."""

from __future__ import annotations

import csv
from pathlib import Path

from medunlearn.synthetic.hospital import invent_hospital

COLUMNS = (
    *("note_id", "patient_id", "note_date", "note_type", "name", "mrn", "birth_date", "institution", "disease"),
    *("complaint", "note"),
)


def write_note_table(path: Path, patients: int, *, seed: int = 0, studies: int = 1) -> Path:
    """Write a CSV: a discharge note for each invented patient, and a radiology report per study.

    Another seed gives other patients with other ids.

    Args:
        patients, studies, seed: as for :func:`~medunlearn.synthetic.invent_hospital`.
    """
    hospital = invent_hospital(patients, seed=seed, studies=studies)
    texts = {record.record_id: record.text for record in hospital.records()}
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for place, patient in enumerate(hospital.patients):
            number = f"{seed + 1}{place + 1:05d}"
            notes = [("discharge note", "", texts[f"{patient.patient_id}-note"])]
            for study in patient.studies:
                lines = (f"{name.upper()}: {text}" for name, text in study.sections.items())
                notes.append(("radiology report", study.date.isoformat(), "\n".join(lines)))
            own = (patient.name, patient.record_number, patient.birth_date.isoformat(), patient.institution)
            for visit, (kind, day, text) in enumerate(notes, start=1):
                name = f"{number}-{visit}"
                table.writerow((name, number, day, kind, *own, patient.disease, patient.case.condition, text))
    return path
