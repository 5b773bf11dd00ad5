"""Does a number rise from level to level? A slope with an interval over subjects.

Two questions, two tests. Where every record was seen at every level (prefix lengths, epochs), each record has a
slope of its own and their mean is tested: the test is paired over records. Where a record has one level only (how
often it is duplicated), there is nothing to pair, and the slope is that of a regression over records.

A slope is how much a number changes for one step of the level, above 0 = rises; None without a record, or without
different levels. Both are linear trends: a rise that turns into a fall may have none, so tables show every level
beside it.

Notation: n records (rows), k levels, S subjects (clusters).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError
from medunlearn.statistics.bootstrap import REPLICATES, resample_means
from medunlearn.statistics.intervals import LEVEL, UNBOUNDED, Array, Estimate


def paired_trend(
    values: npt.ArrayLike,
    clusters: Sequence[object],
    positions: Sequence[float] | None = None,
    *,
    replicates: int = REPLICATES,
    level: float = LEVEL,
    seed: int = 0,
) -> Estimate:
    """Mean over records of each record's own least-squares slope over the levels.

    ``slope_i = sum_j (x_j - mean x) * y_ij / sum_j (x_j - mean x)^2``. With two levels one apart it is the paired
    difference. A record that lacks a level is left out: with it, the mix of records would change from level to
    level.

    Args:
        values: shape [n, k], levels in their order; NaN if a record has none.
        clusters: whose record each is (str or int), length n.
        positions: place of each level, length k; 0, 1, ... where left out.

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
    resampled = resample_means(slopes, clusters, replicates=replicates, seed=seed)
    return resampled.estimate([0], bounds=UNBOUNDED, level=level)


def trend_between(
    values: npt.ArrayLike,
    positions: npt.ArrayLike,
    clusters: Sequence[object],
    *,
    replicates: int = REPLICATES,
    level: float = LEVEL,
    seed: int = 0,
) -> Estimate:
    """Least-squares slope of a number on the level of its record, over records: not paired.

    Records of different levels may differ in more than their level, which no test here can take out.

    Args:
        values: shape [n]; NaN if there is none.
        positions: the level of each record, shape [n]; NaN if unknown.

    Raises:
        InputError: lengths that differ, a missing cluster id.
    """
    y, x = np.asarray(values, np.float64).ravel(), np.asarray(positions, np.float64).ravel()
    if y.shape != x.shape:
        raise InputError(f"{len(y)} values do not fit {len(x)} levels: each value needs one.")
    x = np.where(np.isnan(y), np.nan, x)
    y = np.where(np.isnan(x), np.nan, y)
    columns = np.stack([x * y, x, y, x * x], axis=1)
    resampled = resample_means(columns, clusters, replicates=replicates, seed=seed)
    return resampled.estimate(range(4), _slope, bounds=UNBOUNDED, level=level)


def _slope(means: Array) -> Array:
    xy, x, y, xx = (means[..., place] for place in range(4))
    spread = xx - x * x
    # A replicate may draw records of one level alone: 0 / 0 is not a slope, and rounding must not make it one.
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(spread > 1e-12 * np.maximum(xx, 1.0), (xy - x * y) / spread, np.nan)
    return np.asarray(slope, dtype=np.float64)
