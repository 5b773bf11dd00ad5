"""A baseline is refused where its own ranks are far from uniform, and not where they are by chance."""

from __future__ import annotations

import numpy as np
import pytest

from medunlearn.request.baseline_check import baseline_fault, baseline_ranks, patient_means
from medunlearn.request.standings import Standings
from medunlearn.seeds import generator

WAYS = ("identifiers answers", "identifiers notes", "values answers", "values notes")
UNSEEN = [f"invented-{number:04d}" for number in range(12)]


def standing(rng: np.random.Generator, *, facts: int = 8, shared: float = 0.0, centre: float = 0.5) -> Standings:
    """Ranks among 59 made-up values, drawn around a mean; a share of each patient's facts repeats her first one."""
    values: dict[str, dict[str, float]] = {way: {} for way in WAYS}
    for patient in UNSEEN:
        ranks = rng.beta(centre / (1 - centre), 1.0, size=(2, facts))
        ranks[:, 1:][:, rng.random(facts - 1) < shared] = ranks[:, :1]
        for way, own in zip(WAYS, ranks.reshape(4, facts // 2), strict=True):
            values[way][patient] = float(own.mean())
    return Standings(values=values, probes={way: dict.fromkeys(UNSEEN, facts // 2) for way in WAYS})


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
def test_uniform_ranks_are_hardly_ever_refused_however_dependent_a_patients_facts_are(shared: float) -> None:
    rng = generator("uniform baselines", str(shared))
    refused = sum(baseline_fault(standing(rng, shared=shared), UNSEEN) is not None for _ in range(1000))
    assert refused <= 20


def test_impossible_people_are_refused_and_the_reason_says_where_they_rank() -> None:
    rng = generator("impossible people")
    faults = [baseline_fault(standing(rng, centre=0.31), UNSEEN) for _ in range(300)]
    assert sum(fault is not None for fault in faults) >= 297
    means = {way: dict.fromkeys(UNSEEN, 0.5) for way in WAYS}
    means |= {way: {name: 0.30 + 0.02 * (n % 2) for n, name in enumerate(UNSEEN)} for way in WAYS[2:]}
    made_up = Standings(values=means, probes={way: dict.fromkeys(UNSEEN, 4) for way in WAYS})
    assert baseline_fault(made_up, UNSEEN) is not None
    reason = baseline_fault(made_up, UNSEEN) or ""
    assert reason.startswith("invented patients' values rank at 0.31 instead of 0.50 on average (12 patients, p = ")
    assert reason.endswith("they are not believable to this model")
    assert "identifiers" not in reason
    assert (baseline_fault(made_up, UNSEEN, invented=False) or "").startswith(
        "unseen patients' values rank at 0.31"
    )


def test_a_difference_without_practical_size_is_no_fault_however_sure_it_is() -> None:
    means = {way: {name: 0.57 + 0.001 * (n % 2) for n, name in enumerate(UNSEEN)} for way in WAYS}
    sure = Standings(values=means, probes={way: dict.fromkeys(UNSEEN, 4) for way in WAYS})
    assert all(ranks.p < 1e-6 for ranks in baseline_ranks(sure, UNSEEN))
    assert baseline_fault(sure, UNSEEN) is None
    same = {WAYS[3]: dict.fromkeys(UNSEEN, 0.2)}
    assert baseline_fault(Standings(values=same, probes={WAYS[3]: dict.fromkeys(UNSEEN, 4)}), UNSEEN) is not None


def test_a_patients_mean_is_over_her_facts_and_two_patients_tell_nothing() -> None:
    values = {"values answers": {"a": 1.0, "b": 0.0}, "values notes": {"a": 0.2}}
    probes = {"values answers": {"a": 1, "b": 2}, "values notes": {"a": 3}}
    two = Standings(values=values, probes=probes)
    assert patient_means(two, ["a", "b", "c"], "values") == pytest.approx([0.4, 0.0])
    assert patient_means(two, ["a", "b", "c"], "identifiers") == []
    assert baseline_fault(two, ["a", "b", "c"]) is None
