"""Paired comparison of two models on the same questions, with a bootstrap over subjects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError
from medunlearn.statistics.bootstrap import LEVEL, REPLICATES, Array, Resampled, Statistic, resample_means, usable


@dataclass(frozen=True, slots=True)
class Difference:
    """A statistic of model a minus the same of model b, on the same observations.

    Attributes:
        difference: a - b; None where no observation is in both.
        low, high: percentile interval; None where none can be had (see :class:`~.bootstrap.Estimate`).
        p: two-sided p-value, in (0, 1], None where there is no interval. Twice the smaller share of
            replicates on either side of 0, zeros counted on both sides, one added above and below the
            fraction: ``min(1, 2 * (1 + min(#{d <= 0}, #{d >= 0})) / (1 + B))``. It is the interval turned
            round: p < 0.05 where the 95% interval leaves 0 out (up to 1/B). It cannot fall below
            2 / (1 + B) (Davison & Hinkley 1997, Section 4.2.5, for the added one).
        n_pairs: observations in both (for several columns: rows paired in every one of them).
        n_clusters: clusters behind them (for several columns: of the column that has fewest).
        replicates_dropped: replicates that drew no pair of some column.
    """

    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    n_pairs: int
    n_clusters: int
    replicates_dropped: int = 0


@dataclass(frozen=True, slots=True)
class ResampledPairs:
    """Means of k columns (``width``) of two models under the same draws; the columns of b follow those of a."""

    means: Resampled
    width: int

    def difference(
        self, columns: Sequence[int], statistic: Statistic | None = None, *, level: float = LEVEL
    ) -> Difference:
        """A statistic of some columns' means, of a minus of b; arguments as ``Resampled.estimate``.

        Raises:
            InputError: no column, a column outside 0..k-1, or a level outside (0, 1).
        """
        outside = [column for column in columns if not 0 <= column < self.width]
        if outside:
            raise InputError(f"There is no column {outside[0]}: the pairs have {self.width}, counted from 0.")
        both = [*columns, *(column + self.width for column in columns)]
        k = len(columns)

        def gap(means: Array) -> Array:
            ours, theirs = means[..., :k], means[..., k:]
            if statistic is None:
                return np.asarray(ours[..., 0] - theirs[..., 0], dtype=np.float64)
            return statistic(ours) - statistic(theirs)

        gaps = self.means.estimate(both, gap, level=level)
        p = None if gaps.low is None else two_sided_p(usable(self.means.draws[:, both], gap))
        return Difference(gaps.value, gaps.low, gaps.high, p, gaps.n, gaps.n_clusters, gaps.replicates_dropped)


def two_sided_p(draws: Array) -> float:
    """Two-sided bootstrap p-value of "no difference" (see :class:`Difference`), in (0, 1], from draws, [B]."""
    below, above = int((draws <= 0.0).sum()), int((draws >= 0.0).sum())
    return min(1.0, 2.0 * (1 + min(below, above)) / (1 + len(draws)))


def paired_difference(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    clusters: Sequence[object],
    *,
    replicates: int = REPLICATES,
    level: float = LEVEL,
    seed: int = 0,
) -> Difference:
    """Mean of a minus mean of b over the observations that both have.

    Args:
        a, b: one number an observation, shape [n], in the same order; NaN where there is none.
        clusters: whose observation each is (str or int), length n.

    Raises:
        InputError: lengths that differ, a missing cluster id, an infinite value.
    """
    first = np.asarray(a, dtype=np.float64).reshape(-1, 1)
    second = np.asarray(b, dtype=np.float64).reshape(-1, 1)
    pairs = resample_pairs(first, second, clusters, replicates=replicates, seed=seed)
    return pairs.difference([0], level=level)


def resample_pairs(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    clusters: Sequence[object],
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> ResampledPairs:
    """Draw the clusters again and again for two models at once.

    Args:
        a, b: shape [n, k], rows and columns in the same order; NaN where there is no observation. Where
            one of the two is missing, neither is used.

    Raises:
        InputError: shapes that differ, a missing cluster id, an infinite value.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 2:
        raise InputError(
            f"A paired comparison needs two tables of one shape, not {first.shape} and {second.shape}."
        )
    lonely = np.isnan(first) | np.isnan(second)
    joined = np.hstack([np.where(lonely, np.nan, first), np.where(lonely, np.nan, second)])
    return ResampledPairs(resample_means(joined, clusters, replicates=replicates, seed=seed), first.shape[1])
