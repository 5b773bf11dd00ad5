"""Direct questions: made of notes of several forms, in grammatical words, and in folds that no training takes."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

import medunlearn as mu
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.facts import says
from medunlearn.data.records import DIRECT, Identifier, Record
from medunlearn.notes.direct_questions import FOLDS, GIVEN_AWAY, NO_PHRASE, NO_WORDING, SAME_QUESTION, direct_facts
from medunlearn.notes.note_gaps import gaps_in
from medunlearn.notes.note_probes import NoteProbes, without_repeats
from medunlearn.probes.material import training_data

EXAMPLES = Path(__file__).parents[2] / "examples" / "notes.csv"
PROSE = (
    "Ann Vane (MRN H-77), born 1950-02-03, was admitted on 2020-01-02. Her sister Eva Vane called. She was given "
    "furosemide 40 mg twice daily for 5 days. Creatinine was 1.31 mg/dL, pulse of 88 bpm, version 7. "
    "There is a right upper zone opacity of 78 mm. Creatinine 1.52 mg/dL. C-reactive protein 48.1 mg/L. BMI 27."
)
IDENTIFIERS = (
    Identifier("name", "Ann Vane"),
    Identifier("mrn", "H-77"),
    Identifier("birth_date", "1950-02-03"),
    Identifier("name", "Eva Vane"),
)
LISTED = "Phone: 555-0100\nHeart rate: 71 bpm\nDiagnosis: acute heart failure\nDoctor: Tom Baker\nSeen 2019-05-06."


def reasons(record: Record) -> dict[tuple[str, str], str]:
    """(label, value) -> the first question, or the reason why there is none."""
    facts = direct_facts(record, gaps_in(record.text, record.identifiers))
    return {(fact.gap.label, fact.answer): fact.reason or fact.wordings[0] for fact in facts}


def test_questions_about_prose() -> None:
    questions = reasons(Record("n", PROSE, {"patient": "p"}, IDENTIFIERS))
    assert questions == questions | {
        ("name", "Ann Vane"): "What is the name of the patient with the number H-77?",
        ("mrn", "H-77"): "What is the record number of Ann Vane?",
        ("name", "Eva Vane"): "Who else is named in the record of Ann Vane?",
        ("birth_date", "1950-02-03"): "When was Ann Vane born?",
        ("date", "2020-01-02"): "When was Ann Vane admitted?",
        ("dose:furosemide", "40"): "Which dose of furosemide does Ann Vane take, in mg?",
        ("value:creatinine", "1.31"): "What is the creatinine of Ann Vane, in mg/dL?",
        ("value:creatinine", "1.52"): SAME_QUESTION,
        ("value:pulse", "88"): "What is the pulse of Ann Vane, in bpm?",
        ("value:opacity", "78"): "How large is the upper zone opacity of Ann Vane, in mm?",
        ("value:protein", "48.1"): "What is the C-reactive protein of Ann Vane, in mg/L?",
        ("number:bmi", "27"): "What is the BMI of Ann Vane?",
        ("duration:for", "5"): NO_WORDING,
        ("number:version", "7"): NO_WORDING,
    }


def test_questions_about_a_note_of_headings() -> None:
    identifiers = (
        Identifier("name", "Bo Reed"),
        Identifier("phone", "555-0100"),
        Identifier("doctor", "Tom Baker"),
    )
    questions = reasons(Record("n", f"Bo Reed\n{LISTED}", {"patient": "p"}, identifiers))
    assert questions == questions | {
        ("phone", "555-0100"): "What is the phone number of Bo Reed?",
        ("doctor", "Tom Baker"): "Who is the doctor of Bo Reed?",
        ("value:rate", "71"): "What is the heart rate of Bo Reed, in bpm?",
        ("section:diagnosis", "acute heart failure"): 'What does the record of Bo Reed say under "Diagnosis"?',
        ("finding", "acute heart failure"): "Which diagnosis or finding does Bo Reed have?",
        ("date", "2019-05-06"): "When was the visit of Bo Reed?",
    }


def test_a_fact_without_a_phrase_or_that_its_question_gives_away_is_not_asked() -> None:
    nameless = reasons(Record("n", LISTED, {"patient": "p"}))
    assert nameless["value:rate", "71"] == NO_PHRASE
    text = "Ann Vane of 77. Grade 77 seen."
    given = reasons(Record("n", text, {"patient": "p"}, (Identifier("name", "Ann Vane of 77"),)))
    assert given["number:grade", "77"] in (GIVEN_AWAY, NO_PHRASE)


@pytest.fixture(scope="module")
def bench() -> Benchmark:
    return mu.build.notes(EXAMPLES, questions=8, clozes=0, prefixes=["16"])


def test_each_fact_of_a_note_is_asked_in_three_wordings_that_no_training_takes(
    bench: Benchmark,
) -> None:
    direct = [question for question in bench.questions if question.kind == DIRECT]
    by_fact = defaultdict(list)
    for question in direct:
        by_fact[question.record_id, question.provenance, question.answer].append(question)
        assert question.answer in " ".join(bench.record[question.record_id].text.split())
        assert not says(question.question, question.answer), "the question gives the answer away"
        assert question.question.endswith("?")
        assert "{" not in question.question
    assert len(by_fact) > 100
    for own in by_fact.values():
        assert {question.fold for question in own} <= {*FOLDS}
        assert len({question.question for question in own}) == len(own)
    assert Counter(question.fold for question in direct) == dict.fromkeys(FOLDS, len(direct) / 3)
    assert not [question for question in training_data(bench, None)[1] if question.kind == DIRECT]


def test_nobody_is_asked_twice_in_the_same_words(bench: Benchmark) -> None:
    asked = [(bench.subject(q.record_id), q.question) for q in bench.questions
             if q.kind == DIRECT and not q.provenance.endswith(":finding")]  # fmt: skip
    assert len(asked) == len({*asked})
    assert without_repeats(bench.questions, {r.record_id: bench.subject(r.record_id) for r in bench.records}) == [
        *bench.questions
    ]


def test_without_the_setting_there_are_none_and_other_probes_stay(bench: Benchmark) -> None:
    plain = mu.build.notes(EXAMPLES, clozes=0, prefixes=["16"])
    assert plain.questions == tuple(question for question in bench.questions if question.kind != DIRECT)


def test_a_patient_whom_no_model_saw_is_asked_once_for_each_fact() -> None:
    probes = NoteProbes((), 0, (), 64, questions=None)
    seen = Record("n", PROSE, {"patient": "p"}, IDENTIFIERS)
    unseen = Record("n", PROSE, {"patient": "p"}, IDENTIFIERS, fold="holdout")
    asked, of_stranger = [*probes.direct(seen)], [*probes.direct(unseen)]
    assert {question.fold for question in of_stranger} == {"utility"}
    assert len(of_stranger) == len(asked) / 3
    assert {question.question for question in of_stranger} < {question.question for question in asked}
