"""Trend tests: the slope of a number over levels, with an interval over subjects.

There are two tests. If every record has every level (prefix lengths, epochs), each record has its own slope and the
mean slope is tested, paired over records. If a record has a single level (its number of copies), the slope is that
of a regression over records.

A slope is the change of a number per step of the level, above 0 = rises; None without records, or without different
levels. Both are linear trends and may miss a rise followed by a fall, so tables also show every level.

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
    difference. Records with missing levels are dropped, so that all levels have the same records.

    Args:
        values: shape [n, k], levels in their order; NaN if a record has none.
        clusters: cluster id of each record (str or int), length n.
        positions: position of each level, length k; default 0, 1, ...

    Raises:
        InputError: fewer than two levels, positions that do not fit or are all equal, a missing cluster id.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] < 2:
        raise InputError(
            f"A trend needs a row per record and at least two levels, not a table of shape {table.shape}."
        )
    places = np.arange(table.shape[1], dtype=np.float64) if positions is None else np.asarray(positions, np.float64)
    if places.shape != (table.shape[1],) or np.ptp(places) == 0.0:
        raise InputError(f"A trend over {table.shape[1]} levels needs as many positions that are not all equal.")
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
    """Least-squares slope of a number on its record's level, unpaired over records.

    Records of different levels may differ in other ways too, which no test here can correct.

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
