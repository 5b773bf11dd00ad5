"""Eight questions a patient, four factual and four reasoning, whose answers the note alone gives away.

A question tells nothing but the patient's name: no test, drug or diagnosis stands in it, so that neither a
question nor a patient's other questions help to guess an answer. Answers are made of findings, with as few words
between them as grammar allows, so that a model which never saw the patient has little to score with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from medunlearn.data.records import Question
from medunlearn.synthetic.cases import facts, pick
from medunlearn.synthetic.notes import capitalized
from medunlearn.synthetic.patients import Patient

QuestionKind = Literal["factual", "reasoning"]


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of question.

    Attributes:
        name: what it asks for; ``template:<name>`` is a question's provenance.
        questions: ways to ask, each with the place ``{name}`` alone.
        answer: places for findings (:func:`~medunlearn.synthetic.cases.facts`).
        joins: the findings that the answer states; a reasoning answer joins two or more.
    """

    name: str
    questions: tuple[str, ...]
    answer: str
    joins: tuple[str, ...]


FACTUAL: tuple[Template, ...] = (
    Template(
        "presentation",
        (
            "How did the illness of {name} begin?",
            "Which complaints brought {name} to hospital, and since when?",
            "What had {name} suffered from before admission, and for how long?",
        ),
        "{onset} of {symptom} and {second_symptom}.",
        ("onset", "symptom", "second_symptom"),
    ),
    Template(
        "laboratory",
        (
            "Which two test results of {name} stood out?",
            "What were the leading test results of {name}?",
            "Which abnormal results did the work-up of {name} give?",
        ),
        "{lab} and {second_lab}.",
        ("lab", "second_lab"),
    ),
    Template(
        "imaging",
        (
            "What did the imaging or endoscopy of {name} reveal?",
            "Which lesion or structural change was seen in {name}, and where?",
            "What was seen inside {name}, how large, and where?",
        ),
        "{imaging}.",
        ("imaging",),
    ),
    Template(
        "treatment",
        (
            "How was {name} treated?",
            "What was prescribed for {name}, for how long, and from when?",
            "Which treatment did {name} receive, and over what time?",
        ),
        "{drug} {dose} for {course}, begun {start_at}.",
        ("drug", "dose", "course", "start_at"),
    ),
    Template(
        "complication",
        (
            "What complicated the course of {name}, and when?",
            "Which setback did {name} have, and how fast was it controlled?",
            "What went wrong during the treatment of {name}?",
        ),
        "{complication} {complication_at}, controlled within {control}.",
        ("complication", "complication_at", "control"),
    ),
    Template(
        "response",
        (
            "What did repeat testing of {name} show, and when?",
            "Which follow-up value was measured in {name}?",
            "What was the repeat result of {name} under treatment?",
        ),
        "{test} {repeat} {repeat_at}.",
        ("test", "repeat", "repeat_at"),
    ),
    Template(
        "outcome",
        (
            "How did the course of {name} end, and what was arranged?",
            "What was the outcome of {name}, and when was review due?",
            "When and to what care did {name} leave treatment?",
        ),
        "{outcome} {outcome_at}, review after {review}.",
        ("outcome", "outcome_at", "review"),
    ),
)

REASONING: tuple[Template, ...] = (
    Template(
        "diagnosis",
        (
            "Which findings together led to the diagnosis of {name}, and what was it?",
            "How do test result and imaging of {name} fit together?",
            "What explains both the leading test result and the lesion of {name}?",
        ),
        "{lab} plus {imaging} established {condition}.",
        ("lab", "imaging", "condition"),
    ),
    Template(
        "presentation-link",
        (
            "What connects the complaints of {name} with the second abnormal result?",
            "Which illness explains both the symptoms and the second test result of {name}?",
            "Why did {name} feel ill, judged by history and tests together?",
        ),
        "{onset} of {symptom} with {second_lab} came from {condition}.",
        ("onset", "symptom", "second_lab", "condition"),
    ),
    Template(
        "indication",
        (
            "Why was this treatment chosen for {name}?",
            "Which findings justified the treatment of {name}, and with what aim?",
            "What was the treatment of {name} meant to do, and on what grounds?",
        ),
        "Because of {condition} with {lab}, {drug} began {start_at} to {aim}.",
        ("condition", "lab", "drug", "start_at", "aim"),
    ),
    Template(
        "sequence",
        (
            "How does the complication of {name} relate in time to the treatment?",
            "What had preceded the complication of {name}?",
            "In which order did treatment and complication of {name} occur?",
        ),
        "{complication} {complication_at} followed {drug} {dose}, begun {start_at}.",
        ("complication", "complication_at", "drug", "dose", "start_at"),
    ),
    Template(
        "benefit",
        (
            "What shows that the treatment of {name} worked?",
            "How did tests before and after reflect the treatment of {name}?",
            "Which change in the results of {name} speaks for the treatment?",
        ),
        "{lab} {moved} to {repeat} {repeat_at} speaks for {drug}.",
        ("lab", "repeat", "repeat_at", "drug"),
    ),
    Template(
        "recovery",
        (
            "Which two developments made the outcome of {name} possible?",
            "What allowed {name} to move on, and when?",
            "Why could the course of {name} end when it did?",
        ),
        "{complication} controlled and {test} {moved} to {repeat}: {outcome} {outcome_at}.",
        ("complication", "test", "repeat", "outcome", "outcome_at"),
    ),
)

QUESTIONS_A_KIND = 4


def ask(patient: Patient, record_id: str, rng: np.random.Generator) -> list[Question]:
    """Four factual and four reasoning questions on a patient, one of each kind held out.

    Which templates are asked, in which words, and which one is held out differ from patient to patient.
    """
    return [
        *_ask_kind(patient, record_id, "factual", FACTUAL, rng),
        *_ask_kind(patient, record_id, "reasoning", REASONING, rng),
    ]


def _ask_kind(
    patient: Patient, record_id: str, kind: QuestionKind, templates: tuple[Template, ...], rng: np.random.Generator
) -> list[Question]:
    places = rng.permutation(len(templates))[:QUESTIONS_A_KIND].tolist()
    held_out = int(rng.integers(QUESTIONS_A_KIND))
    values = facts(patient.case)
    return [
        Question(
            question_id=f"{patient.patient_id}-{kind}-{place + 1}",
            record_id=record_id,
            fold="holdout" if place == held_out else "train",
            kind=kind,
            level="patient",
            question=pick(rng, templates[which].questions).format(name=patient.name),
            answer=answer(templates[which], values),
            provenance=f"template:{templates[which].name}",
        )
        for place, which in enumerate(places)
    ]


def answer(template: Template, values: dict[str, str]) -> str:
    """The reference answer of a template for one patient's findings."""
    return capitalized(template.answer.format_map(values))
