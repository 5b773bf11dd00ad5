"""The invented hospital's radiology: chest X-ray reports on the drawn phantoms.

Findings, ages and sexes are those of :mod:`~medunlearn.synthetic.hospital`. Reports contain no names: a study's
patient is known only from the benchmark, as with de-identified reports.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medunlearn.data.data_use import DataUse
from medunlearn.data.studies_of_patients import Exclusion, RadiologyStudy
from medunlearn.seeds import generator
from medunlearn.synthetic.clinical_cases import pick
from medunlearn.synthetic.grammar import word_lists
from medunlearn.synthetic.hospital import invent_hospital
from medunlearn.synthetic.patients import Patient
from medunlearn.synthetic.phantom import Body, Exposure, invent_anatomy, invent_pose
from medunlearn.synthetic.studies import Study


class InventedRadiology:
    """Invented patients with dated studies, reports and drawn radiographs; see ``RadiologySource``."""

    name = "invented"
    licence = "apache-2.0"
    data_use: DataUse | None = "open"
    has_images = True
    composed = False

    def __init__(self, patients: int, studies: int, seed: int) -> None:
        self.source = f"an invented hospital of {patients} patients with drawn chest phantoms, seed {seed}"
        self.excluded: list[Exclusion] = []
        self._seed = seed
        people = invent_hospital(patients, seed=seed, institutions=1, studies=studies).patients
        # Numbers of the form that MIMIC-CXR uses, so that the same hospital can stand in its layout.
        self._people = {f"p{10_000_000 + 37 * place}": patient for place, patient in enumerate(people, start=1)}

    def patients(self) -> Sequence[str]:
        return sorted(self._people)

    def studies(self, patient: str) -> list[RadiologyStudy]:
        person = self._people[patient]
        anatomy = invent_anatomy(self._stream(patient, "anatomy"), woman=person.case.person == "woman")
        series = []
        for number, study in enumerate(person.studies):
            name = f"s{50_000_000 + 100 * (int(patient[1:]) - 10_000_000) + number}"
            exposure = _invent_exposure(self._stream(patient, "exposure", number))
            body = Body(anatomy, study.findings, invent_pose(self._stream(patient, "pose", number)), exposure)
            sections = _sections(person, study, number, exposure, self._stream(patient, "report", number))
            series.append(RadiologyStudy(patient, name, sections, body=body))
        return series

    def _stream(self, *purpose: str | int) -> np.random.Generator:
        return generator("radiology", self._seed, *purpose)


def _invent_exposure(rng: np.random.Generator) -> Exposure:
    positions = word_lists("texts/reports")["radiology"]["positions"]
    return Exposure(
        pick(rng, tuple(positions)),
        f"{rng.integers(24):02d}:{rng.integers(60):02d}",
        int(rng.integers(70, 126)),
        int(rng.integers(10, 50)) / 10,
    )


def _sections(
    person: Patient, study: Study, number: int, exposure: Exposure, rng: np.random.Generator
) -> dict[str, str]:
    """Six sections, with a comparison from the second study on.

    Examination, technique and findings describe the film (its label shows time, position and exposure); the others
    have information that is not on the film: indication, comparison, and recommendation.
    """
    days = (study.date - person.studies[number - 1].date).days if number else 0
    years = int((study.date - person.birth_date).days // 365.25)
    lists = word_lists("texts/reports")["radiology"]
    sections = {
        "examination": f"{lists['positions'][exposure.position]} of the chest at {exposure.time}.",
        "indication": f"{years}-year-old {person.case.person} with {pick(rng, lists['reasons'])} "
        f"for {rng.integers(2, 29)} days, "
        f"{pick(rng, lists['tasks'])}.",
        "technique": f"Tube voltage {exposure.kilovolts} kV, exposure {exposure.milliampere_seconds:.1f} mAs.",
        "findings": study.sections["findings"],
        "impression": f"{study.sections['impression']} "
        + pick(rng, lists["follow_up"]).format(weeks=int(rng.integers(1, 27))),
    }
    if number:
        sections["comparison"] = f"Chest radiograph taken {days} days before."
    return sections
