"""Trends against numpy's and SciPy's lines, and against the paired difference."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from medunlearn.errors import InputError
from medunlearn.statistics.paired import paired_difference
from medunlearn.statistics.trend import paired_trend, trend_between

RNG = np.random.default_rng(3)
VALUES = RNG.random((40, 4)) + np.arange(4) * 0.2
SUBJECTS = [f"s{row // 2}" for row in range(40)]


def test_the_slope_is_the_mean_of_the_records_own_lines():
    places = [50.0, 100.0, 200.0, 500.0]
    own = [np.polyfit(places, row, 1)[0] for row in VALUES]
    estimate = paired_trend(VALUES, SUBJECTS, places)
    assert estimate.value == pytest.approx(np.mean(own), rel=1e-9)
    assert estimate.low < estimate.value < estimate.high
    assert (estimate.n, estimate.n_clusters) == (40, 20)
    of_subject = np.array(own).reshape(20, 2).mean(axis=1)
    assert estimate.p == pytest.approx(stats.ttest_1samp(of_subject, 0.0).pvalue, rel=1e-5)


def test_two_levels_are_a_paired_difference():
    estimate = paired_trend(VALUES[:, :2], SUBJECTS)
    paired = paired_difference(VALUES[:, 1], VALUES[:, 0], SUBJECTS)
    assert estimate.value == pytest.approx(paired.value, abs=1e-12)
    assert (estimate.low, estimate.high) == pytest.approx((paired.low, paired.high), abs=1e-12)
    assert estimate.p == paired.p


def test_a_record_without_a_level_is_left_out():
    table = VALUES.copy()
    table[0, 3] = np.nan
    estimate, whole = paired_trend(table, SUBJECTS), paired_trend(VALUES[1:], SUBJECTS[1:])
    assert estimate.n == 39
    assert estimate.value == pytest.approx(whole.value)


def test_between_records_it_is_the_regression_line():
    x = np.repeat([0.0, 1.0, 2.0, 3.0], 10)
    y = 0.3 * x + RNG.random(40)
    estimate = trend_between(y, x, SUBJECTS)
    assert estimate.value == pytest.approx(stats.linregress(x, y).slope, rel=1e-9)
    assert estimate.low < estimate.value < estimate.high
    y[0] = np.nan
    assert trend_between(y, x, SUBJECTS).value == pytest.approx(stats.linregress(x[1:], y[1:]).slope, rel=1e-9)


def test_one_level_has_no_slope():
    estimate = trend_between([1.0, 0.0, 1.0], [2.0, 2.0, 2.0], ["a", "b", "c"])
    assert (estimate.value, estimate.low, estimate.p) == (None, None, None)


@pytest.mark.parametrize(
    ("values", "places", "words"),
    [([[1.0], [2.0]], None, "at least two levels"), ([[1.0, 2.0]], [3.0, 3.0], "not all equal")],
)
def test_mistakes(values, places, words):
    with pytest.raises(InputError, match=words):
        paired_trend(values, ["a"] * len(values), places)


def test_lengths_that_differ():
    with pytest.raises(InputError, match="3 values do not fit 2 levels"):
        trend_between([1.0, 2.0, 3.0], [1.0, 2.0], ["a", "b", "c"])
