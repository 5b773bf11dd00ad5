"""The paper's statistics and Kolmogorov-Smirnov against SciPy, and what is wrong with the paper's, shown."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from medunlearn.errors import InputError
from medunlearn.seeds import generator
from medunlearn.statistics import paired_difference, two_sample
from medunlearn.statistics.two_sample import PaperBootstrap, kolmogorov_smirnov, paper_bootstrap, rank_sum_test

CASES = {
    "no ties": (np.linspace(0, 1, 17), np.linspace(0.3, 1.4, 23) + 1e-3),
    "ties": (np.array([1, 2, 2, 3, 3, 3, 5]), np.array([2, 3, 3, 4, 4])),
    "far apart": (np.arange(30.0), np.arange(100.0, 140.0)),
    "one value": (np.array([1.0]), np.array([2.0, 3.0])),
}


def test_kolmogorov_smirnov_by_hand() -> None:
    # Two of each, apart: of the 6 orders of {a, a, b, b} two are this far out.
    result = kolmogorov_smirnov([1, 2], [3, 4])
    assert (result.statistic, result.p) == (1.0, pytest.approx(2 / 6))
    # Interleaved, no order is nearer.
    assert kolmogorov_smirnov([1, 3], [2, 4]).p == pytest.approx(1.0)
    assert kolmogorov_smirnov([1, 2, 3], [1, 2, 3]).statistic == 0.0
    assert kolmogorov_smirnov([1.0, math.inf], [2.0, 3.0]).statistic == 0.5
    for wrong in ([], [1.0, math.nan]):
        with pytest.raises(InputError, match="Kolmogorov"):
            kolmogorov_smirnov(wrong, [1.0])


@pytest.mark.parametrize(
    ("n", "m", "shift"),
    [(1, 1, 0.0), (5, 7, 0.4), (40, 25, 3.0), (200, 200, 0.4), (400, 400, 2.0), (400, 399, 9.0), (300, 400, 9.0)],
)
def test_kolmogorov_smirnov_is_scipys(n: int, m: int, shift: float) -> None:
    draw = generator("kolmogorov", n, m)
    for a, b in ((draw.normal(size=n), draw.normal(shift, size=m)), draw.integers(0, 4, (2, n)).astype(float)):
        result, oracle = kolmogorov_smirnov(a.tolist(), b.tolist()), stats.ks_2samp(a, b, method="exact")
        assert result.statistic == pytest.approx(oracle.statistic, abs=1e-12)
        assert result.p == pytest.approx(oracle.pvalue, rel=1e-12)
        assert result.log10_p == pytest.approx(math.log10(oracle.pvalue), abs=1e-12)


def test_tails_of_kolmogorov_smirnov_are_exact() -> None:
    # Samples of n that are wholly apart: two of the C(2n, n) orders. TOFU's forget10 has n = 400, and its published
    # p-value of a model that forgot everything is 1.06e-239.
    for n in (400, 600):
        result = kolmogorov_smirnov([0.0] * n, [1.0] * n)
        assert result.log10_p == pytest.approx(math.log10(2) - math.log10(math.comb(2 * n, n)), abs=1e-10)
    assert result.p == 0.0, "below the least float"
    assert kolmogorov_smirnov([0.0] * 400, [1.0] * 400).p == pytest.approx(1.06e-239, rel=0.005)
    # 1,000 each at a distance of 0.237: `1 - inside` is 0 there, and the published logs' 6e-23 with it.
    a, b = [0.0] * 237 + [2.0] * 763, [2.0] * 763 + [3.0] * 237
    assert kolmogorov_smirnov(a, b).p == pytest.approx(stats.ks_2samp(a, b, method="exact").pvalue, rel=1e-12)
    assert 0.0 < kolmogorov_smirnov(a, b).p < 1e-20


def test_large_samples_take_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = generator("kolmogorov", "limit")
    a, b = draw.normal(size=300).tolist(), draw.normal(0.1, size=300).tolist()
    exact = kolmogorov_smirnov(a, b).p
    apart = kolmogorov_smirnov([0.0] * 900, [1.0] * 900).log10_p
    monkeypatch.setattr(two_sample, "_MAX_EXACT", 1)
    assert kolmogorov_smirnov(a, b).p == pytest.approx(exact, abs=0.05)
    assert kolmogorov_smirnov(a, a).p == 1.0
    assert kolmogorov_smirnov(a, a).log10_p == 0.0
    # Where the limit's p is below the least float its logarithm goes on: log10(2) - 2 x^2 / ln 10, x^2 = n / 2.
    limit = kolmogorov_smirnov([0.0] * 900, [1.0] * 900)
    assert limit.log10_p == pytest.approx(math.log10(2) - 900 / math.log(10), rel=1e-9)
    assert limit.p == 0.0
    assert apart < limit.log10_p


@pytest.mark.parametrize("name", CASES)
def test_rank_sum_is_scipys(name: str) -> None:
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
    with pytest.raises(InputError, match="only numbers"):
        rank_sum_test([np.nan], [1.0])


def paper(values: np.ndarray, **settings: int) -> PaperBootstrap:
    result = paper_bootstrap(values, **settings)
    assert result is not None
    return result


def test_the_bootstrap_draws_a_hundred_of_a_hundred() -> None:
    values = np.r_[np.zeros(900), np.ones(100), np.nan]
    result = paper(values, seed=3)
    assert result.n == 1000
    assert result.means.shape == (100,)
    assert set(np.round(result.means * 100, 9) % 1) == {0.0}
    # A mean of 100 draws at a rate of 0.1 scatters by 0.03; that of 10,000 by 0.003.
    assert result.mean == pytest.approx(0.1, abs=0.01)
    assert np.std(result.means) == pytest.approx(0.03, rel=0.3)
    assert result.low < 0.1 < result.high
    np.testing.assert_array_equal(result.means, paper(values, seed=3).means)
    assert paper_bootstrap([np.nan]) is None
    with pytest.raises(InputError, match="at least one"):
        paper_bootstrap([1.0], draws=0)


def rejections(draws: int, trials: int) -> tuple[float, float]:
    """Shares of trials in which a true null is rejected at 5%: in the paper's way, and paired.

    Two models that memorize equally: each instance's number is drawn from one law for both.
    """
    theirs = paired = 0
    for trial in range(trials):
        rng = np.random.default_rng([draws, trial])
        a, b = rng.normal(size=300), rng.normal(size=300)
        first, second = paper(a, draws=draws, seed=2 * trial), paper(b, draws=draws, seed=2 * trial + 1)
        theirs += rank_sum_test(first.means, second.means)[1] < 0.05
        p = paired_difference(a, b, [*range(300)], replicates=200, seed=trial).p
        paired += p is not None and p < 0.05
    return theirs / trials, paired / trials


def test_the_papers_test_rejects_a_true_null_far_too_often() -> None:
    few, _ = rejections(20, 120)
    hundred, paired = rejections(100, 120)
    assert 0.2 < few < hundred
    assert hundred > 0.5
    # The paired bootstrap over subjects keeps its level: of 120 trials 5% are 6, and 14 have a chance of 1 in 500.
    assert paired <= 14 / 120
