"""Admissions of invented patients: history of present illness, laboratory results, and the diagnoses.

History and results come from the patient's invented case, so that results fit the diagnosis. The history names
neither the principal diagnosis nor what was found later (imaging, treatment). It does hold what a real one holds of
its patient: name, age, dates, record number, telephone, address, hospital and physician, all of nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from types import MappingProxyType

import numpy as np

from medunlearn.data.records import Identifier
from medunlearn.seeds import generator
from medunlearn.synthetic.cases import Reading, pick
from medunlearn.synthetic.hospital import Hospital, invent_hospital
from medunlearn.synthetic.identities import invent_names
from medunlearn.synthetic.knowledge import SEXES, Sex
from medunlearn.synthetic.patients import Patient

SPECIALTIES: Mapping[str, str] = MappingProxyType(
    {
        "Cancer": "oncology",
        "Infectious/Immune": "infectious diseases",
        "Cardiovascular": "cardiology",
        "Digestive and Liver": "gastroenterology",
        "Dementia and Mental Health": "psychiatry",
        "Arthritis and Bone": "rheumatology",
        "Respiratory and Allergies": "pulmonology",
        "Kidney Disease": "nephrology",
        "Diabetes": "endocrinology",
        "Oral and Dental Health": "oral medicine",
        "Anemia or Iron Deficiency": "hematology",
    }
)
"""Disease category -> the medical specialty that sees it."""

PATIENTS_A_CLINICIAN = 12

_OPENING = (
    "{name} is a {age}-year-old {person} (record {record_number}, born {birth_date}) who came to the emergency "
    "department of {institution} on {date} after {onset} of {symptom} and {second_symptom}.",
    "On {date} {name}, {person} of {age} years, born {birth_date}, record {record_number}, arrived at "
    "{institution} with {onset} of {symptom}; {second_symptom} followed.",
    "Record {record_number}: {name} (born {birth_date}, {age}-year-old {person}) was brought to {institution} on "
    "{date}, reporting {symptom} and {second_symptom} for {onset}.",
)
_BACKGROUND = (
    "There is a background of {comorbidity}.",
    "Earlier illness includes {comorbidity}.",
    "Known before this visit: {comorbidity}.",
)
_HOME = (
    "Home is {address}; the {relative} can be called at {phone} and completed the story.",
    "The {relative}, reached at {phone}, adds to the story; they live at {address}.",
    "Lives at {address}. Part of the story was given by the {relative}, telephone {phone}.",
)
_SEEN = (
    "Dr. {clinician} saw the patient on arrival and noted {third_symptom} as well.",
    "On examination by Dr. {clinician} there was also {third_symptom}.",
    "{third_symptom} was noted by Dr. {clinician} on admission.",
)
_RELATIVES = ("daughter", "son", "sister", "brother", "neighbor")
_DAYS_OF_AN_AGE = 340


@dataclass(frozen=True, slots=True)
class Admission:
    """One stay of one patient.

    Attributes:
        admission_id: unique in its hospital.
        patient: whose it is.
        date: of the history, ISO 8601.
        history: history of present illness.
        labs: results with their units and reference ranges, one after the other.
        diagnoses: the principal one first.
        specialty: a value of :data:`SPECIALTIES`.
        identifiers: everything in the text that names or locates somebody, or dates the stay.
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
    """One admission a patient; the same arguments give the same ones on every machine.

    Raises:
        InputError: numbers that :func:`~medunlearn.synthetic.hospital.invent_hospital` refuses.
    """
    hospital = invent_hospital(patients, seed=seed, institutions=institutions)
    clinicians = _clinicians(hospital)
    return [_admission(patient, clinicians, seed) for patient in hospital.patients]


def _clinicians(hospital: Hospital) -> list[str]:
    """Names that no patient has, a few for many patients as in life."""
    count = max(2, len(hospital.patients) // PATIENTS_A_CLINICIAN)
    taken = {patient.name for patient in hospital.patients}
    sexes: list[Sex] = [SEXES[place % len(SEXES)] for place in range(count + len(taken))]
    names = invent_names(sexes, generator("admissions", hospital.seed, "clinicians"))
    return [name for name in names if name not in taken][:count]


def _admission(patient: Patient, clinicians: Sequence[str], seed: int) -> Admission:
    rng = generator("admissions", seed, patient.patient_id)
    day, clinician, relative = _day(patient, rng), pick(rng, clinicians), pick(rng, _RELATIVES)
    case = patient.case
    slots = {
        **{identifier.type: identifier.value for identifier in patient.identifiers()},
        "age": str(case.age),
        "person": "woman" if case.sex == "female" else "man",
        "date": day.isoformat(),
        "institution": patient.institution,
        "clinician": clinician,
        "relative": relative,
        "onset": case.onset,
        "symptom": case.symptoms[0],
        "second_symptom": case.symptoms[1],
        "third_symptom": case.symptoms[2],
        "comorbidity": case.comorbidity,
    }
    parts = [pick(rng, phrasings) for phrasings in (_OPENING, _BACKGROUND, _HOME, _SEEN)]
    history = " ".join(_capitalized(part.format_map(slots)) for part in parts)
    return Admission(
        admission_id=f"{patient.patient_id}-admission",
        patient=patient.patient_id,
        date=day.isoformat(),
        history=history,
        labs="; ".join(_result(reading) for reading in case.readings),
        diagnoses=(case.condition, case.comorbidity),
        specialty=SPECIALTIES[patient.disease],
        identifiers=(
            *patient.identifiers_in(history),
            Identifier("age", f"{case.age}"),
            Identifier("date", day.isoformat()),
            Identifier("institution", patient.institution),
            Identifier("clinician", clinician),
        ),
    )


def _day(patient: Patient, rng: np.random.Generator) -> date:
    """A day on which the patient is as old as the case says."""
    birthday = patient.birth_date + timedelta(days=int(365.25 * patient.case.age) + 1)
    return birthday + timedelta(days=int(rng.integers(_DAYS_OF_AN_AGE)))


def _result(reading: Reading) -> str:
    flag = "high" if reading.high else "low"
    return f"{reading.named} ({flag}; reference {reading.reference})"


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]
