"""The paper's statistics against SciPy, and what is wrong with them, shown."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from medunlearn.errors import InputError
from medunlearn.statistics import bootstrap_mean, paired_difference
from medunlearn.statistics.two_sample import paper_bootstrap, rank_sum_test

CASES = {
    "no ties": (np.linspace(0, 1, 17), np.linspace(0.3, 1.4, 23) + 1e-3),
    "ties": (np.array([1, 2, 2, 3, 3, 3, 5]), np.array([2, 3, 3, 4, 4])),
    "far apart": (np.arange(30.0), np.arange(100.0, 140.0)),
    "one value": (np.array([1.0]), np.array([2.0, 3.0])),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_scipys_test(name: str) -> None:
    a, b = CASES[name]
    z, p = rank_sum_test(a, b)
    oracle = stats.mannwhitneyu(a, b, alternative="two-sided", method="asymptotic", use_continuity=False)
    assert p == pytest.approx(oracle.pvalue, rel=1e-9)
    if name != "ties":
        theirs = stats.ranksums(a, b)
        assert (z, p) == (pytest.approx(theirs.statistic, rel=1e-12), pytest.approx(theirs.pvalue, rel=1e-9))


def test_equal_values_and_no_values() -> None:
    assert rank_sum_test([1.0, 1.0], [1.0, 1.0, 1.0]) == (0.0, 1.0)
    with pytest.raises(InputError, match="at least one value"):
        rank_sum_test([], [1.0])
    with pytest.raises(InputError, match="numbers alone"):
        rank_sum_test([np.nan], [1.0])


def test_the_bootstrap_draws_a_hundred_of_a_hundred() -> None:
    values = np.r_[np.zeros(900), np.ones(100), np.nan]
    found = paper_bootstrap(values, seed=3)
    assert found is not None
    assert found.n == 1000
    assert found.means.shape == (100,)
    assert set(np.round(found.means * 100, 9) % 1) == {0.0}
    # A mean of 100 draws at a rate of 0.1 scatters by 0.03; that of 10,000 by 0.003.
    assert found.mean == pytest.approx(0.1, abs=0.01)
    assert np.std(found.means) == pytest.approx(0.03, rel=0.3)
    assert found.low < 0.1 < found.high
    again = paper_bootstrap(values, seed=3)
    assert again is not None
    np.testing.assert_array_equal(found.means, again.means)
    assert paper_bootstrap([np.nan]) is None
    with pytest.raises(InputError, match="at least one"):
        paper_bootstrap([1.0], draws=0)


def test_its_interval_knows_not_how_many_instances_there_are() -> None:
    """Ten times the data leave it as wide, while the bootstrap over subjects narrows."""
    few, many = np.arange(100) % 10 == 0, np.arange(10_000) % 10 == 0
    paper = [paper_bootstrap(values.astype(float)) for values in (few, many)]
    ours = [bootstrap_mean(values.astype(float), [*range(len(values))], replicates=200) for values in (few, many)]
    assert paper[0] is not None
    assert paper[1] is not None
    wide = [one.high - one.low for one in paper if one is not None]
    assert wide[1] > 0.7 * wide[0]
    assert ours[0].low is not None
    assert ours[1].low is not None
    assert (ours[1].high or 0) - ours[1].low < 0.2 * ((ours[0].high or 0) - ours[0].low)


def rejections(draws: int, trials: int = 120) -> tuple[float, float, float]:
    """Shares of trials in which a true null is rejected at 5%: the paper's way, SciPy's on the same, paired.

    Two models that memorize equally: each instance's number is drawn from one law for both.
    """
    paper = oracle = paired = 0
    for trial in range(trials):
        rng = np.random.default_rng([draws, trial])
        a, b = rng.normal(size=300), rng.normal(size=300)
        one, other = (
            paper_bootstrap(a, draws=draws, seed=2 * trial),
            paper_bootstrap(b, draws=draws, seed=2 * trial + 1),
        )
        assert one is not None
        assert other is not None
        paper += rank_sum_test(one.means, other.means)[1] < 0.05
        oracle += stats.ranksums(one.means, other.means).pvalue < 0.05
        found = paired_difference(a, b, [*range(300)], replicates=200, seed=trial)
        paired += found.p is not None and found.p < 0.05
    return paper / trials, oracle / trials, paired / trials


def test_the_papers_test_rejects_a_true_null_far_too_often() -> None:
    few, _, _ = rejections(20)
    hundred, oracle, paired = rejections(100)
    thousand, _, _ = rejections(1000, trials=60)
    assert hundred == oracle
    assert 0.2 < few < hundred < thousand
    assert hundred > 0.5
    # The paired bootstrap over subjects keeps its level: of 120 trials 5% are 6, and 14 have a chance of 1 in 500.
    assert paired <= 14 / 120
