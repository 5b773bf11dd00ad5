"""Private questions: those on what only their own record holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Kind, Question, Record
from medunlearn.data.recurring_answers import (
    ALL_GAP,
    RECURS,
    SAME_STATEMENT,
    filled_statement,
    recurring_answers,
)
from medunlearn.results.scores import question_labels

LEVELS = ("patient", "section")
TEXTS = {
    "a1": "The heart is large. Nodule of 12 mm.",
    "a2": "Clear lungs.",
    "b1": "No change. The HEART is large!",
    "b2": "Cough.",
    "c1": "Nodule of 14 mm.",
    "c2": "Clear lungs.",
}


def ask(name: str, record: str, kind: Kind, question: str, answer: str, fold: str = "train") -> Question:
    return Question(name, record, fold, kind, "section", question, answer)  # type: ignore[arg-type]


QUESTIONS = (
    ask("large", "a1", "cloze", "Fill the gap on the image: The heart is [blank].", "large"),
    ask("nodule", "a1", "cloze", "Fill the gap on the image: Nodule of [blank].", "12 mm"),
    ask("all", "b2", "cloze", "Which words are left out? [blank].", "Cough"),
    ask("clear", "a2", "generation", "What does it say?", "Clear lungs."),
    ask("whole", "a1", "generation", "What does it say?", TEXTS["a1"]),
    ask("kept", "c1", "cloze", "Fill the gap: Nodule of [blank].", "14 mm"),
    ask("kept clear", "c2", "generation", "What does it say?", "Clear lungs."),
    ask("general", "g", "generation", "What is seen?", "Clear lungs.", "utility"),
)


@pytest.fixture
def ward() -> Benchmark:
    records = []
    for name, text in TEXTS.items():
        records.append(Record(name, text, {"patient": name[0], "section": name, "subject": name[0]}))
    records.append(Record("g", "What is seen? Clear lungs.", {"subject": "g"}, fold="utility"))
    # No model is trained on it, so that nobody has an answer from there.
    records.append(Record("h", "Nodule of 12 mm.", {"subject": "h"}, fold="holdout"))
    return Benchmark(
        name="ward",
        builder="medforget",
        levels=LEVELS,
        subject_level="subject",
        records=tuple(records),
        questions=QUESTIONS,
        splits={},
        seed=0,
        source="t",
    )


def test_what_stands_in_a_kept_record_is_not_private(ward: Benchmark) -> None:
    assert recurring_answers(ward, ward.split("patient=a")) == {
        "large": SAME_STATEMENT,
        "all": ALL_GAP,
        "clear": RECURS,
        "kept clear": RECURS,
    }


def test_what_is_forgotten_too_is_private(ward: Benchmark) -> None:
    """The heart is large on B's film too, and B is forgotten with A; C keeps her clear lungs."""
    reasons = recurring_answers(ward, ward.split("patient=a,b"))
    assert "large" not in reasons
    assert reasons["clear"] == RECURS
    # Of one patient some sections may be kept: the same patient's count then.
    of_section = recurring_answers(ward, ward.split("section=a2"))
    assert of_section["clear"] == RECURS
    assert "whole" not in of_section


def test_questions_are_marked_private_where_the_builder_s_answers_recur(ward: Benchmark) -> None:
    split = ward.split("patient=a")
    marks = question_labels(ward, split, QUESTIONS).set_index("item")["private"]
    assert marks.drop("general").to_dict() == {
        "large": False, "nodule": True, "all": False, "clear": False,
        "whole": True, "kept": True, "kept clear": False,
    }  # fmt: skip
    assert marks.isna()["general"]
    assert "private" not in question_labels(replace(ward, builder="lume"), split, QUESTIONS)


@pytest.mark.parametrize(("question", "answer", "filled"), [
    ("In this image: The heart is [blank].", "large", "the heart is large"),
    ("Line of the section: [blank] of 12 mm. Say what.", "Nodule", "nodule of 12 mm"),
    ("[blank]", "large", "large"),
])  # fmt: skip
def test_the_statement_is_found_again_in_whatever_words_it_was_put(question: str, answer: str, filled: str) -> None:
    assert filled_statement(ask("q", "a1", "cloze", question, answer), TEXTS["a1"]) == filled
