"""A few subjects against others: levels, bounds, and what it says of little data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t

from medunlearn.statistics.others import OthersGap, compare_with_others


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
    found = np.mean([gap is not None and gap.p < 0.05 for gap in gaps])
    missed = np.mean([gap is not None and gap.high < 0.0 for gap in gaps])
    assert found == pytest.approx(0.05, abs=0.028)
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
