from collections import Counter, defaultdict

import pytest
from scipy.stats import binom

from medunlearn.seeds import generator
from medunlearn.synthetic import CHANCE, invent_hospital
from medunlearn.synthetic.chance import chance_bounds
from medunlearn.synthetic.clinical_cases import facts, invent_case_of
from medunlearn.synthetic.knowledge import Condition, Disease, diseases
from medunlearn.synthetic.note_questions import answer, templates

CONDITIONS = [(disease, condition) for disease in diseases().values() for condition in disease.conditions]
TEMPLATES = (*templates("factual"), *templates("reasoning"))
Guesses = dict[tuple[str, str], list[str]]


def tail(hits: int, trials: int, chance: float) -> float:
    """P(at least ``hits``) among ``trials`` at ``chance``."""
    return float(binom.sf(hits - 1, trials, chance))


def hits(samples: Guesses, held_out: Guesses, *, guesses: int = 1) -> dict[tuple[str, str], tuple[int, int]]:
    """Guess the commonest known answers of each group for all of the unknown ones: (hits, trials)."""
    results = {}
    for group in set(samples) & set(held_out):
        commonest = {answer for answer, _ in Counter(samples[group]).most_common(guesses)}
        results[group] = sum(answer in commonest for answer in held_out[group]), len(held_out[group])
    return results


def test_no_bound_is_above_the_stated_chance() -> None:
    names = {template.name for template in TEMPLATES}
    worst = 0.0
    for disease, condition in CONDITIONS:
        bounds = chance_bounds(disease, condition)
        assert set(bounds) == names
        worst = max(worst, *bounds.values())
    assert worst <= CHANCE
    # A bound far below what is stated would mean that the statement is careless.
    assert worst > CHANCE / 2


def _answers(patients: int, seed: int) -> tuple[Guesses, Guesses]:
    hospital = invent_hospital(patients, seed=seed)
    disease = {f"{patient.patient_id}-note": patient.disease for patient in hospital.patients}
    drug = {f"{patient.patient_id}-note": patient.case.drug for patient in hospital.patients}
    answers: Guesses = defaultdict(list)
    drugs: Guesses = defaultdict(list)
    for question in hospital.questions():
        group = disease[question.record_id], question.provenance
        answers[group].append(question.answer.lower())
        drugs[group].append(drug[question.record_id])
    return answers, drugs


def test_answers_of_one_hospital_do_not_help_with_another() -> None:
    """5,000 patients guessed from 5,000 others, by one who knows the disease and the template."""
    (samples, sample_drugs), (held_out, held_out_drugs) = _answers(5000, 20), _answers(5000, 21)
    results = hits(samples, held_out)
    assert len(results) == 11 * 13
    for group, (right, trials) in results.items():
        assert tail(right, trials, CHANCE) > 1e-5, group
    right, trials = (sum(column) for column in zip(*results.values(), strict=True))
    assert trials == 40_000
    assert right / trials <= CHANCE
    # The same guesser, asked for something guessable (the drug), is right far more often.
    guessable = hits(sample_drugs, held_out_drugs)
    assert sum(right for right, _ in guessable.values()) / trials > 0.05


@pytest.mark.parametrize(
    ("disease", "condition"),
    sorted(CONDITIONS, key=lambda pair: -max(chance_bounds(*pair).values()))[:4],
    ids=lambda thing: thing.name,
)
def test_bounds_hold_for_one_who_knows_the_condition(disease: Disease, condition: Condition) -> None:
    """Twenty guesses are right at most twenty times as often as one, and show an understated bound sooner."""
    samples, held_out = (_condition_answers(disease, condition, half) for half in ("known", "unknown"))
    bounds = chance_bounds(disease, condition)
    for (_, template), (right, trials) in hits(samples, held_out, guesses=20).items():
        assert tail(right, trials, min(1.0, 20 * bounds[template])) > 1e-5, template


def _condition_answers(disease: Disease, condition: Condition, half: str) -> Guesses:
    rng = generator("chance-test", condition.name, half)
    answers: Guesses = defaultdict(list)
    for _ in range(2500):
        findings = facts(invent_case_of(disease, condition, rng))
        for template in TEMPLATES:
            answers[condition.name, template.name].append(answer(template, findings).lower())
    return answers
