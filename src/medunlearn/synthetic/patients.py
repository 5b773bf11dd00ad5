"""An invented patient."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from medunlearn.data.records import Identifier
from medunlearn.synthetic.clinical_cases import ClinicalCase
from medunlearn.synthetic.studies import Study


@dataclass(frozen=True, slots=True)
class Patient:
    """An invented patient: identity, illness and chest X-rays.

    Attributes:
        patient_id: ``patient-0001``; with more digits in a hospital of 10,000 or more, so that ids sort.
        institution: the hospital's name.
        disease: one of :data:`~medunlearn.synthetic.DISEASES`.
        case: the clinical case: findings, treatment and course.
        studies: in order of date.
    """

    patient_id: str
    name: str
    birth_date: date
    record_number: str
    phone: str
    email: str
    address: str
    ssn: str
    institution: str
    disease: str
    case: ClinicalCase
    studies: tuple[Study, ...] = ()

    def identifiers(self) -> tuple[Identifier, ...]:
        """Everything that names or locates this patient, as written in notes and reports (dates in ISO 8601)."""
        return (
            Identifier("name", self.name),
            Identifier("birth_date", self.birth_date.isoformat()),
            Identifier("record_number", self.record_number),
            Identifier("phone", self.phone),
            Identifier("email", self.email),
            Identifier("address", self.address),
            Identifier("ssn", self.ssn),
            *(Identifier("study_date", study.date.isoformat()) for study in self.studies),
        )

    def identifiers_in(self, text: str) -> tuple[Identifier, ...]:
        """The identifiers that occur in a text."""
        return tuple(identifier for identifier in self.identifiers() if identifier.value in text)
