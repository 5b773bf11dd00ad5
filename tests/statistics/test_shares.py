"""Exact shares and tests against scipy, and against tables that are counted by hand."""

from __future__ import annotations

import pytest
from scipy import stats

from medunlearn.errors import InputError
from medunlearn.seeds import generator
from medunlearn.statistics.shares import (
    SubjectShare,
    compare_paired_shares,
    compare_shares,
    fisher_p,
    sign_test,
)


@pytest.mark.parametrize(
    "table", [(60, 60, 0, 40), (3, 10, 1, 12), (7, 7, 5, 5), (0, 9, 0, 4), (1, 30, 6, 25), (400, 1000, 380, 900)]
)
def test_fisher_is_scipys(table: tuple[int, int, int, int]):
    a, n, b, m = table
    ours = fisher_p(SubjectShare(a, n), SubjectShare(b, m))
    assert ours == pytest.approx(stats.fisher_exact([[a, n - a], [b, m - b]]).pvalue, rel=1e-6)


def test_fisher_by_hand():
    # Two of 4 patients are hit: both in the first pair is one way of choose(4, 2) = 6, and so is its mirror.
    assert fisher_p(SubjectShare(2, 2), SubjectShare(0, 2)) == pytest.approx(2 / 6)


@pytest.mark.parametrize("pair", [(5, 0), (3, 3), (9, 2), (0, 0)])
def test_the_sign_test_is_the_binomial_test(pair: tuple[int, int]):
    n = sum(pair)
    expected = stats.binomtest(pair[0], n, 0.5).pvalue if n else 1.0
    assert sign_test(*pair) == pytest.approx(expected)


def test_intervals_hold_the_difference_and_stay_within_bounds():
    gap = compare_shares(SubjectShare(60, 60), SubjectShare(0, 40))
    assert gap.value == 1.0
    assert gap.high == pytest.approx(1.0)
    # MOVER by hand: the lower ends of both Clopper-Pearson intervals.
    down, up = 0.025 ** (1 / 60), 1 - 0.025 ** (1 / 40)
    assert gap.low == pytest.approx(1 - ((1 - down) ** 2 + up**2) ** 0.5)
    same = compare_shares(SubjectShare(3, 30), SubjectShare(3, 30))
    assert same.low is not None
    assert same.high is not None
    assert same.low == pytest.approx(-same.high)
    assert same.p == pytest.approx(1.0)


def test_paired_shares_count_only_who_differs():
    gap = compare_paired_shares(only_first=8, only_second=1, both=20, n=40)
    assert gap.value == pytest.approx(7 / 40)
    assert gap.p == pytest.approx(stats.binomtest(8, 9, 0.5).pvalue)
    alike = compare_paired_shares(0, 0, 30, 30)
    assert (alike.value, alike.p) == (0.0, 1.0)
    # Two models that never differ on 30 patients differ by at most 11.6%.
    assert alike.high == pytest.approx(1 - 0.025 ** (1 / 30))


def test_few_subjects_have_no_interval_and_nobody_no_share():
    assert SubjectShare(1, 4).limits == (None, None)
    assert compare_shares(SubjectShare(4, 4), SubjectShare(0, 9)).low is None
    assert compare_shares(SubjectShare(0, 0), SubjectShare(0, 9)).p is None
    with pytest.raises(InputError):
        SubjectShare(3, 2)
    with pytest.raises(InputError):
        compare_paired_shares(3, 3, 3, 8)


@pytest.mark.parametrize("rate", [0.02, 0.2, 0.5])
def test_two_alike_groups_are_rarely_called_different(rate: float):
    """A true null is above its control at 5% in at most 25 of 1,000 trials: the test is two-sided and exact."""
    draw = generator("false alarms", str(rate))
    alarms = 0
    for _ in range(1000):
        first, second = (
            SubjectShare(int(draw.binomial(60, rate)), 60),
            SubjectShare(int(draw.binomial(40, rate)), 40),
        )
        gap = compare_shares(first, second)
        assert gap.value is not None
        assert gap.p is not None
        alarms += gap.value > 0 and gap.p < 0.05
    # 25 of 1,000 in the mean, and 40 with a chance of one in 400.
    assert alarms <= 40
