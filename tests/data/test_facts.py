"""Facts of an answer and their alternatives: of the same kind, drawn so that nobody can tell the true one."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from itertools import islice

import numpy as np
import pytest
from scipy.stats import kstest

from medunlearn.data.alternatives import AlternativePool
from medunlearn.data.fact_ranks import FactRank, p_value
from medunlearn.data.facts import Fact, facts_in, facts_of
from medunlearn.data.note_versions import note_versions
from medunlearn.data.records import Identifier, Question, Record
from medunlearn.data.value_draws import codes_like, dates_like, numbers_among, numbers_like

NAMES = ("Ana Silva", "Bo Larsen", "Cy Moreau", "Di Okafor", "Ed Novak")
RECORDS = [
    Record(
        f"r{n}",
        "A note.",
        {"patient": f"p{n}"},
        (Identifier("name", f"{NAMES[n % 5]}"), Identifier("record_number", f"HX-{n:06d}")),
    )
    for n in range(30)
]


def question(n: int, text: str, answer: str, provenance: str = "template:x") -> Question:
    return Question(f"q{n}", f"r{n}", "train", "factual", "patient", text, answer, provenance=provenance)


def pool(questions: list[Question], count: int = 19) -> AlternativePool:
    return AlternativePool(RECORDS, questions, "patient", count)


@pytest.mark.parametrize(
    ("answer", "values"),
    [
        ("Urine protein 7.5 g/day and albumin 24.8 g/L.", [("number", "7.5"), ("number", "24.8")]),
        ("Leucocytes 12.1 x10^9/L on 2024-05-03.", [("number", "12.1"), ("date", "2024-05-03")]),
        ("Ana Silva, HX-000000.", [("name", "Ana Silva"), ("identifier", "HX-000000")]),
        ("Stage T2 at C5-6.", [("statement", "Stage T2 at C5-6.")]),
        ("On 2024-13-45, 31 mg.", [("number", "31")]),
        ("Left for home.", [("statement", "Left for home.")]),
        ("Day 5, as on day 5 before.", [("number", "5"), ("number", "5")]),
    ],
)
def test_facts_of_an_answer(answer: str, values: list[tuple[str, str]]) -> None:
    facts = facts_of(question(0, "What?", answer), RECORDS[0].identifiers)
    assert [(fact.kind, fact.of(answer)) for fact in facts] == values


def test_digits_that_no_float_holds_are_no_number() -> None:
    digits = "7" * 400
    record = Record("r", f"Code {digits}, ratio 1.{digits}, dose 30 mg.", {"patient": "p"})
    assert [fact.of(record.text) for fact in facts_in(record)] == ["30"]


def test_what_the_question_says_is_no_fact() -> None:
    probe = question(0, "Which dose had Ana Silva on day 12?", "Ana Silva had 30 mg on day 12.")
    facts = facts_of(probe, RECORDS[0].identifiers)
    assert [fact.of(probe.answer) for fact in facts] == ["30"]


def _ranks(
    draw: Callable[[np.random.Generator], tuple[float, list[float]]], score: Callable[[float], float]
) -> list[float]:
    """p-values of true values under a scorer that knows nothing of whose value it is."""
    p = []
    for seed in range(400):
        true, others = draw(np.random.default_rng(seed))
        ahead = sum(score(other) >= score(true) for other in others)
        p.append((1 + ahead) / (1 + len(others)))
    return p


@pytest.mark.parametrize("score", [lambda x: -abs(np.log(x / 5000)), lambda x: x, lambda x: np.sin(9 * np.log(x))])
def test_a_scorer_that_does_not_know_ranks_numbers_uniformly(score: Callable[[float], float]) -> None:
    def draw(rng: np.random.Generator) -> tuple[float, list[float]]:
        true = f"{np.exp(rng.uniform(3, 14)):.2f}"
        others = [float(text) for text, _ in zip(numbers_like(true, rng, 19), range(19), strict=False)]
        assert len(others) == 19
        return float(true), others

    # p-values have steps of 0.05.
    assert kstest(_ranks(draw, score), "uniform").statistic < 0.05 + 1.63 / 20


@pytest.mark.parametrize("score", [lambda x: -x, lambda x: x])
def test_numbers_of_few_digits_are_as_high_as_others(score: Callable[[float], float]) -> None:
    """A range that widens until all alternatives differ would leave every true value among the lowest."""
    p = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        centre = np.exp(rng.uniform(1.5, 3))
        true = f"{max(1, round(centre * np.exp(0.3 * rng.standard_normal())))}"
        draws = list(islice(numbers_like(true, rng, 39), 39))
        p.append((1 + sum(score(float(text)) >= score(float(true)) for text in draws)) / 40)
    # Three quarters of them and none, with such a range.
    assert 0.1 < np.mean(np.array(p) <= 0.25) < 0.4


def test_a_scorer_that_does_not_know_ranks_dates_uniformly() -> None:
    def draw(rng: np.random.Generator) -> tuple[float, list[float]]:
        true = date.fromordinal(int(rng.integers(680_000, 740_000))).isoformat()
        others = [text for text, _ in zip(dates_like(true, rng, 19), range(19), strict=False)]
        return date.fromisoformat(true).toordinal(), [date.fromisoformat(other).toordinal() for other in others]

    p = _ranks(draw, lambda day: -abs(day - 715_000))
    assert kstest(p, "uniform").statistic < 0.05 + 1.63 / 20


def test_numbers_are_written_as_the_true_one_is() -> None:
    rng = np.random.default_rng(0)
    others = {true: list(numbers_like(true, rng, 20))[:20] for true in ("7.5", "130", "128", "3")}
    assert all(text.endswith("5") and len(text.partition(".")[2]) == 1 for text in others["7.5"])
    assert all(text.endswith("0") for text in others["130"])
    assert not any(text[-1] in "05" for text in others["128"] if len(text) > 1)
    # Few digits leave few values near: they come again, and 3 itself too.
    assert len({*others["3"]} - {"3"}) >= 9
    assert len({*others["3"]}) < 20


def test_an_identifier_keeps_what_all_of_its_type_agree_in() -> None:
    probe = question(0, "Number?", "It is HX-000000.")
    texts = pool([probe]).of(probe, facts_of(probe, RECORDS[0].identifiers)[0]).texts
    # Of the six digits only the last two differ between thirty records.
    assert len(texts) == 19
    assert all(text.startswith("It is HX-0000") and text.endswith(".") for text in texts)


def test_words_of_a_code_are_others_words_and_a_name_in_it_stays() -> None:
    others = ["12 Elm Street, Ayr", "9 Oak Street, Ely", "77 Ash Lane, Ayr", "31 Yew Lane, Rye"]
    rng = np.random.default_rng(0)
    draws = set(codes_like("12 Elm Street, Ayr", others, rng, 20))
    assert all(
        text.split()[1] in {"Elm", "Oak", "Ash", "Yew"} and text.split()[2] in {"Street,", "Lane,"}
        for text in draws
    )
    mails = ["ana.silva.794@example.net", "bo.larsen.123@example.net", "cy.moreau.551@example.net"]
    draws = set(codes_like(mails[0], mails, rng, 20, ["Ana", "Silva"]))
    assert len(draws) > 10
    assert all(text.startswith("ana.silva.") and text.endswith("@example.net") for text in draws)


def test_names_are_put_together_anew() -> None:
    probe = question(0, "Who?", "Fay Quist.")
    texts = pool([probe]).of(probe, Fact(0, 9, "name", "name")).texts
    given_names, family_names = {name.split()[0] for name in NAMES}, {name.split()[1] for name in NAMES}
    assert len(texts) == 19
    for text in texts:
        first, last = text.rstrip(".").split()
        assert first in given_names
        assert last in family_names
        assert f"{first} {last}" not in NAMES


def test_a_name_that_two_patients_have_is_not_hers_alone() -> None:
    probe = question(0, "Who?", "Ana Silva.")
    assert pool([probe]).of(probe, Fact(0, 9, "name", "name")).reason == (
        "it is not hers alone: another subject's text says the same"
    )


def test_statements_are_others_answers_under_the_own_name() -> None:
    questions = [
        question(n, f"How did {NAMES[n % 5]} leave?", f"{NAMES[n % 5]} left in manner {chr(65 + n)}.")
        for n in range(26)
    ]
    alternatives = pool(questions).of(questions[0], facts_of(questions[0])[0])
    assert len(alternatives.texts) == 19
    assert all(text.startswith("Ana Silva left in manner ") for text in alternatives.texts)
    assert questions[0].answer not in alternatives.texts


def test_questions_of_one_writer_are_no_template() -> None:
    probes = [
        question(n, f"Question number {n}, of its own?", f"Answer {chr(65 + n)}.", "llm:x") for n in range(26)
    ]
    alternatives = pool(probes).of(probes[0], facts_of(probes[0])[0])
    assert alternatives.texts == ()
    assert alternatives.reason == "too few alternatives of its kind (statement): 0"


def test_what_another_subject_shares_is_left_out() -> None:
    same = [question(n, "Which dose?", "It was 30 mg.") for n in (0, 1)]
    assert pool(same).of(same[0], facts_of(same[0])[0]).reason == (
        "it is not hers alone: another subject's text says the same"
    )


def test_an_answer_that_is_an_identifier_is_hers_alone() -> None:
    """Without their identifiers such answers of all subjects are the same."""
    questions = [question(n, "Which number?", f"{RECORDS[n].identifiers[1].value}.") for n in range(5)]
    facts = [facts_of(probe, RECORDS[n].identifiers)[0] for n, probe in enumerate(questions)]
    assert {fact.type for fact in facts} == {"record_number"}
    for probe, fact in zip(questions, facts, strict=True):
        alternatives = pool(questions).of(probe, fact)
        assert alternatives.reason is None
        assert len(alternatives.texts) == 19
        assert probe.answer not in alternatives.texts


def test_options_count_however_few() -> None:
    probe = Question("q", "r0", "train", "factual", "patient", "Which?", "b", ("a", "b", "c"), 1)
    assert pool([probe]).of(probe, facts_of(probe)[0]).texts == ("a", "c")


def test_alternatives_do_not_depend_on_what_else_is_asked() -> None:
    first, second = question(0, "Which dose?", "It was 31 mg."), question(1, "Which dose?", "It was 77 mg.")
    fact = facts_of(first)[0]
    assert pool([first]).of(first, fact) == pool([first, second]).of(first, fact)


def test_a_number_within_another_is_not_said_by_the_question() -> None:
    probe = question(0, "What followed the 15 days at 5.2 mg?", "Rest for 5 days.")
    assert [fact.of(probe.answer) for fact in facts_of(probe)] == ["5"]


def test_dates_at_the_ends_of_the_calendar_have_alternatives() -> None:
    for true in ("0001-01-01", "9999-12-31"):
        draws = [day for day, _ in zip(dates_like(true, np.random.default_rng(1), 19), range(19), strict=False)]
        assert all(len(day) == 10 for day in draws)


def ward(values: list[str], text: str = "Sodium was {} mmol/L.") -> tuple[list[Record], AlternativePool]:
    """One record a patient with her value."""
    records = [Record(f"r{n}", text.format(value), {"patient": f"p{n}"}) for n, value in enumerate(values)]
    return records, AlternativePool(records, [], "patient", 39)


def test_facts_in_a_record_stand_there_first_and_have_a_word_before_them() -> None:
    text = "7 of May: Ana Silva, HX-000000, had 30 mg on 2024-05-03. Ana Silva had 30 mg again, then 41."
    record = Record("r", text, {"patient": "p"}, RECORDS[0].identifiers)
    facts = facts_in(record)
    assert [(fact.kind, fact.of(text)) for fact in facts] == [
        ("name", "Ana Silva"),
        ("identifier", "HX-000000"),
        ("number", "30"),
        ("date", "2024-05-03"),
        ("number", "41"),
    ]


def test_numbers_are_spread_as_other_patients_values_are() -> None:
    values = [f"{value:.3f}" for value in np.random.default_rng(0).normal(140, 3, 40)]
    records, pool = ward([*values, "139.337"])
    fact = facts_in(records[-1])[0]
    draws = [float(text.split()[2]) for text in pool.in_record(records[-1], fact).texts]
    assert len(draws) == 39
    # Around the ward's values, which a factor of 1.35 around her own would leave.
    assert 2 < np.std(draws) < 5
    assert abs(np.mean(draws) - 140) < 3


def test_a_model_that_knows_what_is_usual_ranks_unseen_numbers_uniformly() -> None:
    rng = np.random.default_rng(1)
    p = []
    for _ in range(300):
        true, *others = (f"{value:.2f}" for value in rng.normal(140, 4, 30))
        draws = [float(text) for text, _ in zip(numbers_among(true, others, rng, 19), range(19), strict=False)]
        # The likelihood of a value under the distribution that all of them come from.
        p.append((1 + sum(abs(value - 140) <= abs(float(true) - 140) for value in draws)) / 20)
    assert kstest(p, "uniform").statistic < 0.05 + 1.63 / 300**0.5


def test_smoothed_numbers_are_no_wider_than_the_values_that_they_come_from() -> None:
    """A kernel density alone is wider; twelve values would be spread by 1.15 times as much.

    Within the range of the values, the spread is a tenth less.
    """
    rng = np.random.default_rng(3)
    others = [f"{value:.2f}" for value in np.exp(rng.normal(7, 0.4, 12))]
    draws = np.log([float(text) for text in numbers_among(others[0], others, rng, 500)])
    spread = np.log([float(text) for text in others]).std(ddof=1)
    assert 0.8 * spread < draws.std() < spread
    low, high = (np.log([float(text) for text in others]).min(), np.log([float(text) for text in others]).max())
    assert low - 1e-9 <= draws.min() <= draws.max() <= high + 1e-9


def test_numbers_of_few_values_are_first_no_more_often_than_is_due() -> None:
    """The likeliest of twelve weeks is the true one in one patient of twelve, not of forty."""
    rng, likeliest = np.random.default_rng(2), {str(week): week * 7 % 12 for week in range(3, 15)}
    p = []
    for _ in range(300):
        true, *others = (str(week) for week in rng.integers(3, 15, 31))
        draws = list(islice(numbers_among(true, others, rng, 39), 39))
        ahead = sum(likeliest.get(value, -1) > likeliest[true] for value in draws)
        p.append(p_value(FactRank("number", 1 + ahead, 40, equal=draws.count(true))))
    assert all(np.mean(np.array(p) <= level) < level + 0.02 for level in (0.025, 0.05, 0.1, 0.25, 0.5))


def test_draws_that_give_the_true_value_are_counted() -> None:
    values = [f"{number}" for number in range(121, 140) if number != 131]
    records, pool = ward([*values, "131"])
    alternatives = pool.in_record(records[-1], facts_in(records[-1])[0])
    assert alternatives.equal > 0
    assert len(alternatives.texts) + alternatives.equal == 39
    assert not any("131" in text for text in alternatives.texts)


def test_a_drug_has_its_dose_whatever_stands_before_it() -> None:
    texts = [
        "For her heart: furosemide 80 mg daily.",
        "To lose water furosemide 80 mg daily.",
        "Sodium 127 mmol/L.",
    ]
    records = [Record(f"r{n}", text, {"patient": f"p{n}"}) for n, text in enumerate(texts)]
    pool = AlternativePool(records, [], "patient", 39)
    assert pool.in_record(records[0], facts_in(records[0])[0]).reason == (
        "its value is usual: 1 of 1 other subjects have it"
    )
    assert pool.in_record(records[2], facts_in(records[2])[0]).reason is None


def test_a_number_in_the_same_words_of_another_patient_is_not_hers_alone() -> None:
    records, pool = ward(["140.1", "140.1", "151.7"])
    assert pool.in_record(records[0], facts_in(records[0])[0]).reason == (
        "it is not hers alone: another subject's text says the same"
    )
    assert pool.in_record(records[2], facts_in(records[2])[0]).reason is None
    # In other words it is another fact.
    elsewhere = Record("other", "Weight 151.7 kg.", {"patient": "x"})
    more = AlternativePool([*records, elsewhere], [], "patient", 39)
    assert more.in_record(records[2], facts_in(records[2])[0]).reason is None


def test_an_identifier_that_another_patient_has_is_not_hers_alone() -> None:
    shared = (Identifier("record_number", "HX-000007"),)
    records = [Record(f"x{n}", "Number HX-000007.", {"patient": f"p{n}"}, shared) for n in range(2)]
    pool_of_two = AlternativePool([*RECORDS[10:], *records], [], "patient", 19)
    reason = pool_of_two.in_record(records[0], facts_in(records[0])[0]).reason
    assert reason == "it is not hers alone: another subject's text says the same"


def test_a_value_that_most_have_is_not_ranked() -> None:
    # Each in words of her own, so that none is shared.
    texts = [f"Case {chr(97 + n)}{chr(98 + n)} began on day {2 + n % 2} in hospital." for n in range(24)]
    records = [Record(f"r{n}", text, {"patient": f"p{n}"}) for n, text in enumerate(texts)]
    reasons = [
        AlternativePool(records, [], "patient", 39).in_record(record, facts_in(record)[0]).reason
        for record in records
    ]
    assert all(
        reason is not None and reason.startswith(("its value is usual", "too few", "it is not"))
        for reason in reasons
    )


def test_a_value_that_most_draws_give_is_not_ranked() -> None:
    """Nobody else has 5, and it lies between what they have."""
    records, pool = ward(["4", "6"] * 10 + ["5"], "Pain of {} points.")
    reason = pool.in_record(records[-1], facts_in(records[-1])[0]).reason
    assert reason is not None
    assert re.fullmatch(r"its value is usual: \d+ of 39 draws are the same", reason)


def test_a_name_within_an_e_mail_address_changes_with_it() -> None:
    def patient(place: int) -> Record:
        name, mail = NAMES[place], f"{NAMES[place].lower().replace(' ', '.')}.{371 + 97 * place}@x.org"
        identifiers = (Identifier("name", name), Identifier("email", mail))
        return Record(f"m{place}", f"{name}, {mail}.", {"patient": f"p{place}"}, identifiers)

    records = [patient(place) for place in range(5)]
    versions = note_versions(records[0], AlternativePool(records, [], "patient", 9), 9).texts
    assert versions
    for text in versions:
        given_name, family_name = text.split(",")[0].lower().split()
        assert f", {given_name}.{family_name}." in text


def test_alternatives_in_a_record_are_the_same_each_time() -> None:
    records, pool = ward([f"{value}.3" for value in range(120, 150)])
    fact = facts_in(records[0])[0]
    assert pool.in_record(records[0], fact) == ward([f"{value}.3" for value in range(120, 150)])[1].in_record(
        records[0], fact
    )
