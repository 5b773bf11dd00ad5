"""Agreement of raters: raw agreement, Cohen's and Fleiss' kappa, Krippendorff's alpha, confusion.

Intervals are over subjects.

Every measure is a function of means over items (of the share of items in each cell of a table, say), so the
bootstrap over subjects of :mod:`medunlearn.statistics.bootstrap` gives its interval.

Notation: n items, r raters, k categories. A rating is a text; None if missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError
from medunlearn.statistics.bootstrap import REPLICATES, Statistic, bootstrap_mean, resample_means
from medunlearn.statistics.intervals import Array, Estimate

Rating = str | None
Weights = Literal["none", "linear", "quadratic"]
Scale = Literal["nominal", "interval"]

# Landis & Koch 1977, "The measurement of observer agreement for categorical data", page 165.
_WORDS = ((0.0, "slight"), (0.2, "fair"), (0.4, "moderate"), (0.6, "substantial"), (0.8, "almost perfect"))


def observed_agreement(
    first: Sequence[Rating],
    second: Sequence[Rating],
    clusters: Sequence[object],
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Estimate:
    """Share of items to which two raters gave the same category. Range 0-1, higher = they agree more.

    Args:
        first, second: a rating per item, length n; items without both ratings are dropped.
        clusters: subject of each item, length n.

    Raises:
        InputError: lengths that differ, a missing cluster id.
    """
    pairs = _pairs(first, second, clusters)
    same = [np.nan if None in pair else float(pair[0] == pair[1]) for pair in pairs]
    return bootstrap_mean(np.array(same, dtype=np.float64), clusters, replicates=replicates, seed=seed)


def cohen_kappa(
    first: Sequence[Rating],
    second: Sequence[Rating],
    clusters: Sequence[object],
    categories: Sequence[str],
    *,
    weights: Weights = "none",
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Estimate:
    """Agreement of two raters beyond chance: ``1 - sum(w * observed) / sum(w * expected)`` over a k x k table.

    ``expected`` is the product of the two raters' own shares. The weight w of a disagreement is 1, or with
    ordered categories the distance of their places (``linear``) or its square (``quadratic``).
    At most 1; 0 = as by chance; below 0 = less. No value if both always used the same category (0 / 0). A rare
    category makes it low while raw agreement is high (AMNESIA, Table 13), so show both.

    Arguments are as in :func:`observed_agreement`; with weights the k categories must be ordered.

    Raises:
        InputError: a rating that is not a category, lengths that differ, a missing cluster id.

    Source: Cohen 1960, "A coefficient of agreement for nominal scales"; Cohen 1968 for weights.
    """
    k = len(categories)
    cells = np.full((len(first), k * k), np.nan)
    for row, (a, b) in enumerate(_pairs(first, second, clusters)):
        if a is not None and b is not None:
            cells[row] = 0.0
            cells[row, _place(a, categories) * k + _place(b, categories)] = 1.0
    places = np.arange(k, dtype=np.float64)
    weight: Array = np.abs(np.subtract.outer(places, places))
    if weights != "linear":
        weight = (weight > 0).astype(np.float64) if weights == "none" else weight * weight

    def kappa(means: Array) -> Array:
        table = means.reshape(*means.shape[:-1], k, k)
        expected = table.sum(axis=-1)[..., :, np.newaxis] * table.sum(axis=-2)[..., np.newaxis, :]
        return _beyond_chance((weight * table).sum(axis=(-2, -1)), (weight * expected).sum(axis=(-2, -1)))

    return _estimate(cells, clusters, kappa, replicates, seed)


def fleiss_kappa(
    ratings: Sequence[Sequence[Rating]],
    clusters: Sequence[object],
    categories: Sequence[str],
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Estimate:
    """Agreement of r raters beyond chance: ``(P - Pe) / (1 - Pe)``.

    P is the mean over items of the share of pairs of raters that agree; Pe the sum over categories of the squared
    share of all ratings. Range and interpretation as for :func:`cohen_kappa`.

    Args:
        ratings: one per item and rater, shape [n, r]; items with missing ratings are dropped.

    Raises:
        InputError: fewer than two raters, items with different numbers of them, a rating that is not a category.

    Source: Fleiss 1971, "Measuring nominal scale agreement among many raters".
    """
    pairs, shares = _agreement_shares(ratings, clusters, categories)

    def kappa(means: Array) -> Array:
        expected = (means[..., 1:] ** 2).sum(axis=-1)
        return _beyond_chance(1.0 - means[..., 0], 1.0 - expected)

    return _estimate(np.hstack([pairs, shares]), clusters, kappa, replicates, seed)


def krippendorff_alpha(
    ratings: Sequence[Sequence[Rating]],
    clusters: Sequence[object],
    categories: Sequence[str],
    *,
    scale: Scale = "nominal",
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Estimate:
    """Agreement of any number of raters beyond chance, with missing ratings: ``1 - (n - 1) sum(o d) / sum(e d)``.

    o is the k x k coincidence matrix: every item adds its ordered pairs of ratings by different raters, each
    divided by its number of ratings less one. n is the sum of o, e the product of its two margins. The
    disagreement d of two categories is 1 (``nominal``) or the square of their difference as numbers (``interval``).
    Items with fewer than two ratings are dropped; every other rating counts. Range and interpretation as for
    :func:`cohen_kappa`. Bootstrap draws keep the n of the data.

    Args:
        ratings: one per item and rater, None if missing; shape [n, r].

    Raises:
        InputError: a rating that is not a category; a category that is not a number, on an interval scale.

    Source: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", Sections C and E.
    """
    if len(ratings) != len(clusters):
        raise InputError(f"{len(ratings)} rows of ratings do not fit {len(clusters)} items.")
    k = len(categories)
    pairs = np.full((len(ratings), k * k), np.nan)
    for row, of_item in enumerate(ratings):
        places = [_place(rating, categories) for rating in of_item if rating is not None]
        if len(places) > 1:
            counts = np.bincount(np.array(places, dtype=np.intp), minlength=k).astype(np.float64)
            pairs[row] = ((np.outer(counts, counts) - np.diag(counts)) / (len(places) - 1)).ravel()
    items = int(np.isfinite(pairs[:, 0]).sum())
    distance = _distances(categories, scale)

    def alpha(means: Array) -> Array:
        table = means.reshape(*means.shape[:-1], k, k)
        margin = table.sum(axis=-1)
        expected = margin[..., :, np.newaxis] * margin[..., np.newaxis, :]
        # Of means over items: n is their sum times the number of items, so (n - 1) / items stands for n - 1.
        less_one = margin.sum(axis=-1) - 1.0 / max(1, items)
        observed = less_one * (distance * table).sum(axis=(-2, -1))
        return _beyond_chance(observed, (distance * expected).sum(axis=(-2, -1)))

    return _estimate(pairs, clusters, alpha, replicates, seed)


def _distances(categories: Sequence[str], scale: Scale) -> Array:
    """Disagreement of each pair of categories, shape [k, k]."""
    if scale == "nominal":
        return np.asarray(1.0 - np.eye(len(categories)), dtype=np.float64)
    try:
        numbers = np.array([float(category) for category in categories], dtype=np.float64)
    except ValueError:
        raise InputError(f"An interval scale has numbers as categories, not {', '.join(categories)}.") from None
    return np.asarray(np.subtract.outer(numbers, numbers) ** 2, dtype=np.float64)


def row_agreement(
    ratings: Sequence[Sequence[Rating]],
    clusters: Sequence[object],
    categories: Sequence[str],
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Estimate:
    """Mean over items of the share of agreeing pairs of raters (P of :func:`fleiss_kappa`). Range 0-1."""
    pairs, _ = _agreement_shares(ratings, clusters, categories)
    return bootstrap_mean(pairs, clusters, replicates=replicates, seed=seed)


def confusion(first: Sequence[Rating], second: Sequence[Rating], categories: Sequence[str]) -> npt.NDArray[np.intp]:
    """Items by first rater's category (rows) and second's (columns), shape [k, k].

    Items with a missing rating, or one that is not among the categories, are dropped.
    """
    table = np.zeros((len(categories), len(categories)), dtype=np.intp)
    for a, b in zip(first, second, strict=True):
        if a in categories and b in categories:
            table[categories.index(a), categories.index(b)] += 1
    return table


def in_words(kappa: float | None) -> str:
    """The customary interpretation of a kappa, from ``poor`` to ``almost perfect``; empty without one.

    The bounds are a convention, not a finding (Landis & Koch 1977).
    """
    if kappa is None:
        return ""
    if kappa < 0.0:
        return "poor"
    return next(word for bound, word in reversed(_WORDS) if kappa > bound or bound == 0.0)


def _pairs(
    first: Sequence[Rating], second: Sequence[Rating], clusters: Sequence[object]
) -> list[tuple[Rating, Rating]]:
    if not len(first) == len(second) == len(clusters):
        raise InputError(
            f"{len(first)} and {len(second)} ratings do not fit {len(clusters)} items: each item needs one of each."
        )
    return list(zip(first, second, strict=True))


def _agreement_shares(
    ratings: Sequence[Sequence[Rating]], clusters: Sequence[object], categories: Sequence[str]
) -> tuple[Array, Array]:
    """Share of agreeing pairs of raters, [n, 1], and of raters by category, [n, k]; NaN with missing ratings."""
    if len(ratings) != len(clusters):
        raise InputError(f"{len(ratings)} rows of ratings do not fit {len(clusters)} items.")
    counts = np.full((len(ratings), len(categories)), np.nan)
    for row, of_item in enumerate(ratings):
        places = [None if rating is None else _place(rating, categories) for rating in of_item]
        if None not in places:
            counts[row] = np.bincount(np.array(places, dtype=np.intp), minlength=len(categories))
    raters = {len(of_item) for of_item in ratings} or {2}
    if len(raters) > 1 or min(raters) < 2:
        raise InputError(
            "Agreement needs the same two or more raters for every item; write None where one is missing."
        )
    r = raters.pop()
    return (counts * (counts - 1)).sum(axis=1, keepdims=True) / (r * (r - 1)), counts / r


def _place(rating: str, categories: Sequence[str]) -> int:
    if rating not in categories:
        raise InputError(f"{rating!r} is not a category; categories are: {', '.join(categories)}.")
    return categories.index(rating)


def _beyond_chance(disagreed: Array, expected: Array) -> Array:
    """1 - observed over expected disagreement; NaN for zero expected disagreement."""
    # Sums of shares that ought to cancel leave 1e-17 behind, which is no chance of a disagreement.
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(expected > 1e-12, 1.0 - disagreed / expected, np.nan), dtype=np.float64)


def _estimate(
    values: Array, clusters: Sequence[object], statistic: Statistic, replicates: int, seed: int
) -> Estimate:
    resampled = resample_means(values, clusters, replicates=replicates, seed=seed)
    return resampled.estimate(range(values.shape[1]), statistic, bounds=(-1.0, 1.0))
