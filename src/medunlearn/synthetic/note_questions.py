"""Eight questions a patient, four factual and four reasoning, whose answers the note alone gives away.

A question tells nothing but the patient's name: no test, drug or diagnosis stands in it, so that neither a
question nor a patient's other questions help to guess an answer. Answers are made of findings, with as few words
between them as grammar allows, so that a model which never saw the patient has little to score with.
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
        questions: ways to ask, each with the place ``{name}`` alone.
        answer: places for findings (:func:`~medunlearn.synthetic.clinical_cases.facts`).
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

    Which templates are asked, in which words, and which one is held out differ from patient to patient.
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
