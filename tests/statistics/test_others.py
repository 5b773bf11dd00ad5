"""A few subjects against others: levels, bounds, and what it says of little data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, combine_pvalues, t

from medunlearn.statistics.others import (
    OthersGap,
    Surprise,
    chance_of_hits,
    chance_of_share,
    chance_of_surprise,
    compare_with_others,
)


def test_by_hand() -> None:
    gap = compare_with_others([0.9], [0.4, 0.5, 0.6, 0.5])
    assert gap is not None
    spread = math.sqrt((0.01 + 0.01) / 3)
    error = spread * math.sqrt(1 + 1 / 4)
    assert gap.value == pytest.approx(0.4)
    assert gap.p == pytest.approx(t.sf(0.4 / error, 3))
    assert (gap.low, gap.high) == pytest.approx((0.4 - t.ppf(0.95, 3) * error, 0.4 + t.ppf(0.95, 3) * error))
    assert gap.others == 4


@pytest.mark.parametrize("few", [1, 3])
@pytest.mark.parametrize("others", [3, 12])
def test_level_and_coverage_where_all_are_drawn_alike(few: int, others: int) -> None:
    """1000 draws: p below 0.05 in 5% of them, give or take 4 standard errors (0.028), and so for the bound."""
    rng = np.random.default_rng(0)
    draws = rng.normal(0.5, 0.1, size=(1000, few + others))
    gaps = [compare_with_others(row[:few].tolist(), row[few:].tolist()) for row in draws]
    estimate = np.mean([gap is not None and gap.p < 0.05 for gap in gaps])
    missed = np.mean([gap is not None and gap.high < 0.0 for gap in gaps])
    assert estimate == pytest.approx(0.05, abs=0.028)
    assert missed == pytest.approx(0.05, abs=0.028)


def test_little_data() -> None:
    assert compare_with_others([], [0.1, 0.2, 0.3]) is None
    assert compare_with_others([0.5], [0.1, 0.2]) is None


def test_others_who_hardly_differ() -> None:
    assert compare_with_others([0.5], [0.5] * 5) == OthersGap(0.0, 0.0, 0.0, 1.0, 5)
    above = compare_with_others([0.51], [0.5] * 5)
    assert above is not None
    assert above.p == 0.0
    floored = compare_with_others([0.51], [0.5] * 5, least_spread=0.05)
    assert floored is not None
    assert floored.p > 0.4
    assert floored.high > 0.1


def surprises(draws: np.random.Generator, patients: int, facts: int) -> list[Surprise]:
    """Patients nobody knows: each fact's true value has any place among 59 made-up ones."""
    p = draws.integers(1, 61, size=(patients, facts)) / 60
    return [Surprise(float(-np.log(row).mean()), facts) for row in p]


@pytest.mark.parametrize("facts", [1, 2, 8])
@pytest.mark.parametrize("others", [3, 12])
def test_surprise_keeps_its_level(facts: int, others: int) -> None:
    """1000 draws: p below 0.05 in at most 5% of them and 4 standard errors (0.028), below 0.005 in at most 1.4%."""
    draws = np.random.default_rng(0)
    estimate = []
    for _ in range(1000):
        p = chance_of_surprise(surprises(draws, 1, facts), surprises(draws, others, facts))
        assert p is not None
        estimate.append(p)
    assert np.mean(np.array(estimate) < 0.05) < 0.05 + 0.028
    assert np.mean(np.array(estimate) < 0.005) < 0.005 + 0.009


def test_few_facts_that_all_rank_first_are_found_where_a_mean_of_ranks_is_not() -> None:
    draws = np.random.default_rng(1)
    few = Surprise(math.log(60), 2)
    weaker = []
    for _ in range(100):
        p = draws.integers(1, 61, size=(12, 2)) / 60
        chance = chance_of_surprise([few], [Surprise(float(-np.log(row).mean()), 2) for row in p])
        by_ranks = compare_with_others([1 - 1 / 120], (1 - p.mean(axis=1)).tolist())
        assert chance is not None
        assert by_ranks is not None
        weaker.append((chance, by_ranks.p))
    estimate, missed = np.median(np.array(weaker), axis=0)
    assert estimate < 0.005 < 0.01 < missed


def test_surprise_is_at_least_fishers_combination() -> None:
    p = [0.02, 0.3, 0.01]
    single = Surprise(-math.fsum(map(math.log, p)) / 3, 3)
    # Others who hardly differ would make anything rare.
    chance = chance_of_surprise([single], [Surprise(1.0, 3), Surprise(1.001, 3), Surprise(0.999, 3)])
    assert chance == pytest.approx(combine_pvalues(p, method="fisher").pvalue)
    assert chance_of_surprise([single], [Surprise(1.0, 3)] * 2) is None


def test_a_mean_over_fewer_probes_varies_more() -> None:
    """Others of one size give the unweighted interval; means of k draws have the right coverage whatever k is."""
    others = [0.4, 0.5, 0.55, 0.6]
    plain, alike = (compare_with_others([0.7], others, sizes=sizes) for sizes in (None, ([8], [8] * 4)))
    assert plain is not None
    assert alike is not None
    assert (alike.value, alike.high) == pytest.approx((plain.value, plain.high))
    draws, above = np.random.default_rng(0), 0
    for _ in range(2000):
        sizes = [int(size) for size in draws.integers(2, 12, 12)]
        gap = compare_with_others(
            [float(draws.uniform(size=3).mean())],
            [float(draws.uniform(size=size).mean()) for size in sizes],
            sizes=([3], sizes),
        )
        assert gap is not None
        above += gap.high < 0
    assert above / 2000 == pytest.approx(0.05, abs=3 * (0.05 * 0.95 / 2000) ** 0.5)


def test_a_subject_with_more_probes_than_any_other_counts_as_the_largest() -> None:
    many, most = (compare_with_others([0.7], [0.4, 0.5, 0.6], sizes=([size], [2, 4, 8])) for size in (800, 8))
    assert many == most


def test_a_share_of_hits_by_hand_and_beside_the_binomial() -> None:
    others = [(0.0, 8)] * 12
    assert chance_of_share(1.0, 8, others) == pytest.approx(97.0**-8)
    assert chance_of_share(0.0, 8, others) == 1.0
    for hits in range(1, 9):
        exact = binom.sf(hits - 1, 8, 1 / 97)
        assert chance_of_hits(hits, 8, 1 / 97) == pytest.approx(exact)
        assert exact <= chance_of_share(hits / 8, 8, others) <= 1.0
    assert chance_of_hits(0, 8, 1 / 97) == 1.0
