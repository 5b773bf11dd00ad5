"""Eight questions per patient, four factual and four reasoning, answerable only from the note.

A question contains only the patient's name: no test, drug or diagnosis, so that neither it nor other questions help
to guess an answer. Answers consist of findings with few other words, so that a model that never saw the patient
scores low.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, NamedTuple, get_args

import numpy as np

from medunlearn.data.records import Question
from medunlearn.synthetic.clinical_cases import facts, pick
from medunlearn.synthetic.grammar import capitalized, word_lists
from medunlearn.synthetic.patients import Patient

QuestionKind = Literal["factual", "reasoning"]


class Template(NamedTuple):
    """A kind of question; ``template:<name>`` is a question's provenance.

    Attributes:
        questions: wordings, each with the only placeholder ``{name}``.
        answer: text with placeholders for findings (:func:`~medunlearn.synthetic.clinical_cases.facts`).
    """

    name: str
    questions: tuple[str, ...]
    answer: str


@cache
def templates(kind: QuestionKind) -> tuple[Template, ...]:
    """Seven factual or six reasoning kinds of question."""
    return tuple(Template(**row) for row in word_lists("texts/questions")[kind])


QUESTIONS_A_KIND = 4


def ask(patient: Patient, record_id: str, rng: np.random.Generator) -> list[Question]:
    """Four factual and four reasoning questions on a patient, one of each kind held out.

    Templates, wordings and the held-out question vary between patients.
    """
    values = facts(patient.case)
    questions = []
    for kind in get_args(QuestionKind):
        order = rng.permutation(len(templates(kind)))[:QUESTIONS_A_KIND].tolist()
        held_out = int(rng.integers(QUESTIONS_A_KIND))
        questions += [
            Question(
                question_id=f"{patient.patient_id}-{kind}-{number + 1}",
                record_id=record_id,
                fold="holdout" if number == held_out else "train",
                kind=kind,
                level="patient",
                question=pick(rng, template.questions).format(name=patient.name),
                answer=answer(template, values),
                provenance=f"template:{template.name}",
            )
            for number, template in enumerate(templates(kind)[place] for place in order)
        ]
    return questions


def answer(template: Template, values: dict[str, str]) -> str:
    """The reference answer of a template for one patient's findings."""
    return capitalized(template.answer.format_map(values))
