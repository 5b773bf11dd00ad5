import random
import re
from collections import Counter, defaultdict
from statistics import mean

import pytest

from medunlearn.data.records import Question, Record
from medunlearn.synthetic import Patient, invent_hospital
from medunlearn.synthetic.clinical_cases import facts
from medunlearn.synthetic.note_questions import Template, templates

TEMPLATES = {f"template:{template.name}": template for template in (*templates("factual"), *templates("reasoning"))}
Row = tuple[Patient, Record, Question, Template]


@pytest.fixture(scope="module", params=["short", "long"])
def rows(request: pytest.FixtureRequest) -> list[Row]:
    hospital = invent_hospital(300, seed=12, note_length=request.param)
    patients = {f"{patient.patient_id}-note": patient for patient in hospital.patients}
    notes = {record.record_id: record for record in hospital.records()}
    return [(patients[q.record_id], notes[q.record_id], q, TEMPLATES[q.provenance]) for q in hospital.questions()]


def test_four_of_each_kind_and_one_of_each_held_out(rows: list[Row]) -> None:
    tally = Counter((question.record_id, question.kind, question.fold) for _, _, question, _ in rows)
    assert len(tally) == 300 * 4
    for (_, _, fold), count in tally.items():
        assert count == (1 if fold == "holdout" else 3)


def test_a_question_tells_the_name_and_nothing_else_of_the_patient(rows: list[Row]) -> None:
    for patient, _, question, template in rows:
        assert question.question.count(patient.name) == 1
        assert question.question.replace(patient.name, "{name}") in template.questions
        assert question.level == "patient"


def test_no_question_asks_who_the_patient_is() -> None:
    questions = " ".join(wording for template in TEMPLATES.values() for wording in template.questions).lower()
    personal = r"\b(age|old|sex|gender|born|birth|address|phone|e-?mail|number|security|called|live)\b"
    assert not re.search(personal, questions)


def test_no_answer_states_an_identifier(rows: list[Row]) -> None:
    for patient, _, question, _ in rows:
        assert not patient.identifiers_in(question.answer)


def test_every_word_of_an_answer_is_grammar_or_stands_in_the_note(rows: list[Row]) -> None:
    for _, note, question, template in rows:
        grammar = set(_words(re.sub(r"{\w+}", " ", template.answer)))
        assert set(_words(question.answer)) - grammar <= set(_words(note.text))


def test_grammar_is_small_and_names_no_finding(rows: list[Row]) -> None:
    findings = {word for patient, *_ in rows for value in facts(patient.case).values() for word in _words(value)}
    everyday = {"of", "and", "with", "on", "in", "for", "to", "after", "a", "during", "from"}
    for template in TEMPLATES.values():
        grammar = set(_words(re.sub(r"{\w+}", " ", template.answer)))
        assert len(grammar) <= 5
        assert not (grammar - everyday) & findings


def slots(template: Template) -> list[str]:
    return re.findall(r"{(\w+)}", template.answer)


def test_an_answer_states_the_findings_that_its_template_names(rows: list[Row]) -> None:
    for patient, note, question, template in rows:
        values = facts(patient.case)
        for join in slots(template):
            assert values[join].lower() in question.answer.lower()
            assert values[join].lower() in note.text.lower()


def test_a_reasoning_answer_joins_two_sentences_of_the_note(rows: list[Row]) -> None:
    for patient, note, question, template in rows:
        if question.kind == "reasoning":
            values = facts(patient.case)
            sentences = re.split(r"(?<=[.;])\s", note.text.lower())
            homes = [
                {place for place, sentence in enumerate(sentences) if values[join].lower() in sentence}
                for join in slots(template)
            ]
            assert len(homes) >= 2
            assert not set.intersection(*homes), (question.answer, note.text)


def test_answers_are_short(rows: list[Row]) -> None:
    for _, _, question, _ in rows:
        least, most = (4, 15) if question.kind == "factual" else (10, 26)
        assert least <= len(question.answer.split()) <= most, question.answer


def test_an_answer_of_another_patient_with_the_disease_shares_less_than_half_of_the_words(rows: list[Row]) -> None:
    """Recall within reach of a model that knows the disease and the template, but not the patient."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for patient, _, question, template in rows:
        groups[patient.disease, template.name].append(question.answer)
    rng = random.Random(0)
    recalls = []
    for answers in groups.values():
        for answer in answers if len(answers) > 1 else []:
            other = rng.choice([text for text in answers if text != answer] or answers)
            truth, guess = Counter(_words(answer)), Counter(_words(other))
            recalls.append(sum((truth & guess).values()) / sum(truth.values()))
    assert mean(recalls) < 0.5


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+(?:[.'/-][a-z0-9]+)*", text.lower())
