"""Tests of two samples, and the memorization paper's bootstrap procedure.

The paper's own procedure (100 draws of 100 instances, and a rank-sum test over the draws' means) is included only
for comparison with the paper's numbers. All draws of a model come from one set of instances, so the test compares
the means of two *sets of instances*, which are never exactly equal: at 100 draws it rejects a true null about seven
times in ten, not one in twenty. Its interval is that of a mean over 100 instances, regardless of their number, and
ignores subjects. :mod:`~medunlearn.statistics.paired` has neither problem.

Source of the procedure: Memorization in Large Language Models in Medicine, Section 3.1, "Bootstrapping and
statistical analysis".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import comb, erfc, lcm, log, log10, sqrt

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError
from medunlearn.seeds import generator
from medunlearn.statistics.intervals import LEVEL, Array

SIZE, DRAWS = 100, 100
WARNING = (
    "The paper's rank-sum test over bootstrap means rejects a true null in most cases, and its intervals are those "
    "of 100 instances and know no subjects. Read them beside the paper's numbers alone."
)

_MAX_EXACT = 4_000_000
"""Largest product of the sizes for an exact p-value; above it Kolmogorov's limit is used."""


@dataclass(frozen=True, slots=True)
class KolmogorovSmirnov:
    """Largest distance of the two empirical distribution functions, 0-1, and its p-value, exact without ties.

    Attributes:
        log10_p: base-10 logarithm of the p-value, finite even if ``p`` underflows to 0.
    """

    statistic: float
    p: float
    log10_p: float


@dataclass(frozen=True, slots=True)
class PaperBootstrap:
    """Mean and percentile interval of the draws' ``means`` (one per draw), and number ``n`` of instances."""

    mean: float
    low: float
    high: float
    means: Array
    n: int


def kolmogorov_smirnov(first: Sequence[float], second: Sequence[float]) -> KolmogorovSmirnov:
    """Two-sided test whether two samples come from the same distribution. Infinite values count as the largest.

    The p-value is the share of orders of the pooled values with at least this distance, in exact integer
    arithmetic, so that even tiny p-values are exact.

    Raises:
        InputError: an empty sample, or NaN in one.

    Source: Hodges 1958 (exact p-value); Kolmogorov 1933 (limit).
    """
    a, b = (np.sort(np.asarray(values, dtype=np.float64)) for values in (first, second))
    if not len(a) or not len(b):
        raise InputError("A Kolmogorov-Smirnov test needs two samples that are not empty.")
    if np.isnan(a).any() or np.isnan(b).any():
        raise InputError("A Kolmogorov-Smirnov test cannot order NaN: drop such values and report them.")
    pooled, common = np.concatenate([a, b]), lcm(len(a), len(b))
    ranks = (np.searchsorted(values, pooled, side="right") * (common // len(values)) for values in (a, b))
    gap = int(np.abs(next(ranks) - next(ranks)).max())
    distance = gap / common
    if len(a) * len(b) > _MAX_EXACT:
        x = distance * sqrt(len(a) * len(b) / (len(a) + len(b)))
        # Imported here: SciPy takes longer to load than most commands take to run.
        from scipy.stats import kstwobign

        p = float(kstwobign.sf(x))
        return KolmogorovSmirnov(distance, p, log10(p) if p > 0.0 else log10(2) - 2 * x * x / log(10))
    outside, paths = _paths_outside(len(a), len(b), gap)
    return KolmogorovSmirnov(distance, outside / paths, log10(outside) - log10(paths))


def _paths_outside(n: int, m: int, gap: int) -> tuple[int, int]:
    """Numbers of lattice paths from (0, 0) to (n, m) that reach ``|i / n - j / m| >= gap / lcm(n, m)``, and of all
    paths.
    """
    step, rise = lcm(n, m) // n, lcm(n, m) // m
    inside = [1] + [0] * m
    for i in range(n + 1):
        # Column i: the j with |i * step - j * rise| < gap; each is reached from the left or from below.
        band = slice(max(0, (i * step - gap) // rise + 1), min(m, (i * step + gap - 1) // rise) + 1)
        inside[band] = accumulate(inside[band])
    paths = comb(n + m, n)
    return paths - (inside[m] if gap else 0), paths


def rank_sum_test(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[float, float]:
    """Two-sided Wilcoxon rank-sum test: z, above 0 if a's values are larger, and p by the normal approximation.

    Tied values share their mean rank, and the variance is corrected for them. If all values are equal, z is 0 and p
    is 1.

    Raises:
        InputError: a side without values, or with one that is not a number.

    Source: Wilcoxon 1945; Mann & Whitney 1947; Lehmann 1975, Section 1.4 (ties).
    """
    first, second = np.asarray(a, dtype=np.float64).ravel(), np.asarray(b, dtype=np.float64).ravel()
    both = np.concatenate([first, second])
    if not len(first) or not len(second) or np.isnan(both).any():
        raise InputError("A rank-sum test needs at least one value on each side, and only numbers.")
    from scipy.stats import rankdata, tiecorrect

    ranks, m, n = rankdata(both), len(first), len(second)
    variance = float(tiecorrect(ranks)) * m * n * (m + n + 1) / 12
    if variance <= 0:
        return 0.0, 1.0
    z = float((ranks[:m].sum() - m * (m + n + 1) / 2) / sqrt(variance))
    return z, erfc(abs(z) / sqrt(2))


def paper_bootstrap(
    values: npt.ArrayLike, *, size: int = SIZE, draws: int = DRAWS, seed: int = 0, level: float = LEVEL
) -> PaperBootstrap | None:
    """Means of ``size`` instances drawn with replacement, ``draws`` times; None without instances.

    Values are one number per instance, [n]; NaN if there is none.

    Raises:
        InputError: fewer than one instance per draw, or fewer than one draw.
    """
    if size < 1 or draws < 1:
        raise InputError(f"A bootstrap of {draws} draws of {size} instances is empty: use at least one of each.")
    observed = np.asarray(values, dtype=np.float64)
    observed = observed[~np.isnan(observed)]
    if not len(observed):
        return None
    places = generator("paper bootstrap", seed).integers(len(observed), size=(draws, size))
    means = observed[places].mean(axis=1)
    low, high = np.quantile(means, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return PaperBootstrap(float(means.mean()), float(low), float(high), means, len(observed))
