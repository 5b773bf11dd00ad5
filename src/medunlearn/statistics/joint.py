"""Several tables and several seeds under the same draws of subjects.

A contrast of two forget sets, one inside the other, or of two groups of patients, has observations on different but
overlapping subjects. Here every replicate draws the subjects of all tables at once, so that a subject in two tables
is drawn in both as often, and the difference has a right interval: paired where subjects are shared, independent
where they are not.

Notation: n observations (rows), k columns (metrics), S clusters (subjects), B replicates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError
from medunlearn.seeds import generator
from medunlearn.statistics.bootstrap import (
    LEVEL,
    REPLICATES,
    Array,
    cluster_codes,
    divide,
    draw_means,
    interval,
    per_cluster,
)


@dataclass(frozen=True, slots=True)
class Table:
    """Observations of one model on one group of questions.

    Attributes:
        values: shape [n, k]; NaN where there is no observation.
        subjects: whose each row is, length n.
    """

    values: Array
    subjects: Sequence[object]


@dataclass(frozen=True, slots=True)
class Means:
    """Means of one table's columns, of the data and of the shared replicates.

    Attributes:
        point: shape [k]; NaN where a column has no observation.
        draws: shape [B, k]; NaN where a replicate drew no observation of a column.
        n_subjects: subjects with an observation of each column, shape [k].
    """

    point: Array
    draws: Array
    n_subjects: npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Pooled:
    """A number averaged over seeds.

    Attributes:
        value: mean over seeds; None where a seed has none.
        low, high: percentile interval over subjects and seeds; None where no replicate has a number.
        by_seed: the number of each seed.
        replicates_dropped: replicates that drew no observation of some column and so have no value.
    """

    value: float | None
    low: float | None
    high: float | None
    by_seed: tuple[float, ...]
    replicates_dropped: int = 0


def resample_together(tables: Sequence[Table], *, replicates: int = REPLICATES, seed: int = 0) -> list[Means]:
    """Means of each table under draws of the subjects that all tables share.

    For a single table the draws are those of :func:`~medunlearn.statistics.bootstrap.resample_means`.

    Raises:
        InputError: no table, a missing subject, lengths that differ.
    """
    if not tables:
        raise InputError("There is no table to draw subjects from.")
    for table in tables:
        if table.values.ndim != 2 or len(table.values) != len(table.subjects):
            raise InputError(
                f"Values of shape {table.values.shape} do not fit {len(table.subjects)} subjects: one row of "
                "values is needed for each."
            )
    codes, n_subjects = cluster_codes([subject for table in tables for subject in table.subjects])
    starts = np.cumsum([0, *(len(table.subjects) for table in tables)])
    sums, counts = [], []
    for table, start, end in zip(tables, starts, starts[1:], strict=False):
        observed = ~np.isnan(table.values)
        sums.append(per_cluster(np.where(observed, table.values, 0.0), codes[start:end], n_subjects))
        counts.append(per_cluster(observed.astype(np.float64), codes[start:end], n_subjects))
    rng = generator("cluster bootstrap", seed)
    draws = draw_means(np.hstack(sums), np.hstack(counts), replicates, rng)
    cuts = np.cumsum([table.values.shape[1] for table in tables])[:-1]
    return [
        Means(divide(one.sum(axis=0), many.sum(axis=0)), drawn, (many > 0).sum(axis=0).astype(np.intp))
        for one, many, drawn in zip(sums, counts, np.split(draws, cuts, axis=1), strict=True)
    ]


def pool_seeds(points: Array, draws: Array, *, seed: int = 0, level: float = LEVEL) -> Pooled:
    """The mean over training seeds, with an interval over subjects and seeds.

    Every replicate draws the seeds again too, independently of the subjects, as rows and columns of a table that
    are crossed (Owen 2007, "The pigeonhole bootstrap", Annals of Applied Statistics 1(2)). With one seed the
    interval is over subjects alone and says nothing of how seeds differ; with two or three it is still too narrow.

    Args:
        points: the number of each seed, shape [seeds].
        draws: the same of each replicate, shape [B, seeds], all seeds under one draw of the subjects; NaN where
            a replicate has none.
    """
    if len(points) == 0 or np.isnan(points).any():
        return Pooled(None, None, None, ())
    whole = draws[~np.isnan(draws).any(axis=1)]
    if len(points) > 1:
        picked = generator("seed bootstrap", seed).integers(len(points), size=(len(draws), len(points)))
        whole = np.take_along_axis(whole, picked[: len(whole)], axis=1)
    low, high = interval(whole.mean(axis=1), level)
    by_seed = tuple(float(point) for point in points)
    return Pooled(float(points.mean()), low, high, by_seed, len(draws) - len(whole))
