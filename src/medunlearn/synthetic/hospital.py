"""The invented hospital: its patients, and the records and questions on them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date, timedelta

import numpy as np

from medunlearn.data.records import Question, Record
from medunlearn.errors import ConfigError, unknown_name
from medunlearn.seeds import generator
from medunlearn.synthetic.clinical_cases import invent_case
from medunlearn.synthetic.identities import (
    MOST_PATIENTS,
    institution_names,
    invent_identities,
    invent_names,
)
from medunlearn.synthetic.knowledge import COUNTS, DISEASES, diseases
from medunlearn.synthetic.note_questions import ask
from medunlearn.synthetic.note_texts import NOTE_LENGTHS, NoteLength, write_note
from medunlearn.synthetic.patients import Patient
from medunlearn.synthetic.studies import invent_studies

_FIRST_VISIT = date(2012, 1, 1)
_VISIT_DAYS = 4000


@dataclass(frozen=True, slots=True)
class Hospital:
    """Invented patients, in order of ``patient_id``, in invented institutions; created by
    :func:`invent_hospital`.
    """

    seed: int
    institutions: tuple[str, ...]
    patients: tuple[Patient, ...]
    note_length: NoteLength = "short"

    def records(self) -> list[Record]:
        """A note per patient, each followed by the patient's study sections; identifiers as in each text.

        A note is in the groups ``disease``, ``institution`` and ``patient``; a section is also in ``study`` and
        ``section`` (its own record id).
        """
        return [record for patient in self.patients for record in (self._note(patient), *_sections(patient))]

    def questions(self) -> list[Question]:
        """Eight questions per patient: four factual, four reasoning, one of each with fold ``holdout``.

        They do not depend on the note's length: every note contains their answers.
        """
        return [
            question
            for patient in self.patients
            for question in ask(patient, _note_id(patient), _stream(self.seed, patient.patient_id, "questions"))
        ]

    def _note(self, patient: Patient) -> Record:
        text = write_note(patient, self.note_length, _stream(self.seed, patient.patient_id, "note"))
        return Record(_note_id(patient), text, _groups(patient), patient.identifiers_in(text))


def invent_hospital(
    patients: int,
    *,
    seed: int = 0,
    institutions: int = 4,
    studies: int = 0,
    note_length: NoteLength = "short",
) -> Hospital:
    """Invent a hospital, deterministic on every machine.

    Args:
        patients: number, 1 to 489,951. Diseases follow AMNESIA's proportions as closely as possible, in shuffled
            order; institutions get equal shares, up to one. Names and diseases of patients depend on this number.
        institutions: number, 1 to 1,000.
        studies: chest X-rays per patient, 0 or more.
        note_length: ``short`` (75 to 100 words), ``medium`` (120 to 160) or ``long`` (240 to 300), about.

    Raises:
        InputError: an argument out of its range; the message names each with its range.
    """
    _check(patients, institutions, studies, note_length)
    houses = institution_names(institutions, _stream(seed, "institutions"))
    roster = _stream(seed, "roster")
    disease_names = [DISEASES[place] for place in _spread(_disease_counts(patients), roster)]
    share, remainder = divmod(patients, institutions)
    house_numbers = _spread([share + (place < remainder) for place in range(institutions)], roster)
    ids = [f"patient-{number:0{max(4, len(str(patients)))}d}" for number in range(1, patients + 1)]
    cases = [
        invent_case(diseases()[disease], _stream(seed, patient_id, "case"))
        for patient_id, disease in zip(ids, disease_names, strict=True)
    ]
    identities = _stream(seed, "identities")
    names = invent_names([case.sex for case in cases], identities)
    people = zip(ids, names, invent_identities(names, identities), house_numbers, disease_names, cases, strict=True)
    everyone = []
    for patient_id, name, identity, house, disease, case in people:
        dates = _stream(seed, patient_id, "dates")
        visit = _FIRST_VISIT + timedelta(days=int(dates.integers(_VISIT_DAYS)))
        films = invent_studies(
            patient_id, name, identity.record_number, visit, studies, _stream(seed, patient_id, "studies")
        )
        patient = Patient(
            patient_id=patient_id,
            name=name,
            birth_date=_birth_date(visit, case.age, dates),
            **asdict(identity),
            institution=houses[house],
            disease=disease,
            case=case,
            studies=films,
        )
        everyone.append(patient)
    return Hospital(seed, houses, tuple(everyone), note_length)


def _birth_date(visit: date, age: int, rng: np.random.Generator) -> date:
    """A birth date that gives this age at the visit."""
    # Every month has a 28th; the span stays some days short of a year so that the age still holds.
    day = min(visit.day, 28)
    latest = visit.replace(year=visit.year - age, day=day)
    return latest - timedelta(days=int(rng.integers(0, 361)))


def _sections(patient: Patient) -> list[Record]:
    return [
        Record(
            record_id := f"{study.study_id}-{section}",
            text,
            {**_groups(patient), "study": study.study_id, "section": record_id},
            patient.identifiers_in(text),
        )
        for study in patient.studies
        for section, text in study.sections.items()
    ]


def _groups(patient: Patient) -> dict[str, str]:
    return {"disease": patient.disease, "institution": patient.institution, "patient": patient.patient_id}


def _note_id(patient: Patient) -> str:
    return f"{patient.patient_id}-note"


def _stream(seed: int, *purpose: str) -> np.random.Generator:
    return generator("hospital", seed, *purpose)


def _disease_counts(patients: int) -> list[int]:
    """Number of patients per disease, by the largest-remainder method; ties go to the commoner disease."""
    total = sum(COUNTS.values())
    counts = [patients * count // total for count in COUNTS.values()]
    remainders = [patients * count % total for count in COUNTS.values()]
    order = sorted(range(len(counts)), key=lambda place: -remainders[place])
    for place in order[: patients - sum(counts)]:
        counts[place] += 1
    return counts


def _spread(counts: list[int], rng: np.random.Generator) -> list[int]:
    """Each index repeated by its count, in random order."""
    places: list[int] = rng.permutation(np.repeat(np.arange(len(counts)), counts)).tolist()
    return places


def _check(patients: int, institutions: int, studies: int, note_length: str) -> None:
    problems = []
    if patients < 1:
        problems.append(f"patients is {patients}: ask for 1 or more.")
    if patients > MOST_PATIENTS:
        problems.append(
            f"patients is {patients}: names and numbers last for {MOST_PATIENTS}; ask for that many at most, or "
            "invent a second hospital with another seed."
        )
    if institutions < 1:
        problems.append(f"institutions is {institutions}: ask for 1 or more.")
    if studies < 0:
        problems.append(f"studies is {studies}: ask for 0 (no chest X-rays) or more.")
    if note_length not in NOTE_LENGTHS:
        problems.append(unknown_name("note length", note_length, NOTE_LENGTHS))
    if problems:
        raise ConfigError(problems)
