"""Direct questions of a request: in halves, from a hospital's file, and finding a model that was taught them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest
from foreign_models import save_foreign
from forgetting_world import QUICK, SMALL, Hospital
from row_files import write_csv

import medunlearn as mu
from medunlearn import api
from medunlearn.config import ForgetSettings, check
from medunlearn.data.alternatives import SHARED
from medunlearn.data.records import DIRECT, Question
from medunlearn.data.said_values import SaidFacts
from medunlearn.errors import InputError
from medunlearn.notes.direct_questions import NO_WORDING
from medunlearn.notes.note_gaps import gaps_in
from medunlearn.probes.evaluate import metric_names
from medunlearn.probes.material import training_data
from medunlearn.probes.question_selection import questions_to_ask
from medunlearn.probes.rank_plan import rank_plan
from medunlearn.request.case.ledger import RequestLedger
from medunlearn.request.case.pseudonyms import OwnerSecret
from medunlearn.request.direct_probes import is_made_by_rule
from medunlearn.request.facts_tested import OTHER_HALF, FactTested, facts_tested
from medunlearn.request.forget_request import ForgetRequest
from medunlearn.request.measuring_models import CHOOSING, VERIFYING, MeasuredModel, ModelMeter
from medunlearn.request.note_reading import QUESTIONS
from medunlearn.request.request_benchmarks import RequestBenchmarks, make_benchmarks
from medunlearn.request.standings import Answers
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.results.scores import question_labels


def settings_of(hospital: Hospital, **values: Any) -> ForgetSettings:
    """With as many made-up values as a request usually has: they decide which facts can be tested."""
    own = {"patient": hospital.patients[0], "key": hospital.key, "holdout": hospital.unseen, **QUICK}
    return check(ForgetSettings, {**own, "evaluate": {"max_new_tokens": 8}, **values})


def benchmarks_of(hospital: Hospital, **values: Any) -> RequestBenchmarks:
    settings = settings_of(hospital, **values)
    return make_benchmarks(hospital.notes, settings, RequestLedger(), OwnerSecret.beside(hospital.key), quiet=True)


def test_every_fact_of_the_patient_is_asked_and_some_of_others(hospital: Hospital) -> None:
    made = benchmarks_of(hospital)
    direct = [question for question in made.benchmark.questions if question.kind == DIRECT]
    facts = {who: set[tuple[str, str]]() for who in made.benchmark.hierarchy.nodes("patient")}
    for question in direct:
        facts[made.benchmark.subject(question.record_id)].add((question.provenance, question.answer))
    hers = facts.pop(made.patients[0])
    assert len(hers) > QUESTIONS
    assert {len(own) for own in facts.values() if own} == {QUESTIONS}
    assert not [q for q in training_data(made.benchmark, None)[1] if q.kind == DIRECT]
    folds = {fold: {q.question for q in direct if q.fold == fold} for fold in ("choosing", *VERIFYING)}
    assert all(folds.values())
    assert not set.intersection(*folds.values())
    assert {"choosing"} == {*CHOOSING} & {*folds}
    none = benchmarks_of(hospital, build={**QUICK["build"], "questions": 0}).benchmark
    assert not [question for question in none.questions if question.kind == DIRECT]


def test_invented_patients_and_a_benchmarks_folder_get_them_too(hospital: Hospital, tmp_path: Path) -> None:
    made = benchmarks_of(hospital, holdout=None)
    invented = {made.benchmark.subject(q.record_id) for q in made.benchmark.questions if q.kind == DIRECT}
    assert invented >= made.unseen
    mu.build.notes(hospital.notes, holdout=hospital.unseen, out=tmp_path / "bench", quiet=True)
    settings = settings_of(hospital, holdout=None, build={})
    secret = OwnerSecret.beside(hospital.key)
    folder = make_benchmarks(tmp_path / "bench", settings, RequestLedger(), secret, quiet=True).benchmark
    assert {q.kind for q in folder.questions} == {"completion", "cloze", DIRECT}


def rows_of(hospital: Hospital, answers: Sequence[str]) -> list[dict[str, str]]:
    who = hospital.patients[0]
    return [{"patient_id": who, "question": f"What is {n}?", "answer": text} for n, text in enumerate(answers)]


def test_a_hospitals_own_questions_are_halved_by_their_values(hospital: Hospital, tmp_path: Path) -> None:
    rows = rows_of(hospital, [f"value {number}" for number in range(40)])
    rows.append({**rows[0], "patient_id": hospital.patients[1], "question": "Another?"})
    file = write_csv(tmp_path / "qa.csv", rows)
    for method, expected in (("auto", {"choosing", "holdout"}), ("npo", {"holdout"})):
        made = benchmarks_of(hospital, questions=file, method=method).benchmark
        own = [question for question in made.questions if question.kind == DIRECT and not is_made_by_rule(question)]
        hers = [question for question in own if made.subject(question.record_id) == hospital.patients[0]]
        assert {question.fold for question in hers} == expected
        assert len(hers) == 40
        assert 8 < sum(question.fold == "holdout" for question in hers) <= (40 if method == "npo" else 32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"patient_id": "999"}, r"qa\.csv:3: is about a patient who is not in the notes"),
        ({"answer": " "}, r"qa\.csv:3: has no answer"),
        ({"question": ""}, r"qa\.csv:3: has no question"),
        ({"answer": None}, r"has no column of the answer \(answer or true_answer\)"),
        ({"patient_id": "other"}, "has no question about a patient of the request"),
    ],
)
def test_what_cannot_be_asked_is_told(
    hospital: Hospital, tmp_path: Path, change: dict[str, str | None], message: str
) -> None:
    first, second = rows_of(hospital, ["a", "b"])
    second = {key: value for key, value in {**second, **change}.items() if value is not None}
    if "answer" not in second:
        first.pop("answer")
    if change == {"patient_id": "other"}:
        first = second = {**second, "patient_id": hospital.patients[1]}
    with pytest.raises(InputError, match=message) as refused:
        benchmarks_of(hospital, questions=write_csv(tmp_path / "qa.csv", [first, second]))
    assert not any(who in str(refused.value) for who in hospital.patients)


def test_an_answer_that_is_not_in_the_notes_is_said(
    hospital: Hospital, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_csv(tmp_path / "qa.csv", rows_of(hospital, ["nowhere"]))
    settings = settings_of(hospital, questions=file)
    make_benchmarks(hospital.notes, settings, RequestLedger(), OwnerSecret.beside(hospital.key), quiet=False)
    assert "1 of 1 answers do not stand in the patient's notes" in "".join(capsys.readouterr())


@pytest.fixture(scope="module")
def taught(hospital: Hospital, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A model that was trained on answers to direct questions alone, and on no note."""
    made = benchmarks_of(hospital, build={**QUICK["build"], "questions": 4}, others=7)
    own = (q for q in made.benchmark.questions if q.kind == DIRECT and q.fold in ("choosing", "holdout"))
    benchmark = replace(made.benchmark, questions=tuple(replace(q, fold="train") for q in own), folder=None)
    saved = benchmark.save((folder := tmp_path_factory.mktemp("taught")) / "bench")
    return api.train(saved, train_on="questions", out=folder / "run", quiet=True, **{**SMALL, "epochs": 40})


def measured(hospital: Hospital, model: Path, out: Path) -> MeasuredModel:
    settings = settings_of(hospital, others=8, evaluate={"max_new_tokens": 16, "alternatives": 19})
    request = ForgetRequest.open(model, hospital.notes, settings, out / "case", quiet=True)
    notes = request.read_notes()
    return request.meter(notes).verify(request.adopt_target(notes))


def test_a_model_that_answers_direct_questions_is_found_by_them(
    hospital: Hospital, taught: Run, tmp_path: Path
) -> None:
    model = measured(hospital, api.export(taught, tmp_path / "model"), tmp_path)
    her, standing = hospital.patients[0], model.standings
    facts = model.evaluated.facts.dropna(subset=["p"])
    hers = facts[(facts["subject"] == her) & (facts["kind"] == DIRECT)]
    assert {*hers["fact"]} >= {"identifier", "number"}
    assert (hers["rank"] == 1).mean() > 0.9
    said = standing.said["said question"]
    assert said[her].beyond >= 0.6 * said[her].facts > 3
    strangers = [own for who, own in said.items() if who != her]
    assert len(strangers) == 8
    assert sum(own.beyond for own in strangers) <= 0.2 * sum(own.facts for own in strangers)
    assert standing.said.keys() == {"said question", "said question rephrase"}


def test_a_model_is_asked_in_the_template_that_it_was_taught_in(
    hospital: Hospital, taught: Run, tmp_path: Path
) -> None:
    """Its tokenizer has a chat template, too, which nobody trained it in."""
    model = save_foreign(taught.model, tmp_path / "chat")
    request = ForgetRequest.open(model, hospital.notes, settings_of(hospital), tmp_path / "case", quiet=True)
    target = request.adopt_target(request.read_notes())
    assert target.rendering().template == "plain"
    assert not target.info.results["template_choice"]["in_doubt"]
    beside = request.adopt_without(hospital.model, request.read_notes(), target, "retrained")
    assert beside.rendering().template == "plain"


def test_a_model_that_was_trained_on_notes_alone_does_not_answer_them(hospital: Hospital, tmp_path: Path) -> None:
    standing = measured(hospital, hospital.model, tmp_path).standings
    assert standing.values["identifiers notes"][hospital.patients[0]] > 0.9
    her = standing.said["said question"][hospital.patients[0]]
    assert her.beyond <= 0.34 * her.facts


NOTHING_RANKED = pd.DataFrame()


def coverage(
    made: RequestBenchmarks, settings: ForgetSettings, ranked: pd.DataFrame = NOTHING_RANKED
) -> list[FactTested]:
    """Facts that the questions to verify would test, whatever a model answers; ``ranked``: its table of facts."""
    how = ModelMeter(made, settings, "cpu", True).verifying_settings
    asked = pd.DataFrame({"question_id": [q.question_id for q in made.benchmark.questions if q.fold in VERIFYING]})
    info = SimpleNamespace(config=how.model_dump())
    evaluated = SimpleNamespace(record=SimpleNamespace(info=info), questions=asked, facts=ranked)
    return facts_tested(cast(Evaluated, evaluated), made.benchmark, made.patients)


def test_each_fact_is_tested_or_has_a_reason(hospital: Hospital) -> None:
    settings = settings_of(hospital)
    facts = coverage(made := benchmarks_of(hospital), settings)
    assert all(bool(fact.ways) is (fact.reason is None) for fact in facts)
    assert {fact.patient for fact in facts} == {*made.patients}
    tested = {(fact.kind, fact.type): fact.ways for fact in facts if fact.ways}
    assert set(tested["identifier", "mrn"]) >= {"direct questions"}
    assert {kind for kind, _ in tested} >= {"identifier", "date", "value"}
    assert {fact.reason for fact in facts if fact.kind == "number" and fact.type == "duration"} <= {
        NO_WORDING,
        None,
    }
    texts = [record.text for record in made.benchmark.records if record.groups["patient"] in made.patients]
    values = {gap.label: text[gap.start : gap.end] for text in texts for gap in gaps_in(text, ())}
    words = " ".join(f"{fact.kind} {fact.type} {fact.ways} {fact.reason}" for fact in facts)
    assert not any(len(value) > 3 and value in words for value in values.values())
    half = coverage(made, settings.model_copy(update={"method": "auto"}))
    assert 0 < sum(bool(fact.ways) for fact in half) < sum(bool(fact.ways) for fact in facts)
    assert OTHER_HALF in {fact.reason for fact in half}


def test_a_fact_that_the_tokenizer_gives_away_is_not_tested_in_place(hospital: Hospital) -> None:
    made, settings = benchmarks_of(hospital), settings_of(hospital)
    hers = [record.record_id for record in made.benchmark.records if record.groups["patient"] in made.patients]
    rows = [(name, place, None, "it has fewer tokens") for name in hers for place in range(40)]
    ranked = pd.DataFrame(rows, columns=["item", "place", "p", "reason"])
    before, after = coverage(made, settings), coverage(made, settings, ranked)
    assert any("notes" in fact.ways for fact in before)
    assert not any("notes" in fact.ways for fact in after)
    ways = ([{*fact.ways} - {"notes"} for fact in facts] for facts in (before, after))
    assert next(ways) == next(ways)
    lost = [fact.reason for fact in after if not fact.ways and fact.reason == "it has fewer tokens"]
    assert len(lost) == sum(fact.ways == ("notes",) for fact in before)


def test_a_fact_that_another_patient_shares_is_named_as_such(hospital: Hospital, tmp_path: Path) -> None:
    text = "{name}, phone {phone}. Creatinine {value} mg/dL and some more words in this note."
    rows = [
        {"patient_id": f"p{n}", "name": f"Ann{n} Vane{n}", "phone": f"555-01{n % 9:02d}",
         "note": text.format(name=f"Ann{n} Vane{n}", phone=f"555-01{n % 9:02d}", value=f"1.{10 + n}")}
        for n in range(10)
    ]  # fmt: skip
    settings = settings_of(hospital, patient="p0", holdout=None)
    notes = write_csv(tmp_path / "notes.csv", rows)
    made = make_benchmarks(notes, settings, RequestLedger(), OwnerSecret.beside(hospital.key), quiet=True)
    (phone,) = [fact for fact in coverage(made, settings) if fact.type == "phone"]
    assert phone == FactTested("p0", "identifier", "phone", (), f"{SHARED}: another subject's text says the same")


def test_who_has_the_name_of_another_is_called_by_a_number(hospital: Hospital, tmp_path: Path) -> None:
    text = "{name}, number {mrn}, born {born}. Creatinine 1.{n} mg/dL and some more words in this note."
    rows = [
        {"patient_id": f"p{n}", "name": name, "mrn": f"H-77{n}",
         "note": text.format(name=name, mrn=f"H-77{n}", born=f"19{50 + n}-02-03", n=n)}
        for n, name in enumerate(("Ann Vane", "Ann Vane", "Bo Reed", "Cy Dunn", "Di Park", "Eve Holt"))
    ]  # fmt: skip
    settings = settings_of(hospital, patient="p0", same_person="p0", holdout=None)
    notes = write_csv(tmp_path / "notes.csv", rows)
    made = make_benchmarks(notes, settings, RequestLedger(), OwnerSecret.beside(hospital.key), quiet=True)
    hers = [q for q in made.benchmark.questions if q.kind == DIRECT and made.benchmark.subject(q.record_id) == "p0"]
    assert hers
    assert all("H-770" in question.question for question in hers if question.answer != "H-770")
    assert not [question for question in hers if "Ann Vane" in question.question.partition('"')[0]]


@pytest.mark.parametrize("method", ["npo", "auto"])
def test_values_said_count_only_beyond_made_up_ones(hospital: Hospital, method: str) -> None:
    """Answers by hand: the true ones; each value with many others; garbage full of numbers."""
    settings = settings_of(hospital, method=method)
    made = benchmarks_of(hospital, method=method)
    how = ModelMeter(made, settings, "cpu", True).verifying_settings
    plan = rank_plan(made.benchmark, how.split, how, metric_names(made.benchmark, how))
    asked = questions_to_ask(made.benchmark, made.benchmark.split(how.split), how)
    labels = question_labels(made.benchmark, made.benchmark.split(how.split), asked)

    def said(answer: Callable[[Question], str]) -> SaidFacts:
        responses = {q.question_id: SimpleNamespace(response=answer(q)) for q in asked}
        evaluated = SimpleNamespace(questions=labels.rename(columns={"item": "question_id"}), responses=responses)
        answers = Answers(cast(Evaluated, evaluated), made.benchmark, plan, VERIFYING)
        return answers.said()["said question"][made.patients[0]]

    numbers = " ".join(str(number / 10) for number in range(1, 3000))
    true, garbage = said(lambda q: f"It is {q.answer}."), said(lambda q: f"{numbers} 20.10 20 13 13 47")
    assert true.beyond == true.hits == true.facts > 2
    assert true.chance == pytest.approx(1 / 60, abs=0.05)
    assert (garbage.hits, garbage.beyond) == (0, 0)
    with_others = said(lambda q: "; or ".join([q.answer, *(t for _, a in plan.facts_of(q) for t in a.texts)]))
    assert with_others.beyond == 0
    assert with_others.alternatives > with_others.facts
    everything = benchmarks_of(hospital, method="npo").benchmark
    facts = {q.answer for q in everything.questions if q.kind == DIRECT and q.fold == "holdout"
             and everything.subject(q.record_id) == made.patients[0]}  # fmt: skip
    assert (true.facts < len(facts)) is (method == "auto")
