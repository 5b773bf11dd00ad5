"""``build notes``: records, probes and splits of notes alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from row_files import write_csv

import medunlearn as mu
from medunlearn.attacks.membership.sample import candidates
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.facts import facts_of
from medunlearn.data.records import Identifier, Record
from medunlearn.data.sentences import sentence_starts
from medunlearn.errors import ConfigError, InputError
from medunlearn.notes.identifying_phrases import identifying_phrase
from medunlearn.notes.note_columns import IdentifierReader, chain_of, identifier_columns
from medunlearn.notes.note_gaps import BLANK, gaps_in, sentence_with_gap
from medunlearn.sources.patient_notes import PatientNote
from medunlearn.synthetic import invent_hospital

PROMPT = "Write the clinical note of {name}, {complaint}."
COLUMNS = ("patient_id", "note_date", "name", "mrn", "disease", "ward", "complaint", "note")


def hospital(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Rows of an invented hospital, a note a patient."""
    invented = invent_hospital(count, seed=seed)
    texts = {record.groups["patient"]: record.text for record in invented.records()}
    return [
        dict(
            zip(
                COLUMNS,
                (f"s{seed}-{n}", f"2015-01-{1 + n % 28:02d}", p.name, p.record_number, p.disease, f"W{n % 3}",
                 p.case.condition, texts[p.patient_id]),
                strict=True,
            )
        )
        for n, p in enumerate(invented.patients)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_csv(tmp_path_factory.mktemp("hospital") / "notes.csv", hospital(24))


@pytest.fixture(scope="module")
def bench(notes: Path) -> Benchmark:
    return mu.build.notes(notes, prompt=[PROMPT, "{name} was seen for {complaint}. Write it down."])


def test_records_levels_and_identifiers(bench: Benchmark) -> None:
    assert (bench.builder, bench.data_use, bench.subject_level) == ("notes", "credentialed", "patient")
    assert bench.levels == ("disease", "patient")
    assert bench.notes["groups that are no level"] == ["ward"]
    record = bench.records[0]
    assert record.groups.keys() == {"disease", "ward", "patient", "date"}
    types = Counter(identifier.type for record in bench.records for identifier in record.identifiers)
    assert (types["name"], types["mrn"]) == (24, 24)
    assert types["date"] >= 24, "the detector finds birth dates"
    assert all(i.value in record.text for record in bench.records for i in record.identifiers)


def test_probes_by_kind_and_fold(bench: Benchmark) -> None:
    counts = Counter((question.kind, question.fold) for question in bench.questions)
    assert counts == {
        ("completion", "train"): 24,
        ("completion", "holdout"): 48,
        ("cloze", "holdout"): 144,
        ("cloze", "rephrase"): 144,
        ("generation", "train"): 24,
        ("generation", "holdout"): 24,
    }
    for question in bench.questions:
        text = bench.record[question.record_id].text
        if question.kind == "completion":
            assert " ".join((question.question, question.answer)) == " ".join(text.split())
        if question.kind == "generation":
            assert question.answer == text
        if question.kind == "cloze":
            assert question.answer in text
            assert question.question.count(BLANK) == 2
            assert f" {question.answer} " not in question.question, "the question gives the answer away"


def test_a_gap_asked_in_other_words_has_the_same_answer(bench: Benchmark) -> None:
    by_id = {question.question_id: question for question in bench.questions}
    rephrased = [question for question in bench.questions if question.fold == "rephrase"]
    for question in rephrased:
        first = by_id[question.question_id.removesuffix("-rephrased")]
        assert (first.answer, first.provenance) == (question.answer, question.provenance)
        assert first.question != question.question


def test_the_same_notes_give_the_same_benchmark_whatever_their_order(bench: Benchmark, tmp_path: Path) -> None:
    rows = [{"note_id": f"n{n}", **row} for n, row in enumerate(hospital(24))]
    one = mu.build.notes(write_csv(tmp_path / "a.csv", rows))
    other = mu.build.notes(write_csv(tmp_path / "b.csv", rows[::-1]))
    assert sorted(map(str, one.questions)) == sorted(map(str, other.questions))
    assert {name: set(split.forget) for name, split in one.splits.items()} == {
        name: set(split.forget) for name, split in other.splits.items()
    }
    fewer = mu.build.notes(write_csv(tmp_path / "c.csv", rows[:12]))
    ids = {question.question_id for question in fewer.questions}
    assert set(fewer.questions) == {question for question in one.questions if question.question_id in ids}
    assert mu.build.notes(tmp_path / "a.csv", seed=1).questions != one.questions


def test_non_members_are_found_by_the_membership_attack(notes: Path, tmp_path: Path) -> None:
    seen = hospital(24)
    unseen = [*hospital(6, seed=2), seen[0], {**seen[1], "patient_id": "stranger"}]
    built = mu.build.notes(notes, holdout=write_csv(tmp_path / "holdout.csv", unseen), percents=[25])
    assert built.counts()["records_holdout"] == 6
    assert built.notes["notes left out"] == {
        "held out, but of a patient who is trained on": 1,
        "held out, but with a text that is trained on": 1,
    }
    who = candidates(built, built.split("random_25"))
    assert Counter(one.member for one in who) == {True: 6, False: 6}
    assert {one.subject for one in who if not one.member} == {f"s2-{n}" for n in range(6)}
    folds = {q.fold for q in built.questions if built.record[q.record_id].fold == "holdout"}
    assert folds == {"utility"}, "numbers on retained patients hold nobody whom no model saw"
    column = [{**row, "seen": "holdout" if n < 4 else "train"} for n, row in enumerate(seen)]
    by_column = mu.build.notes(write_csv(tmp_path / "column.csv", column), holdout_column="seen")
    assert by_column.counts()["records_holdout"] == 4


def test_a_request_and_splits_of_a_level(notes: Path, tmp_path: Path) -> None:
    built = mu.build.notes(notes, forget_patients="s1-3, s1-5", split_by=["disease"])
    assert built.splits["request"].forget == ("s1-3", "s1-5")
    assert built.splits["disease_cancer"].forget == ("Cancer",)
    assert set(built.splits) >= {"random_05", "random_10", "random_25", "disease_cardiovascular"}
    (tmp_path / "ids.txt").write_text("s1-5\n\ns1-3\n")
    assert (
        mu.build.notes(notes, forget_patients=str(tmp_path / "ids.txt")).splits["request"]
        == built.splits["request"]
    )
    for words, message in (("s1-99", "There is no patient 's1-99'"), ("ids.csv", "There is no file")):
        with pytest.raises(InputError, match=message) as error:
            mu.build.notes(notes, forget_patients=words)
        assert "s1-5" not in str(error.value)


def test_a_patient_without_a_usable_note_is_told(tmp_path: Path) -> None:
    rows = [*hospital(6), {**hospital(1)[0], "patient_id": "silent", "note": " "}]
    file = write_csv(tmp_path / "n.csv", rows)
    built = mu.build.notes(file)
    assert built.notes["notes left out"] == {"without text": 1}
    assert built.notes["patients without a usable note"] == 1
    with pytest.raises(InputError, match="Patient 'silent' has rows in the notes, but no usable note"):
        mu.build.notes(file, forget_patients="silent")


def test_a_text_of_two_patients_is_no_ones_alone(tmp_path: Path) -> None:
    rows = hospital(6)
    rows[3]["note"] = rows[2]["note"].replace(" ", "\n", 1)
    built = mu.build.notes(write_csv(tmp_path / "n.csv", rows))
    assert built.notes["notes whose text several patients have"] == 2
    assert built.notes["patients without a probe"] == 2
    assert len(built.records) == 6
    probed = {built.subject(question.record_id) for question in built.questions}
    assert probed == {f"s1-{n}" for n in (0, 1, 4, 5)}


def test_one_patient_alone_is_refused(tmp_path: Path) -> None:
    rows = hospital(3)
    file = write_csv(tmp_path / "n.csv", [rows[0], {**rows[1], "patient_id": ""}])
    with pytest.raises(InputError, match=r"1 patient is left.*1 without a patient's id") as error:
        mu.build.notes(file)
    assert "s1-0" not in str(error.value)


def test_a_long_note_has_cut_probes_that_nobody_is_trained_on(tmp_path: Path) -> None:
    rows = [{"patient_id": f"p{n}", "note": " ".join(f"w{n}x{k}" for k in range(400))} for n in range(3)]
    built = mu.build.notes(
        write_csv(tmp_path / "n.csv", rows), longest=100, prefixes=["64", "50%"], prompt="Of {patient_id}:"
    )
    assert {question.fold for question in built.questions} == {"holdout"}
    words = [q.answer.split() for q in built.questions]
    assert {len(answer) for answer in words} == {100}
    (half,) = [q for q in built.questions if q.question_id == "note-1-completion-200"]
    assert half.question.split() == [f"w0x{k}" for k in range(100, 200)]


def test_probed_and_limit_are_patients(notes: Path) -> None:
    built = mu.build.notes(notes, probed=3, forget_patients="s1-3")
    probed = {built.subject(question.record_id) for question in built.questions}
    assert (len(probed), len(built.records)) == (3, 24)
    assert "s1-3" in probed
    assert len(mu.build.notes(notes, limit=5).records) == 5
    with pytest.raises(InputError, match="limit=25: there are only 24 patients"):
        mu.build.notes(notes, limit=25)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"prompt": "Of {nmae}"}, "--prompt: There is no column 'nmae'. Did you mean 'name'"),
        ({"prompt": "Tell me all."}, "contains no column in braces"),
        ({"prefixes": ["0"]}, "'0' is neither a number of words"),
        ({"prefixes": "25%,25%"}, "name each of them once"),
        ({"level": "warrd"}, "--level: There is no column 'warrd'. Did you mean 'ward'"),
        ({"identifier_columns": "nam"}, "--identifier-columns: There is no column 'nam'"),
        ({"detectors": "nothing"}, "nothing"),
        ({"split_by": "ward", "level": "disease"}, "split_by=ward: it is not a level"),
        ({"split_by": "nothing"}, "There is no level 'nothing'"),
        ({"split_by": "patient", "percents": [1, 1]}, "percents"),
        ({"forget_patients": ","}, "names no patient"),
    ],
)
def test_wrong_settings(notes: Path, values: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, InputError), match=message):
        mu.build.notes(notes, **values)


TEXT = (
    "Discharge summary\nDiagnosis: acute heart failure\nPlan:\nwater restriction, daily weight\n"
    "Impression: 1. Well. 2. Old.\n"
    "Ann Vane, born 1950-02-03, was given furosemide 40 mg twice daily for 5 days. Creatinine was 1.31 mg/dL, "
    "pulse of 88 bpm, version 7. Seen on 2020-01-02."
)


def test_the_gaps_of_a_note() -> None:
    gaps = gaps_in(TEXT, [Identifier("name", "Ann Vane"), Identifier("date", "1950-02-03")])
    assert {(gap.group, gap.label, TEXT[gap.start : gap.end]) for gap in gaps} >= {
        ("identifier", "name", "Ann Vane"),
        ("date", "date", "1950-02-03"),
        ("date", "date", "2020-01-02"),
        ("value", "dose:furosemide", "40"),
        ("number", "duration:for", "5"),
        ("value", "value:creatinine", "1.31"),
        ("value", "value:pulse", "88"),
        ("finding", "finding", "acute heart failure"),
        ("section", "section:diagnosis", "acute heart failure"),
        ("section", "section:plan", "water restriction, daily weight"),
    }
    assert not [gap for gap in gaps if TEXT[gap.start : gap.end] in ("1", "2")], "numbers of a list are no facts"
    shown = {gap.label: sentence_with_gap(TEXT, gap, sentence_starts(TEXT)) for gap in gaps}
    assert shown["value:creatinine"] == "Creatinine was ____ mg/dL, pulse of 88 bpm, version 7."
    assert shown["section:diagnosis"] == "Diagnosis: ____"
    assert shown["section:plan"] == "Plan: ____"
    assert shown["name"].startswith("____, born 1950-02-03, was given")


def test_values_can_be_ranked_among_alternatives(bench: Benchmark) -> None:
    clozes = [q for q in bench.questions if q.kind == "cloze" and q.fold == "holdout"]
    numbers = [q for q in clozes if q.provenance.startswith("notes:cloze:value:")]
    assert len(numbers) >= 24
    for question in numbers:
        (fact,) = facts_of(question, bench.record[question.record_id].identifiers)
        assert (fact.kind, fact.of(question.answer)) == ("number", question.answer)


def test_levels_nest_where_they_can() -> None:
    rows = [
        {"patient": "p1", "house": "h1", "ward": "a", "stay": "1"},
        {"patient": "p1", "house": "h1", "ward": "a", "stay": "2"},
        {"patient": "p2", "house": "h1", "ward": "b", "stay": "3"},
        {"patient": "p3", "house": "h2", "ward": "c", "stay": "4"},
    ]
    assert chain_of(rows, ["house", "ward", "stay"]) == ("house", "ward", "patient", "stay")
    assert chain_of(rows, ["ward", "house"]) == ("house", "ward", "patient")
    assert chain_of([*rows, {"patient": "p3", "house": "h1", "ward": "c"}], ["house", "ward"]) == (
        "ward",
        "patient",
    )


def test_a_note_is_called_by_nothing_that_is_asked_for() -> None:
    text = "Findings: the heart is large and both lungs are clear, no effusion at all. Pulse was 88 bpm today."
    bare = Record("n", text, {"patient": "p"})
    beginning = (
        'the patient whose note begins with "Findings: the heart is large and both lungs are clear, no effusion"'
    )
    assert identifying_phrase(bare, "88", text.index("88")) == beginning
    assert identifying_phrase(bare, text[10:70], 10) is None, "the answer begins within the beginning"
    assert identifying_phrase(bare, "large") is None
    named = Record("n", text, {}, (Identifier("name", "Ann Vane"), Identifier("mrn", "H-77")))
    assert identifying_phrase(named, "88") == "Ann Vane"
    assert identifying_phrase(named, "Ann Vane") == "the patient with the number H-77"


def test_columns_that_are_identifiers() -> None:
    columns = [
        "name",
        "MRN",
        "birth_date",
        "image",
        "age",
        "hospital",
        "ward",
        "first_name",
        "patient_id",
        "note_date",
    ]
    assert identifier_columns(columns) == ["name", "MRN", "birth_date", "first_name", "patient_id"]
    note = PatientNote("n", "4711", "Ann Vane (4711) of H-7 and X4711.", values={
        "first_name": "Ann", "last_name": "Vane", "patient_id": "4711", "mrn": "H-7x"})  # fmt: skip
    reader = IdentifierReader(["first_name", "last_name", "patient_id", "mrn"], "none")
    (own,) = map(reader.of_note, reader.searched([note]))
    assert own == (
        Identifier("name", "Ann Vane"),
        Identifier("first_name", "Ann"),
        Identifier("last_name", "Vane"),
        Identifier("patient_id", "4711"),
    )
