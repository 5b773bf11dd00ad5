"""Means over clusters, and their bootstrap: whole subjects are resampled, never single questions.

Answers about one patient are correlated. Resampling single questions would assume independence and give intervals
that are too narrow (Cameron, Gelbach & Miller 2008, "Bootstrap-based improvements for inference with clustered
errors", Section III; Davison & Hinkley 1997, Section 3.8). The replicates give standard errors and covariances of
statistics; :mod:`~medunlearn.statistics.intervals` turns them into intervals.

Notation: n observations (rows), k columns (metrics), S clusters (subjects), B replicates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError
from medunlearn.seeds import generator
from medunlearn.statistics.intervals import (
    LEVEL,
    UNBOUNDED,
    UNIT,
    Array,
    Bounds,
    Estimate,
    effective_subjects,
    from_draws,
    mean_over_subjects,
    too_few,
)

Statistic = Callable[[Array], Array]
"""Means of the chosen columns, shape [..., k] -> one number each, shape [...]."""

Clusters = Sequence[object] | npt.NDArray[np.intp]
"""Cluster id of each observation, text or whole numbers; an array of numbers is coded fastest."""

REPLICATES = 1000
_ID_TYPES = (str, int, np.integer)

# Draws are made in blocks, so that 1,000 replicates of 100,000 subjects do not need 800 MB at once.
_CELLS_PER_BLOCK = 4_000_000


@dataclass(frozen=True, slots=True)
class Observations:
    """A table of observations: values of shape [n, k], NaN for none; the cluster of each row (str or int)."""

    values: npt.ArrayLike
    clusters: Clusters


@dataclass(frozen=True)
class Resampled:
    """Means of k columns, of the data and of B replicates with shared draws of clusters.

    Attributes:
        point: means of the data, shape [k]; NaN if a column has no observation.
        sums, counts: sum of each cluster's values, and number of its observations, shape [S, k].
        observed: True for existing values, shape [n, k].
        n_clusters: number of clusters with an observation of each column, shape [k].
        unit: True for columns with all values between 0 and 1, shape [k].
        draw: makes the replicates, which only statistics of several means read.
    """

    point: Array
    sums: Array
    counts: Array
    observed: npt.NDArray[np.bool_]
    n_clusters: npt.NDArray[np.intp]
    unit: npt.NDArray[np.bool_]
    draw: Callable[[], Array] = field(repr=False, compare=False)

    @cached_property
    def draws(self) -> Array:
        """Means of each replicate, shape [B, k]; NaN if it drew no observation of a column."""
        return self.draw()

    def estimate(
        self,
        columns: Sequence[int],
        statistic: Statistic | None = None,
        *,
        bounds: Bounds | None = None,
        level: float = LEVEL,
    ) -> Estimate:
        """A statistic of some columns' means, with its interval.

        Args:
            columns: input columns of the statistic, in order; at least one.
            statistic: means [..., len(columns)] -> [...]; None for the first column's mean itself.
            bounds: range of the number. None: for a mean, 0 and 1 if all its values are between these, otherwise
                none.

        Raises:
            InputError: no column, or a level outside (0, 1).
        """
        if not columns:
            raise InputError("A statistic needs at least one column of observations.")
        places = list(columns)
        n, n_clusters = self.sizes(places)
        point = usable(self.point[np.newaxis, places], statistic)
        if not len(point):
            return Estimate(None, None, None, n, n_clusters)
        value, dropped = float(point[0]), 0
        if statistic is None:
            bounds = bounds or (UNIT if self.unit[places[0]] else UNBOUNDED)
            uncertainty = mean_over_subjects(self.sums[:, places[0]], self.counts[:, places[0]], bounds)
        else:
            draws = usable(self.draws[:, places], statistic)
            dropped = len(self.draws) - len(draws)
            uncertainty = from_draws(value, draws, n_clusters, bounds or UNBOUNDED, self.n_effective(places))
        return Estimate.of(value, uncertainty, n, n_clusters, dropped, level)

    def sizes(self, columns: Sequence[int]) -> tuple[int, int]:
        """Number of rows observed in all of some columns, and of clusters in the column with the fewest."""
        places = list(columns)
        return int(self.observed[:, places].all(axis=1).sum()), int(self.n_clusters[places].min())

    def dropped(self, columns: Sequence[int]) -> int:
        """Number of replicates that drew no observation of some column; known to be 0 if every cluster has some."""
        places = list(columns)
        if (self.counts[:, places] > 0).all():
            return 0
        return len(self.draws) - len(usable(self.draws[:, places], None))

    def n_effective(self, columns: Sequence[int]) -> float:
        """Effective number of clusters of some columns: of that with the fewest."""
        return float(effective_subjects(self.counts[:, list(columns)]).min())

    def share(self, part: int, whole: Sequence[int], *, level: float = LEVEL) -> Estimate:
        """Sum of one column over the sum of others that contain it, 0-1, with its interval.

        ``n`` and ``n_clusters`` are of the denominator: its sum, and the clusters where it is above 0. With fewer
        than five of these, effectively, there is no interval.
        """
        share = self.estimate([part, *whole], ratio, bounds=UNIT, level=level)
        sizes = self.sums[:, list(whole)].sum(axis=1)
        n_clusters = int((sizes > 0).sum())
        if too_few(min(n_clusters, float(effective_subjects(sizes)))):
            share = replace(share, low=None, high=None, uncertainty=None)
        return replace(share, n=int(sizes.sum()), n_clusters=n_clusters)


def ratio(means: Array) -> Array:
    """First mean over the sum of the others, as a :data:`Statistic`; NaN if that is 0, so no interval has it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(means[..., 0] / means[..., 1:].sum(axis=-1), dtype=np.float64)


def bootstrap_mean(
    values: npt.ArrayLike,
    clusters: Sequence[object],
    *,
    bounds: Bounds | None = None,
    replicates: int = REPLICATES,
    level: float = LEVEL,
    seed: int = 0,
) -> Estimate:
    """The mean of all observations, with an interval over clusters.

    Args:
        values: one number per observation, shape [n]; NaN if there is none.
        clusters: cluster id of each observation (str or int), length n.
        bounds: as for :meth:`Resampled.estimate`.
        seed: the same seed and data give the same interval on every machine.

    Raises:
        InputError: a missing cluster id, an infinite value, lengths that differ.
    """
    column = np.asarray(values, dtype=np.float64).reshape(-1, 1)
    return resample_means(column, clusters, replicates=replicates, seed=seed).estimate(
        [0], bounds=bounds, level=level
    )


def resample_means(
    values: npt.ArrayLike, clusters: Clusters, *, replicates: int = REPLICATES, seed: int = 0
) -> Resampled:
    """Resample the clusters repeatedly, and keep every column's mean under the same draws.

    A replicate draws S clusters of S with replacement; a column's mean is then the sum over drawn
    clusters of its values, divided by its number of observations there. Columns that share draws can be combined
    (a harmonic mean of five metrics) and the combination has a correct interval.

    Args:
        values: shape [n, k]; NaN if there is no observation.
        clusters: cluster id of each row (str or int), length n.

    Raises:
        InputError: a missing cluster id, an infinite value, lengths that differ.
    """
    return resample_together([Observations(values, clusters)], replicates=replicates, seed=seed)[0]


def resample_together(
    tables: Sequence[Observations], *, replicates: int = REPLICATES, seed: int = 0
) -> list[Resampled]:
    """Means of several tables with shared bootstrap draws of the clusters.

    A contrast of two nested forget sets has observations on different but overlapping subjects. Every replicate
    draws the subjects of all tables at once, so that a subject in two tables is drawn equally often in both: the
    difference is paired where subjects are shared, and independent where they are not.

    Raises:
        InputError: no table, a missing cluster id, an infinite value, lengths that differ.
    """
    if not tables:
        raise InputError("There is no table to draw subjects from.")
    if replicates < 1:
        raise InputError(f"replicates must be at least 1, and is {replicates}.")
    arrays = [_check_table(table) for table in tables]
    codes, n_clusters = cluster_codes(
        tables[0].clusters if len(tables) == 1 else [cluster for table in tables for cluster in table.clusters]
    )
    starts = np.cumsum([0, *(len(array) for array in arrays)])
    observed = [~np.isnan(array) for array in arrays]
    sums, counts = [], []
    for array, there, start, end in zip(arrays, observed, starts, starts[1:], strict=False):
        sums.append(per_cluster(np.where(there, array, 0.0), codes[start:end], n_clusters))
        counts.append(per_cluster(there.astype(np.float64), codes[start:end], n_clusters))

    @cache
    def draws() -> list[Array]:
        rng = generator("cluster bootstrap", seed)
        means = draw_means(np.hstack(sums), np.hstack(counts), replicates, rng)
        return np.split(means, np.cumsum([array.shape[1] for array in arrays])[:-1], axis=1)

    return [
        Resampled(
            point=divide(total.sum(axis=0), count.sum(axis=0)),
            sums=total,
            counts=count,
            observed=there,
            n_clusters=(count > 0).sum(axis=0).astype(np.intp),
            unit=np.all(~there | ((array >= 0.0) & (array <= 1.0)), axis=0),
            draw=lambda place=place: draws()[place],  # type: ignore[misc]
        )
        for place, (array, total, count, there) in enumerate(zip(arrays, sums, counts, observed, strict=True))
    ]


def pool_seeds(
    points: Array,
    draws: Array,
    subjects: int,
    *,
    effective: float | None = None,
    bounds: Bounds = UNBOUNDED,
    seed: int = 0,
    level: float = LEVEL,
) -> Estimate:
    """The mean over training seeds, with an interval over subjects and seeds.

    Every replicate also draws the seeds, independently of the subjects, as crossed rows and columns of a table
    (Owen 2007, "The pigeonhole bootstrap", Annals of Applied Statistics 1(2)). With one seed the interval is over
    subjects only and ignores differences between seeds; with two or three it is still too narrow.

    Args:
        points: shape [seeds].
        draws: number of each replicate, shape [B, seeds], with all seeds under the same draw of subjects; NaN for
            none.
        subjects: number of subjects.
        effective: effective number of subjects; None for ``subjects``.
        bounds: range of the number.

    Returns:
        ``n`` counts the seeds; no value if a seed has none.
    """
    if len(points) == 0 or np.isnan(points).any():
        return Estimate(None, None, None, 0, subjects)
    complete = draws[~np.isnan(draws).any(axis=1)]
    if len(points) > 1:
        picked = generator("seed bootstrap", seed).integers(len(points), size=(len(draws), len(points)))
        complete = np.take_along_axis(complete, picked[: len(complete)], axis=1)
    uncertainty = from_draws(float(points.mean()), complete.mean(axis=1), subjects, bounds, effective)
    dropped = len(draws) - len(complete)
    return Estimate.of(uncertainty.value, uncertainty, len(points), subjects, dropped, level)


def _check_table(table: Observations) -> Array:
    values = np.asarray(table.values, dtype=np.float64)
    if values.ndim != 2 or len(values) != len(table.clusters):
        raise InputError(
            f"Values of shape {values.shape} do not fit {len(table.clusters)} cluster ids: "
            "one row of values is needed for each cluster id."
        )
    if np.isinf(values).any():
        raise InputError("A value is infinite; a mean of it would be too. Leave it out as NaN, with a reason.")
    return values


def cluster_codes(clusters: Clusters) -> tuple[npt.NDArray[np.intp], int]:
    """Number the clusters by sorted id, so that the order of rows does not matter.

    Returns the number of each row's cluster, shape [n], and the number of clusters.

    Raises:
        InputError: an id is missing (None, NaN, empty) or is neither a str nor an int.
    """
    if isinstance(clusters, np.ndarray) and clusters.dtype.kind in "iu":
        numbers, codes = np.unique(clusters, return_inverse=True)
        return codes.astype(np.intp), len(numbers)
    kinds = set(map(type, clusters))
    ids: list[Any] = list(dict.fromkeys(clusters)) if all(issubclass(kind, _ID_TYPES) for kind in kinds) else [""]
    if "" in ids:
        _refuse_missing(list(clusters))
    ids.sort(key=None if len(kinds) < 2 else lambda each: (isinstance(each, str), each))
    place = dict(zip(ids, range(len(ids)), strict=True))
    return np.fromiter(map(place.__getitem__, clusters), dtype=np.intp, count=len(clusters)), len(ids)


def _refuse_missing(clusters: Sequence[object]) -> NoReturn:
    for row, cluster in enumerate(clusters):
        if not isinstance(cluster, _ID_TYPES) or cluster == "":
            raise InputError(
                f"Row {row} has no cluster id (it is {cluster!r}). Every observation must name its subject, "
                "as text or a whole number: without it the interval would be too narrow."
            )
    raise AssertionError("every cluster has an id")


def usable(means: Array, statistic: Statistic | None) -> Array:
    """The statistic of every replicate that has all columns; others are dropped, shape [<= B]."""
    complete = means[~np.isnan(means).any(axis=1)]
    numbers = complete[:, 0] if statistic is None else np.asarray(statistic(complete), dtype=np.float64)
    return numbers[np.isfinite(numbers)]


def per_cluster(table: Array, codes: npt.NDArray[np.intp], n_clusters: int) -> Array:
    """Column sums within each cluster, shape [S, k]."""
    columns = [np.bincount(codes, weights=column, minlength=n_clusters) for column in table.T]
    return np.stack(columns, axis=1) if columns else np.zeros((n_clusters, 0))


def draw_means(sums: Array, counts: Array, replicates: int, rng: np.random.Generator) -> Array:
    """Means of each replicate, shape [B, k], from per-cluster sums and counts of shape [S, k]."""
    n_clusters = len(sums)
    if n_clusters == 0:
        return np.full((replicates, sums.shape[1]), np.nan)
    block = max(1, _CELLS_PER_BLOCK // n_clusters)
    parts: list[Array] = []
    for start in range(0, replicates, block):
        times = times_drawn(n_clusters, min(block, replicates - start), rng)
        parts.append(divide(times @ sums, times @ counts))
    return np.concatenate(parts)


def times_drawn(n_clusters: int, replicates: int, rng: np.random.Generator) -> Array:
    """Number of times each replicate draws each cluster, shape [replicates, S]; every row sums to S.

    Multinomial counts by counting draws, five times faster than ``rng.multinomial`` at 1,000 clusters.
    """
    picks = rng.integers(n_clusters, size=(replicates, n_clusters))
    picks += np.arange(replicates)[:, np.newaxis] * n_clusters
    counts = np.bincount(picks.ravel(), minlength=replicates * n_clusters)
    return counts.reshape(replicates, n_clusters).astype(np.float64)


def divide(sums: Array, counts: Array) -> Array:
    """Means from sums and counts; NaN without observations."""
    # 0 / 0 is the honest NaN: no observation, no mean.
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / counts, dtype=np.float64)
