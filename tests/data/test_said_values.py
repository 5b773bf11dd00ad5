"""Values that responses say: whole, in context, and beside made-up ones."""

from __future__ import annotations

import pytest

from medunlearn.data.alternatives import Alternatives
from medunlearn.data.facts import facts_of
from medunlearn.data.records import Question
from medunlearn.data.said_values import SaidFact, SaidFacts, gives, said_fact, summarize_said, values_given


@pytest.mark.parametrize(
    ("response", "value", "expected"),
    [
        ("20.10 20 13 13", "20", False),
        ("20 mg 30 mg 40 mg", "30", False),
        ("either 10, 20 or 30", "20", False),
        ("The dose is 20 mg.", "20", True),
        ("The dose is 20mg twice daily (2x)", "20", True),
        ("20", "20", True),
        ("20 20 20", "20", True),
        ("She takes 20 mg of metformin and 5 mg of ramipril.", "20", True),
        ("220 mg", "20", False),
        ("20.5 mg", "20", False),
        ("1,220 or 20/80", "20", False),
        ("Creatinine was 1.31 mg/dL", "1.31", True),
        ("1.31 2.20 1.40", "1.31", False),
        ("1250, 902", "1250", True),  # four digits are not garbage's
        ("Her number is hx-77.", "HX-77", True),
        ("HX-771", "HX-77", False),
        ("Born on 3 February 1950.", "1950-02-03", True),
        ("Born February 3, 1950", "1950-02-03", True),
        ("born 03.02.1950", "1950-02-03", True),
        ("born 1950-02-13", "1950-02-03", False),
        ("Ann\nVane", "Ann Vane", True),
    ],
)
def test_a_value_is_given(response: str, value: str, expected: bool) -> None:
    assert gives(response, value) is expected


def dose(answer: str) -> Question:
    return Question("q", "r", "holdout", "question", "patient", "Which dose?", answer)


def test_a_short_number_of_a_longer_answer_needs_no_place_of_its_own() -> None:
    question = dose("sodium 140, potassium 41")
    assert values_given(question, facts_of(question), "sodium 140 41") == [True, True]


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("It is 20 mg.", SaidFact(True, 0, 1 / 4)),
        ("It is 20 mg; others get 30 mg.", SaidFact(True, 1, 1 / 4)),
        ("It is 25 mg.", SaidFact(False, 1, 1 / 4)),
        ("20.10 20 13 13 30 25", SaidFact(False, 0, 1 / 4)),
    ],
)
def test_made_up_values_in_the_same_answer(response: str, expected: SaidFact) -> None:
    question = dose("20")
    (fact,) = facts_of(question)
    assert said_fact(question, fact, Alternatives(("25", "30", "35")), response) == expected
    (again,) = facts_of(question)
    assert said_fact(question, again, Alternatives(("25", "30"), equal=1), response).chance == 1 / 2


def test_counts_of_a_patient() -> None:
    facts = [SaidFact(True, 0, 1 / 60), SaidFact(True, 2, 1 / 60), SaidFact(False, 1, 1 / 20)]
    assert summarize_said(facts) == SaidFacts(3, 2, 1, 3, pytest.approx(1 / 36))  # type: ignore[arg-type]
