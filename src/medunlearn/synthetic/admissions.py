"""Admissions of invented patients: history of present illness, laboratory results, and the diagnoses.

History and results come from the patient's invented case, so that results fit the diagnosis. The history contains
neither the principal diagnosis nor later findings (imaging, treatment). Like a real one it contains name, age,
dates, record number, telephone, address, hospital and physician, all fictitious.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType

from medunlearn.data.records import Identifier
from medunlearn.seeds import generator
from medunlearn.synthetic.clinical_cases import LabReading, pick
from medunlearn.synthetic.grammar import capitalized, word_lists
from medunlearn.synthetic.hospital import Hospital, invent_hospital
from medunlearn.synthetic.identities import invent_names
from medunlearn.synthetic.knowledge import SEXES, Sex
from medunlearn.synthetic.patients import Patient

SPECIALTIES: Mapping[str, str] = MappingProxyType(word_lists("texts/admissions")["specialties"])
"""Disease category -> the medical specialty that sees it."""

PATIENTS_A_CLINICIAN = 12
_DAYS_OF_AN_AGE = 340


@dataclass(frozen=True, slots=True)
class Admission:
    """One stay of one patient, dated in ISO 8601.

    Attributes:
        history: history of present illness.
        labs: concatenated results with their units and reference ranges.
        diagnoses: the principal one first.
        specialty: a value of :data:`SPECIALTIES`.
        identifiers: everything in the text that names or locates a person, or dates the stay.
    """

    admission_id: str
    patient: str
    date: str
    history: str
    labs: str
    diagnoses: tuple[str, ...]
    specialty: str
    identifiers: tuple[Identifier, ...]


def invent_admissions(patients: int, *, seed: int = 0, institutions: int = 4) -> list[Admission]:
    """One admission per patient, deterministic on every machine.

    Raises:
        InputError: as for :func:`~medunlearn.synthetic.hospital.invent_hospital`.
    """
    hospital = invent_hospital(patients, seed=seed, institutions=institutions)
    clinicians = _clinicians(hospital)
    return [_admission(patient, clinicians, seed) for patient in hospital.patients]


def _clinicians(hospital: Hospital) -> list[str]:
    """Physicians' names that no patient has, few per many patients."""
    count = max(2, len(hospital.patients) // PATIENTS_A_CLINICIAN)
    patient_names = {patient.name for patient in hospital.patients}
    sexes: list[Sex] = [SEXES[place % len(SEXES)] for place in range(count + len(patient_names))]
    names = invent_names(sexes, generator("admissions", hospital.seed, "clinicians"))
    return [name for name in names if name not in patient_names][:count]


def _admission(patient: Patient, clinicians: Sequence[str], seed: int) -> Admission:
    rng = generator("admissions", seed, patient.patient_id)
    lists, case = word_lists("texts/admissions"), patient.case
    # A day on which the patient is as old as the case says.
    birthday = patient.birth_date + timedelta(days=int(365.25 * case.age) + 1)
    day = (birthday + timedelta(days=int(rng.integers(_DAYS_OF_AN_AGE)))).isoformat()
    clinician, relative = pick(rng, clinicians), pick(rng, lists["relatives"])
    slots = {
        **{identifier.type: identifier.value for identifier in patient.identifiers()},
        "age": str(case.age),
        "person": case.person,
        "date": day,
        "institution": patient.institution,
        "clinician": clinician,
        "relative": relative,
        "onset": case.onset,
        "symptom": case.symptoms[0],
        "second_symptom": case.symptoms[1],
        "third_symptom": case.symptoms[2],
        "comorbidity": case.comorbidity,
    }
    parts = [pick(rng, lists[name]) for name in ("opening", "background", "home", "seen")]
    history = " ".join(capitalized(part.format_map(slots)) for part in parts)
    return Admission(
        admission_id=f"{patient.patient_id}-admission",
        patient=patient.patient_id,
        date=day,
        history=history,
        labs="; ".join(_result(reading) for reading in case.readings),
        diagnoses=(case.condition, case.comorbidity),
        specialty=SPECIALTIES[patient.disease],
        identifiers=(
            *patient.identifiers_in(history),
            Identifier("age", f"{case.age}"),
            Identifier("date", day),
            Identifier("institution", patient.institution),
            Identifier("clinician", clinician),
        ),
    )


def _result(reading: LabReading) -> str:
    flag = "high" if reading.high else "low"
    return f"{reading.named} ({flag}; reference {reading.reference})"
