"""The two-sample Kolmogorov-Smirnov test, by hand and against SciPy."""

from __future__ import annotations

import math

import pytest
from scipy.stats import ks_2samp

from medunlearn.errors import InputError
from medunlearn.seeds import generator
from medunlearn.statistics import two_sample
from medunlearn.statistics.two_sample import kolmogorov_smirnov


def test_by_hand() -> None:
    # Two of each, apart: of the 6 orders of {a, a, b, b} two are this far out.
    found = kolmogorov_smirnov([1, 2], [3, 4])
    assert found.statistic == 1.0
    assert found.p == pytest.approx(2 / 6)
    # Interleaved, no order is nearer.
    assert kolmogorov_smirnov([1, 3], [2, 4]).p == pytest.approx(1.0)
    assert kolmogorov_smirnov([1, 2, 3], [1, 2, 3]).statistic == 0.0


@pytest.mark.parametrize(("n", "m"), [(1, 1), (4, 4), (5, 7), (40, 40), (40, 25), (1, 30), (200, 200), (400, 400)])
@pytest.mark.parametrize("shift", [0.0, 0.4, 3.0])
def test_as_scipy(n: int, m: int, shift: float) -> None:
    draw = generator("kolmogorov", n, m)
    a, b = draw.normal(size=n), draw.normal(shift, size=m)
    found, wanted = kolmogorov_smirnov(a.tolist(), b.tolist()), ks_2samp(a, b, method="exact")
    assert found.statistic == pytest.approx(wanted.statistic, abs=1e-12)
    assert found.p == pytest.approx(wanted.pvalue, rel=1e-6, abs=1e-12)


def test_ties_are_as_scipys() -> None:
    a, b = [0.0, 0.0, 0.5, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]
    assert kolmogorov_smirnov(a, b).p == pytest.approx(ks_2samp(a, b, method="exact").pvalue)


def test_large_samples_take_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = generator("kolmogorov", "limit")
    a, b = draw.normal(size=300).tolist(), draw.normal(0.1, size=300).tolist()
    exact = kolmogorov_smirnov(a, b).p
    monkeypatch.setattr(two_sample, "_MAX_EXACT", 1)
    assert kolmogorov_smirnov(a, b).p == pytest.approx(exact, abs=0.05)
    assert kolmogorov_smirnov(a, a).p == 1.0


def test_infinity_counts_as_the_largest() -> None:
    assert kolmogorov_smirnov([1.0, math.inf], [2.0, 3.0]).statistic == 0.5


@pytest.mark.parametrize("bad", [[], [1.0, math.nan]])
def test_refuses(bad: list[float]) -> None:
    with pytest.raises(InputError, match="Kolmogorov"):
        kolmogorov_smirnov(bad, [1.0])
