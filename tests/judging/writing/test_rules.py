"""Rules that tasks share, each with what it lets through and what it does not."""

from __future__ import annotations

import pytest

from medunlearn.judging.writing import answer_rules as rules

NOTE = "Sodium was 128 mmol/L. A lesion of 24 mm was seen. Heparin was started on day 6, and the lesion shrank."


IDENTITY = """What is the patient's name?
What was the age of the patient at diagnosis?
How old was the man?
Which gender does the report state?
What is her date of birth?
What is the patient's medical record number?
At what age did symptoms begin?
Who is the patient?
Where does the patient live?
What is the patient's first name?
What sex was the infant?
What is the birth date of Ann Lee?
Which phone number does Ann Lee have?"""
FINDINGS = """What is the name of the drug that was started?
Which findings led to heparin in this 45-year-old woman?
Which sexually transmitted disease was found?
What was the address to the wound, and which drug was given?
Which stage was the tumor?
What did imaging of the patient show?
Which blood group did the patient have?"""


@pytest.mark.parametrize(("questions", "refused"), [(IDENTITY, True), (FINDINGS, False)])
def test_questions_for_identity_and_for_findings(questions: str, refused: bool) -> None:
    assert {bool(rules.asks_identity(question)) for question in questions.split("\n")} == {refused}


def test_identifiers_given_away() -> None:
    assert rules.identifiers(["Ann  LEE had fever."], ["Ann Lee"])
    assert not rules.identifiers(["The patient had fever."], ["Ann Lee", " "])
    for text in ("write to a.b@example.org", "SSN 900-12-3456", "call 291-555-0101", "the MRN is there"):
        assert rules.identifiers([text], ())
    assert not rules.identifiers(["Sodium 128, day 6, 900 mg, 12-15 mm, 120/80"], ())


def test_quotations() -> None:
    assert not rules.quotations(["sodium was  128", "Heparin was started"], NOTE, least=2)
    assert "word for word" in rules.quotations(["Sodium was low"], NOTE)
    assert "word for word" in rules.quotations([" "], NOTE)
    assert "fewer than 2" in rules.quotations(["Sodium was 128 mmol/L", "was 128 mmol/L"], NOTE, least=2)
    assert "fewer than 2" in rules.quotations(["lesion of 24", "Lesion of 24"], NOTE, least=2)


def test_an_answer_is_supported() -> None:
    assert not rules.answer("The lesion had 24 mm.", NOTE, least=0.6, numbers=True)
    assert "a number" in rules.answer("The lesion had 25 mm.", NOTE, least=0.6, numbers=True)
    assert not rules.answer("The lesion had 25 mm.", NOTE, least=0.6, numbers=False)
    assert "too few words" in rules.answer("Metastatic pulmonary carcinoma.", NOTE, least=0.6, numbers=True)


def test_answers_in_questions_and_sentences() -> None:
    assert rules.gives_away("Was heparin started on day 6?", "Heparin, day 6.")
    assert not rules.gives_away("Which drug was started?", "Heparin.")
    assert rules.sentence_count("One. Two. Three.", 1, 2) == "the answer must have 1 to 2 sentences and has 3"
    assert not rules.sentence_count("One. Two.", 1, 2)
    assert rules.question("Tell me.")
    assert not rules.question("Which one? ")


def test_questions_differ() -> None:
    assert rules.distinct(["Which drug was started?", "Which DRUGS were started?"])
    assert not rules.distinct(["Which drug was started?", "Which lesion was seen?"])


@pytest.mark.parametrize(
    ("choices", "right", "problem"),
    [
        (["Heparin", "Warfarin", "Aspirin"], 0, ""),
        (["Heparin", "heparin.", "Aspirin"], 0, "two options are the same"),
        (["Heparin", "Warfarin", "Aspirin"], 3, "no place among the options"),
        (["Heparin", "Warfarin", "Aspirin"], 1, "does not support the option"),
        (["Heparin", "lesion", "Aspirin"], 0, "supports a wrong option as well"),
        (["A lesion of 24 mm", "A lesion of 42 mm", "No lesion"], 0, "supports a wrong option as well"),
        (["A lesion of 24 mm", "A lesion of 42 mm", "An ulcer"], 0, ""),
    ],
)
def test_options(choices: list[str], right: int, problem: str) -> None:
    message = rules.options(choices, right, NOTE)
    assert problem in message
    assert bool(problem) == bool(message)
