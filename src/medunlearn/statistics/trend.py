"""Does a number rise from level to level? A slope with an interval over subjects.

Two questions, two tests. Where every record was seen at every level (prefix lengths, epochs), each record has a
slope of its own and their mean is tested: the test is paired over records. Where a record has one level only (how
often it is duplicated), there is nothing to pair, and the slope is that of a regression over records.

Both are linear trends: a rise that turns into a fall may have none, so tables show every level beside it.

Notation: n records (rows), k levels, S subjects (clusters).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError
from medunlearn.statistics.bootstrap import LEVEL, REPLICATES, Array, Statistic, resample_means, usable
from medunlearn.statistics.paired import two_sided_p


@dataclass(frozen=True, slots=True)
class Trend:
    """A slope: how much a number changes for one step of the level.

    Attributes:
        slope: in units of the number a step; above 0 = rises. None where no record or no spread of levels is there.
        low, high: percentile interval over subjects; None where none can be had.
        p: two-sided, of "no trend", as in :class:`~medunlearn.statistics.paired.Difference`.
        n: records behind it.
        n_left_out: records that lack a level and so are not in it.
        n_clusters: subjects behind it.
    """

    slope: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int
    n_left_out: int
    n_clusters: int


def paired_trend(
    values: npt.ArrayLike,
    clusters: Sequence[object],
    positions: Sequence[float] | None = None,
    *,
    replicates: int = REPLICATES,
    level: float = LEVEL,
    seed: int = 0,
) -> Trend:
    """Mean over records of each record's own least-squares slope over the levels.

    ``slope_i = sum_j (x_j - mean x) * y_ij / sum_j (x_j - mean x)^2``. With two levels one apart it is the paired
    difference. A record that lacks a level is left out: with it, the mix of records would change from level to
    level.

    Args:
        values: shape [n, k], levels in their order; NaN where a record has none.
        clusters: whose record each is (str or int), length n.
        positions: place of each level, length k; 0, 1, ... where left out.
        replicates, level, seed: of the bootstrap over clusters.

    Raises:
        InputError: fewer than two levels, positions that do not fit or are all one, a missing cluster id.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] < 2:
        raise InputError(
            f"A trend needs a row a record and at least two levels, not a table of shape {table.shape}."
        )
    places = np.arange(table.shape[1], dtype=np.float64) if positions is None else np.asarray(positions, np.float64)
    if places.shape != (table.shape[1],) or np.ptp(places) == 0.0:
        raise InputError(f"A trend over {table.shape[1]} levels needs as many places that are not all the same.")
    centred = places - places.mean()
    slopes = (table @ centred / (centred @ centred)).reshape(-1, 1)
    return _trend(slopes, clusters, None, (replicates, level, seed))


def trend_between(
    values: npt.ArrayLike,
    positions: npt.ArrayLike,
    clusters: Sequence[object],
    *,
    replicates: int = REPLICATES,
    level: float = LEVEL,
    seed: int = 0,
) -> Trend:
    """Least-squares slope of a number on the level of its record, over records: not paired.

    Records of different levels may differ in more than their level, which no test here can take out.

    Args:
        values: shape [n]; NaN where there is none.
        positions: the level of each record, shape [n]; NaN where unknown.
        clusters, replicates, level, seed: as in :func:`paired_trend`.

    Raises:
        InputError: lengths that differ, a missing cluster id.
    """
    y, x = (np.asarray(one, dtype=np.float64).ravel() for one in (values, positions))
    if y.shape != x.shape:
        raise InputError(f"{len(y)} values do not fit {len(x)} levels: each value needs one.")
    x = np.where(np.isnan(y), np.nan, x)
    y = np.where(np.isnan(x), np.nan, y)
    return _trend(np.stack([x * y, x, y, x * x], axis=1), clusters, _slope, (replicates, level, seed))


def _slope(means: Array) -> Array:
    xy, x, y, xx = (means[..., place] for place in range(4))
    spread = xx - x * x
    # A replicate may draw records of one level alone: 0 / 0 is no slope, and rounding must not make it one.
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(spread > 1e-12 * np.maximum(xx, 1.0), (xy - x * y) / spread, np.nan)
    return np.asarray(found, dtype=np.float64)


def _trend(
    columns: Array, clusters: Sequence[object], statistic: Statistic | None, how: tuple[int, float, int]
) -> Trend:
    replicates, level, seed = how
    resampled = resample_means(columns, clusters, replicates=replicates, seed=seed)
    every = range(columns.shape[1])
    found = resampled.estimate(every, statistic, level=level)
    p = None if found.low is None else two_sided_p(usable(resampled.draws[:, list(every)], statistic))
    return Trend(found.value, found.low, found.high, p, found.n, len(columns) - found.n, found.n_clusters)
