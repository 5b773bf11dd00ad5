"""A patient's illness, drawn from the knowledge base of the disease."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from medunlearn.synthetic.knowledge import SEXES, Condition, Disease, Grid, Pace, Sex, Test

T = TypeVar("T")

START = Grid(1, 8, 0)
COMPLICATION_DELAY = Grid(1, 20, 0)
CONTROL = Grid(2, 9, 0)
REPEAT_DELAY = Grid(4, 23, 0)
STAY = Grid(1, 20, 0)
REVIEW = Grid(3, 14, 0)


@dataclass(frozen=True, slots=True)
class LabReading:
    """A test result; ``text`` is ``value`` as written in a note, with the unit."""

    test: str
    value: float
    text: str
    reference: str
    high: bool

    @property
    def named(self) -> str:
        """``ferritin 8.4 ng/mL``."""
        return f"{self.test} {self.text}"


@dataclass(frozen=True, slots=True)
class ClinicalCase:
    """The findings of one patient, drawn independently given the condition.

    Times (``start``, ``complication_time``, ``repeat_time``, ``outcome_time``) count in ``pace`` from the first
    visit, and are ordered: treatment starts before the complication and the repeat test, and the outcome comes
    last.

    Attributes:
        readings: four results; the first is the leading one, which ``repeat`` measures again after treatment.
        imaging: the finding with its size and site, e.g. ``annular mass of 34 mm in the sigmoid colon``.
        control: days until the complication was under control.
        review: weeks until the next visit.
    """

    condition: str
    sex: Sex
    age: int
    pace: Pace
    onset: str
    symptoms: tuple[str, str, str]
    readings: tuple[LabReading, LabReading, LabReading, LabReading]
    repeat: LabReading
    imaging_study: str
    imaging: str
    imaging_size: float
    imaging_site: str
    drug: str
    dose: str
    aim: str
    course: str
    start: int
    complication: str
    complication_time: int
    control: int
    repeat_time: int
    outcome: str
    outcome_time: int
    review: int
    comorbidity: str
    advice: str
    background: str

    @property
    def person(self) -> str:
        return "woman" if self.sex == "female" else "man"


def invent_case(disease: Disease, rng: np.random.Generator) -> ClinicalCase:
    """Draw a condition of the disease, then a case of it."""
    return invent_case_of(disease, pick(rng, disease.conditions), rng)


def invent_case_of(disease: Disease, condition: Condition, rng: np.random.Generator) -> ClinicalCase:
    """Draw a case of one condition."""
    treatment = pick(rng, condition.treatments)
    imaging = pick(rng, condition.imaging)
    size, site = imaging.size.draw(rng), pick(rng, imaging.sites)
    lead, *others = _choose_tests(disease, condition, rng)
    start, control = START.draw_integer(rng), CONTROL.draw_integer(rng)
    complication_time = start + COMPLICATION_DELAY.draw_integer(rng)
    repeat_time = start + REPEAT_DELAY.draw_integer(rng)
    controlled = complication_time + (control if disease.pace == "day" else -(-control // 7))
    outcome_time = max(repeat_time, controlled) + STAY.draw_integer(rng)
    return ClinicalCase(
        condition=condition.name,
        sex=pick(rng, SEXES) if condition.sex is None else condition.sex,
        age=int(rng.integers(condition.ages[0], condition.ages[1] + 1)),
        pace=disease.pace,
        onset=counted(condition.onset.draw_integer(rng), condition.onset_unit),
        symptoms=_three(condition.symptoms, rng),
        readings=(
            _reading(lead, lead.abnormal, rng),
            _reading(others[0], others[0].abnormal, rng),
            _reading(others[1], others[1].abnormal, rng),
            _reading(others[2], others[2].abnormal, rng),
        ),
        repeat=_reading(lead, lead.treated, rng),
        imaging_study=imaging.study,
        imaging=imaging.finding.format(size=size, site=site),
        imaging_size=float(size),
        imaging_site=site,
        drug=treatment.drug,
        dose=treatment.dose,
        aim=treatment.aim,
        course=counted(treatment.course.draw_integer(rng), treatment.unit),
        start=start,
        complication=pick(rng, disease.complications),
        complication_time=complication_time,
        control=control,
        repeat_time=repeat_time,
        outcome=pick(rng, disease.outcomes),
        outcome_time=outcome_time,
        review=REVIEW.draw_integer(rng),
        comorbidity=pick(rng, disease.comorbidities),
        advice=pick(rng, disease.advice),
        background=condition.background,
    )


def counted(number: int, unit: str) -> str:
    """``1 week``, ``11 weeks``: a number with its unit, given in the plural."""
    return f"{number} {unit.removesuffix('s') if number == 1 else unit}"


def at(time: int, pace: Pace) -> str:
    """``on day 6`` or ``in week 6``."""
    return f"on day {time}" if pace == "day" else f"in week {time}"


def facts(case: ClinicalCase) -> dict[str, str]:
    """Each finding in its wording, the same in notes and answers, so that answers are contained in notes."""
    lead, second = case.readings[0], case.readings[1]
    return {
        "condition": case.condition,
        "onset": case.onset,
        "symptom": case.symptoms[0],
        "second_symptom": case.symptoms[1],
        "test": lead.test,
        "lab": lead.named,
        "second_lab": second.named,
        "moved": "falling" if lead.high else "rising",
        "repeat": case.repeat.text,
        "repeat_at": at(case.repeat_time, case.pace),
        "study": case.imaging_study,
        "imaging": case.imaging,
        "drug": case.drug,
        "dose": case.dose,
        "aim": case.aim,
        "course": case.course,
        "start_at": at(case.start, case.pace),
        "complication": case.complication,
        "complication_at": at(case.complication_time, case.pace),
        "control": counted(case.control, "days"),
        "outcome": case.outcome,
        "outcome_at": at(case.outcome_time, case.pace),
        "review": counted(case.review, "weeks"),
    }


def pick(rng: np.random.Generator, among: Sequence[T]) -> T:
    """Draw one item uniformly."""
    return among[int(rng.integers(len(among)))]


def _choose_tests(disease: Disease, condition: Condition, rng: np.random.Generator) -> list[Test]:
    """A leading test of the condition, then three of the remaining tests of the condition and the category."""
    lead = pick(rng, condition.tests)
    condition_tests = {test.name for test in condition.tests}
    shared = [test for test in disease.tests if test.name not in condition_tests]
    rest = [test for test in (*condition.tests, *shared) if test is not lead]
    return [lead, *(rest[int(place)] for place in rng.permutation(len(rest))[:3])]


def _reading(test: Test, grid: Grid, rng: np.random.Generator) -> LabReading:
    value = grid.draw(rng)
    return LabReading(test.name, float(value), test.format(value), test.reference, test.high)


def _three(symptoms: Sequence[str], rng: np.random.Generator) -> tuple[str, str, str]:
    first, second, third = (symptoms[int(place)] for place in rng.permutation(len(symptoms))[:3])
    return first, second, third
