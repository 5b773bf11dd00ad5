"""Paired comparison of two models on the same questions, with intervals over subjects."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError
from medunlearn.statistics.bootstrap import (
    REPLICATES,
    Clusters,
    Resampled,
    Statistic,
    cluster_codes,
    per_cluster,
    resample_means,
    usable,
)
from medunlearn.statistics.intervals import (
    LEVEL,
    UNIT,
    Array,
    Bounds,
    Estimate,
    PairedDifference,
    SubjectMean,
    Uncertainty,
    mean_over_subjects,
    paired_over_subjects,
)


@dataclass(frozen=True, slots=True)
class ResampledPairs:
    """Means of k columns (``width``) of two models with shared draws; the columns of b follow those of a.

    ``gains`` and ``losses`` are each cluster's sums of a - b where it is above and below 0, shape [S, k].
    """

    means: Resampled
    width: int
    gains: Array
    losses: Array

    def difference(
        self,
        columns: Sequence[int],
        statistic: Statistic | None = None,
        *,
        bounds: Bounds | None = None,
        level: float = LEVEL,
    ) -> Estimate:
        """A statistic of some columns' means, for a minus b; arguments as in ``Resampled.estimate``.

        For bounded means the interval is that of gains and losses (:class:`~.intervals.PairedDifference`); for a
        bounded statistic that is rare in one model, that of the two models' numbers: replicates of few subjects
        who leak hold no subject who leaks.

        Args:
            bounds: range of either model's number, not of the difference.

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

        if statistic is None and bounds is None and self.means.unit[both].all():
            bounds = UNIT
        span = None if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])
        if statistic is not None or not columns:
            estimate = self.means.estimate(both, gap, bounds=span, level=level)
            if statistic is None or estimate.value is None:
                return estimate
            rare = self._rare_difference(columns, statistic, bounds)
            if rare is None:
                return estimate
            counts = estimate.n, estimate.n_clusters, estimate.replicates_dropped
            return Estimate.of(estimate.value, rare, *counts, level)
        (n, n_clusters), point = self.means.sizes(both), usable(self.means.point[np.newaxis, both], gap)
        if not len(point):
            return Estimate(None, None, None, n, n_clusters)
        paired = self._mean_difference(columns[0], bounds)
        return Estimate.of(float(point[0]), paired, n, n_clusters, self.means.dropped(both), level)

    def _rare_difference(
        self, columns: Sequence[int], statistic: Statistic, bounds: Bounds | None
    ) -> PairedDifference | None:
        """A statistic's difference from the intervals of both models; None where neither number is rare."""
        k, theirs = len(columns), [column + self.width for column in columns]
        sides = [self.means.estimate(side, statistic, bounds=bounds).uncertainty for side in (columns, theirs)]
        first, second = sides
        if not (isinstance(first, SubjectMean) and isinstance(second, SubjectMean)):
            return None
        if not (first.is_rare or second.is_rare):
            return None
        draws = self.means.draws[:, [*columns, *theirs]]
        draws = draws[~np.isnan(draws).any(axis=1)]
        halves = [np.asarray(statistic(part), dtype=np.float64) for part in (draws[..., :k], draws[..., k:])]
        numbers = np.stack(halves)
        numbers = numbers[:, np.isfinite(numbers).all(axis=0)]
        varies = numbers.shape[1] > 1 and (numbers.std(axis=1) > 0).all()
        correlation = float(np.asarray(np.corrcoef(numbers))[0, 1]) if varies else 0.0
        return PairedDifference(first, second, correlation)

    def _mean_difference(self, column: int, bounds: Bounds | None) -> Uncertainty | None:
        gains, losses, counts = self.gains[:, column], self.losses[:, column], self.means.counts[:, column]
        if bounds is not None and math.isfinite(bounds[1] - bounds[0]):
            return paired_over_subjects(gains, losses, counts, bounds)
        return mean_over_subjects(gains - losses, counts)


def paired_difference(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    clusters: Sequence[object],
    *,
    replicates: int = REPLICATES,
    level: float = LEVEL,
    seed: int = 0,
) -> Estimate:
    """Mean of a minus mean of b over their common observations.

    Args:
        a, b: one number per observation, shape [n], in the same order; NaN if there is none.
        clusters: cluster id of each observation (str or int), length n.

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
    clusters: Clusters,
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> ResampledPairs:
    """Resample the clusters repeatedly for two models at once.

    Args:
        a, b: shape [n, k], rows and columns in the same order; NaN if there is no observation. If one of the two is
            missing, neither is used.

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
    means = resample_means(joined, clusters, replicates=replicates, seed=seed)
    gaps = np.where(lonely, 0.0, np.where(lonely, 0.0, first) - np.where(lonely, 0.0, second))
    codes, n_clusters = cluster_codes(clusters)
    gains, losses = (per_cluster(np.maximum(part, 0.0), codes, n_clusters) for part in (gaps, -gaps))
    return ResampledPairs(means, first.shape[1], gains, losses)
