"""Alternatives beside a model that knows all but the patient: it cannot tell the true value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, timedelta

import numpy as np
import pytest

from medunlearn.data.alternatives import COMMON, FEW_OTHERS, FOLLOWS, AlternativePool, Alternatives
from medunlearn.data.facts import Fact, facts_in, facts_of
from medunlearn.data.note_versions import note_versions
from medunlearn.data.records import Identifier, Question, Record
from medunlearn.data.value_draws import codes_like, draw_alike

Score = Callable[[str], float]
GIVEN = ("Ada", "Bea", "Cara", "Dora", "Elsa", "Fay", "Gina", "Hope", "Iris", "Jana", "Kim", "Lea")
FAMILY = (
    "Adler",
    "Berg",
    "Conti",
    "Duval",
    "Engel",
    "Frost",
    "Grau",
    "Huber",
    "Iqbal",
    "Jung",
    "Kern",
    "Lang",
    "Mohr",
)


def ward(texts: list[str], kinds: dict[str, list[str]] | None = None) -> list[Record]:
    """One record a patient, with her identifiers by type."""
    typed = [
        tuple(Identifier(kind, values[n]) for kind, values in (kinds or {}).items()) for n in range(len(texts))
    ]
    return [Record(f"r{n}", text, {"patient": f"p{n}"}, typed[n]) for n, text in enumerate(texts)]


def values_of(text: str, fact: Fact, alternatives: Alternatives) -> list[str]:
    behind = len(text) - fact.end
    return [other[fact.start : len(other) - behind] for other in alternatives.texts]


def p_values(records: list[Record], kind: str, score: Score, count: int = 39) -> list[float]:
    """p of the last fact of a kind in each record, by a score that knows nothing of whose value it is."""
    pool, p = AlternativePool(records, [], "patient", count), []
    for record in records:
        fact = [fact for fact in facts_in(record) if kind in (fact.kind, fact.type)][-1]
        alternatives = pool.in_record(record, fact)
        if alternatives.reason is None and alternatives.inexact is None:
            true = score(fact.of(record.text))
            ahead = sum(score(value) >= true for value in values_of(record.text, fact, alternatives))
            p.append((1 + ahead + alternatives.equal) / (1 + len(alternatives.texts) + alternatives.equal))
    return p


def low(p: list[float], level: float = 0.05) -> float:
    return float(np.mean(np.array(p) <= level + 1e-9))


def test_area_codes_are_those_that_others_have() -> None:
    """Digit by digit, nearly every true number would be told by its area code."""
    rng = np.random.default_rng(0)
    phones = [
        f"{('617', '508', '781')[n % 3]}-{rng.integers(200, 1000)}-{rng.integers(10_000):04d}" for n in range(150)
    ]
    p = p_values(
        ward([f"Phone {phone}." for phone in phones], {"phone": phones}),
        "phone",
        lambda phone: (phone[:3] in ("617", "508", "781")) + hash_of(phone),
    )
    assert len(p) == 150
    assert low(p) < 0.1
    assert 0.4 < np.mean(p) < 0.65


def hash_of(text: str) -> float:
    """A number from 0 to 1 that says nothing."""
    return float(np.random.default_rng([*text.encode()]).random())


def test_numbers_in_a_row_are_no_exact_alternatives() -> None:
    """All codes with their beginning are taken, so one that is free is told by its beginning."""
    numbers = [f"HX-{n:06d}" for n in range(30)]
    record, *_ = records = ward([f"Number {number}." for number in numbers], {"record_number": numbers})
    alternatives = AlternativePool(records, [], "patient", 19).in_record(record, facts_in(record)[0])
    assert len(alternatives.texts) == 19
    assert alternatives.inexact == FEW_OTHERS


def test_codes_of_others_are_not_drawn() -> None:
    others = [f"{area}-{place}" for area in (11, 22) for place in range(8)]
    draws = {*codes_like("11-9", ["11-9", *others], np.random.default_rng(0), 20)}
    assert draws
    assert not draws & {*others}


def test_dates_of_a_narrow_window_are_drawn_within_it() -> None:
    rng = np.random.default_rng(1)
    days = [(date(2023, 1, 1) + timedelta(days=int(day))).isoformat() for day in rng.integers(0, 400, 120)]
    records = ward([f"Admitted on {day}." for day in days], {"admission_date": days})
    p = p_values(records, "date", lambda day: day.startswith("2023") + hash_of(day))
    assert len(p) > 100
    assert low(p) < 0.1


@pytest.mark.parametrize("patients", [40, 200])
def test_a_date_after_another_keeps_to_others_intervals(patients: int) -> None:
    """Of a discharge within two weeks of the admission, dates of the whole year would tell the true one."""
    rng = np.random.default_rng(2)
    admitted = [date(2023, 1, 1) + timedelta(days=int(day)) for day in rng.integers(0, 350, patients)]
    left = [
        day + timedelta(days=int(stay)) for day, stay in zip(admitted, rng.integers(1, 40, patients), strict=True)
    ]
    records = ward([f"Admitted on {a}, discharged on {b}." for a, b in zip(admitted, left, strict=True)])
    pool, p = AlternativePool(records, [], "patient", 39), []
    for record, day in zip(records, admitted, strict=True):
        fact = [fact for fact in facts_in(record) if fact.kind == "date"][-1]
        alternatives = pool.in_record(record, fact)
        stays = [(date.fromisoformat(v) - day).days for v in values_of(record.text, fact, alternatives)]
        assert all(1 <= stay < 40 for stay in stays)
        true = (date.fromisoformat(fact.of(record.text)) - day).days
        ahead = sum(abs(stay - 20) >= abs(true - 20) for stay in stays)
        p.append((1 + ahead + alternatives.equal) / 40)
    assert low(p) < 0.1


def test_a_date_after_another_is_inexact_where_few_others_have_both() -> None:
    days = [date(2023, 1, 1) + timedelta(days=n * 7) for n in range(8)]
    records = ward(
        [f"Admitted on {day}, discharged on {day + timedelta(days=5 + n)}." for n, day in enumerate(days)]
    )
    fact = [fact for fact in facts_in(records[0]) if fact.kind == "date"][-1]
    assert AlternativePool(records, [], "patient", 39).in_record(records[0], fact).inexact == FOLLOWS


def test_an_age_follows_from_a_birth_date_before_it() -> None:
    born = [f"{1940 + n}-03-{1 + n % 28:02d}" for n in range(60)]
    texts = [f"Born {day}. Aged {83 - n} on admission." for n, day in enumerate(born)]
    records = ward(texts, {"birth_date": born})
    pool = AlternativePool(records, [], "patient", 39)
    birth, age = facts_in(records[5])
    assert pool.in_record(records[5], birth).inexact is None
    assert pool.in_record(records[5], age).inexact == FOLLOWS
    turned = ward([f"Aged {83 - n} on admission. Born {day}." for n, day in enumerate(born)], {"birth_date": born})
    age, birth = facts_in(turned[5])
    pool = AlternativePool(turned, [], "patient", 39)
    assert (pool.in_record(turned[5], age).inexact, pool.in_record(turned[5], birth).inexact) == (None, FOLLOWS)


def test_an_answer_follows_from_a_date_in_its_question() -> None:
    questions = [
        Question(
            f"q{n}", f"r{n}", "train", "factual", "patient", f"Born {1940 + n}-03-01, how old?", f"Aged {83 - n}."
        )
        for n in range(30)
    ]
    records = ward([f"Case {chr(97 + n)}." for n in range(30)])
    pool = AlternativePool(records, questions, "patient", 39)
    assert pool.of(questions[3], facts_of(questions[3])[0]).inexact == FOLLOWS


def test_usual_names_come_as_often_as_others_have_them() -> None:
    """Drawn once each, alternatives would be rarer than the true names of Zipf's law."""
    rng = np.random.default_rng(3)
    weights = 1.0 / np.arange(1, 13)
    shares = weights / weights.sum()
    usual = dict(zip(GIVEN, shares, strict=True))
    p: list[float] = []
    for seed in range(6):
        drawn = [
            f"{GIVEN[int(rng.choice(12, p=shares))]} {FAMILY[int(rng.integers(13))]}" for _ in range(40 + seed)
        ]
        p += p_values(
            ward([f"{name} came." for name in drawn], {"name": drawn}),
            "name",
            lambda name: float(usual[name.split()[0]]) + 1e-6 * hash_of(name),
        )
    assert len(p) > 60
    assert low(p) < 0.1


def test_a_measurement_of_few_others_counts_in_no_p() -> None:
    """Whoever knows what sodium is told the true value in half of such wards."""
    rng = np.random.default_rng(4)
    for patients, exact in ((8, False), (40, True)):
        records = ward([f"Sodium was {value:.2f} mmol/L." for value in rng.normal(139, 3, patients)])
        alternatives = AlternativePool(records, [], "patient", 39).in_record(records[0], facts_in(records[0])[0])
        assert alternatives.texts
        assert alternatives.inexact == (None if exact else FEW_OTHERS)


def test_at_240_patients_ages_are_ranked() -> None:
    rng = np.random.default_rng(5)
    records = ward([f"She is aged {int(age)} now." for age in rng.integers(20, 90, 240)])
    pool = AlternativePool(records, [], "patient", 59)
    drawn = [pool.in_record(record, facts_in(record)[0]) for record in records]
    assert all(alternatives.reason is None and alternatives.inexact is None for alternatives in drawn)
    # The chance of being first is the share of those who have it.
    assert np.mean([(1 + a.equal) / 60 for a in drawn]) == pytest.approx(1 / 60 + 1 / 70, abs=0.01)


def test_a_usual_value_is_ranked_by_its_share() -> None:
    records = ward([f"Ramipril {(5, 10, 2)[min(n % 5, 2)]} mg daily." for n in range(60)])
    pool = AlternativePool(records, [], "patient", 59)
    for record in records:
        fact = facts_in(record)[0]
        alternatives = pool.in_record(record, fact)
        share = Counter(other.text for other in records)[record.text] / len(records)
        assert alternatives.reason is None or alternatives.reason.startswith((COMMON, "too few"))
        if alternatives.texts:
            assert alternatives.equal / 59 == pytest.approx(share, abs=0.2)


@pytest.mark.parametrize("true", [7, 101])
def test_a_shared_value_stands_among_shared_ones_and_another_among_others(true: int) -> None:
    """A model that saw the others has seen the one and not the other."""
    others = [*range(20), *range(20), *range(50, 60)]

    def smoothed() -> Iterator[int]:
        rng = np.random.default_rng(0)
        while True:
            yield int(rng.integers(0, 120))

    stream = draw_alike(true, others, smoothed(), np.random.default_rng(1))
    draws = {next(stream) for _ in range(300)}
    assert draws <= ({*range(20)} if true == 7 else {*range(20, 50), *range(60, 120)})


def test_dates_of_a_version_keep_their_intervals() -> None:
    rng = np.random.default_rng(6)
    admitted = [date(2023, 1, 1) + timedelta(days=int(day)) for day in rng.integers(0, 350, 40)]
    born = [date(1940, 1, 1) + timedelta(days=int(day)) for day in rng.integers(0, 20_000, 40)]
    left = [day + timedelta(days=int(stay)) for day, stay in zip(admitted, rng.integers(1, 14, 40), strict=True)]
    texts = [f"Born {b}, admitted {a}, left {e}." for b, a, e in zip(born, admitted, left, strict=True)]
    records = ward(texts)
    versions = note_versions(records[0], AlternativePool(records, [], "patient", 39), 19)
    assert len(versions.texts) > 10
    assert versions.inexact is None
    stays = set()
    for text in versions.texts:
        birth, start, end = (date.fromisoformat(word.rstrip(".,")) for word in text.split() if word[0] in "12")
        stays.add(end - start)
        assert start.year in (2022, 2023)
        assert birth != born[0]
    assert stays == {left[0] - admitted[0]}
