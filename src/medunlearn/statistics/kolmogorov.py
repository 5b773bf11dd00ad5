"""The two-sample Kolmogorov-Smirnov test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, floor, sqrt

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError

_MOST_EXACT = 4_000_000
"""Largest product of the sizes for which the p-value is counted out; beyond it Kolmogorov's limit is used."""


@dataclass(frozen=True, slots=True)
class KolmogorovSmirnov:
    """Result of the test.

    Attributes:
        statistic: largest distance of the two empirical distribution functions, 0-1.
        p: chance of a distance at least as large if both samples are drawn from one distribution, 0-1; exact for
            samples without ties.
    """

    statistic: float
    p: float


def kolmogorov_smirnov(first: Sequence[float], second: Sequence[float]) -> KolmogorovSmirnov:
    """Whether two samples could come from one distribution; two-sided.

    Infinite values count as the largest.

    Raises:
        InputError: an empty sample, or NaN in one.
    """
    a, b = np.sort(np.asarray(first, dtype=np.float64)), np.sort(np.asarray(second, dtype=np.float64))
    if not len(a) or not len(b):
        raise InputError("A Kolmogorov-Smirnov test needs two samples that are not empty.")
    if np.isnan(a).any() or np.isnan(b).any():
        raise InputError("A Kolmogorov-Smirnov test cannot order NaN: leave such values out and say so.")
    everything = np.concatenate([a, b])
    below = np.searchsorted(a, everything, side="right") / len(a)
    distance = float(np.abs(below - np.searchsorted(b, everything, side="right") / len(b)).max())
    return KolmogorovSmirnov(distance, _p(distance, len(a), len(b)))


def _p(distance: float, n: int, m: int) -> float:
    if n * m > _MOST_EXACT:
        scaled = distance * sqrt(n * m / (n + m))
        terms = ((-1) ** (k - 1) * exp(-2.0 * (k * scaled) ** 2) for k in range(1, 101))
        return min(1.0, max(0.0, 2.0 * sum(terms))) if scaled > 0.04 else 1.0
    return min(1.0, max(0.0, 1.0 - _inside(distance, n, m)))


def _inside(distance: float, n: int, m: int) -> float:
    """Chance that the distance stays below: paths through the grid that never leave the band (Hodges 1958).

    ``share[j]`` is the share of the paths to grid point (i, j) that stay inside, over all paths to it.
    """
    # Half a step below what was seen, so that a path as far out as that counts as outside.
    band = (0.5 + floor(distance * n * m - 1e-7)) / (n * m)
    columns = np.arange(m + 1) / m
    share: npt.NDArray[np.float64] = (columns <= band).astype(np.float64)
    for i in range(1, n + 1):
        inside = np.abs(i / n - columns) <= band
        share = _next_row(share, inside, i)
    return float(share[m])


def _next_row(share: npt.NDArray[np.float64], inside: npt.NDArray[np.bool_], i: int) -> npt.NDArray[np.float64]:
    row = np.zeros_like(share)
    left = 0.0
    for j in np.flatnonzero(inside).tolist():
        before = left if j and inside[j - 1] else 0.0
        left = (share[j] * i + before * j) / (i + j)
        row[j] = left
    return row
