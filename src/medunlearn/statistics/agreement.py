"""How far raters agree: raw agreement, Cohen's and Fleiss' kappa, confusion; with intervals over subjects.

Every measure is a function of means over items (of the share of items in each cell of a table, say), so the
bootstrap over subjects of :mod:`medunlearn.statistics.bootstrap` gives its interval.

Notation: n items, r raters, k categories. A rating is a text; None where a rater gave none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError
from medunlearn.statistics.bootstrap import REPLICATES, Array, Estimate, Statistic, resample_means

Rating = str | None
Weights = Literal["none", "linear", "quadratic"]

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
    """Share of items that two raters gave the same category. Range 0-1, higher = they agree more.

    Args:
        first, second: a rating an item, length n; an item that either left out is left out.
        clusters: whose item each is, length n.
        replicates, seed: of the bootstrap over clusters.

    Raises:
        InputError: lengths that differ, a missing cluster id.
    """
    pairs = _pairs(first, second, clusters)
    same = [[np.nan if None in pair else float(pair[0] == pair[1])] for pair in pairs]
    return _estimate(np.array(same, dtype=np.float64).reshape(-1, 1), clusters, None, replicates, seed)


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
    At most 1; 0 = as by chance; below 0 = less. No value where both used one and the same category
    throughout: chance alone would then agree, and 0 / 0 is no number. Few cases of one category make it low
    while raw agreement is high (AMNESIA, Table 13), so show both.

    Args:
        first, second, clusters, replicates, seed: as in :func:`observed_agreement`.
        categories: all k there are, in their order where weights are used.

    Raises:
        InputError: a rating that is no category, lengths that differ, a missing cluster id.

    Source: Cohen 1960, "A coefficient of agreement for nominal scales"; Cohen 1968 for weights.
    """
    k = len(categories)
    cells = np.full((len(first), k * k), np.nan)
    for row, (one, other) in enumerate(_pairs(first, second, clusters)):
        if one is not None and other is not None:
            cells[row] = 0.0
            cells[row, _place(one, categories) * k + _place(other, categories)] = 1.0
    weight = _disagreement(k, weights)

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
    share of all ratings. Range and reading as :func:`cohen_kappa`.

    Args:
        ratings: of each item, one a rater, shape [n, r]; an item that a rater left out is left out.
        clusters, categories, replicates, seed: as in :func:`cohen_kappa`.

    Raises:
        InputError: fewer than two raters, items with different numbers of them, a rating that is no category.

    Source: Fleiss 1971, "Measuring nominal scale agreement among many raters".
    """
    counts = _counts(ratings, clusters, categories)
    r = _raters(ratings)
    pairs = (counts * (counts - 1)).sum(axis=1, keepdims=True) / (r * (r - 1))

    def kappa(means: Array) -> Array:
        expected = (means[..., 1:] ** 2).sum(axis=-1)
        return _beyond_chance(1.0 - means[..., 0], 1.0 - expected)

    return _estimate(np.hstack([pairs, counts / r]), clusters, kappa, replicates, seed)


def row_agreement(
    ratings: Sequence[Sequence[Rating]],
    clusters: Sequence[object],
    categories: Sequence[str],
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Estimate:
    """Mean over items of the share of pairs of raters that agree (P of :func:`fleiss_kappa`). Range 0-1."""
    counts = _counts(ratings, clusters, categories)
    r = _raters(ratings)
    pairs = (counts * (counts - 1)).sum(axis=1, keepdims=True) / (r * (r - 1))
    return _estimate(pairs, clusters, None, replicates, seed)


def confusion(first: Sequence[Rating], second: Sequence[Rating], categories: Sequence[str]) -> npt.NDArray[np.intp]:
    """Items by first rater's category (rows) and second's (columns), shape [k, k].

    An item is left out where either rating is missing or is no category: pass the categories to compare.
    """
    table = np.zeros((len(categories), len(categories)), dtype=np.intp)
    for one, other in zip(first, second, strict=True):
        if one in categories and other in categories:
            table[categories.index(one), categories.index(other)] += 1
    return table


def in_words(kappa: float | None) -> str:
    """The customary word for a kappa, from ``poor`` to ``almost perfect``; empty for none.

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


def _counts(ratings: Sequence[Sequence[Rating]], clusters: Sequence[object], categories: Sequence[str]) -> Array:
    """How many raters gave each category, shape [n, k]; a row of NaN where a rater gave none."""
    if len(ratings) != len(clusters):
        raise InputError(f"{len(ratings)} rows of ratings do not fit {len(clusters)} items.")
    counts = np.full((len(ratings), len(categories)), np.nan)
    for row, given in enumerate(ratings):
        found = [None if one is None else _place(one, categories) for one in given]
        if None not in found:
            counts[row] = np.bincount(np.array(found, dtype=np.intp), minlength=len(categories))
    return counts


def _raters(ratings: Sequence[Sequence[Rating]]) -> int:
    numbers = {len(given) for given in ratings} or {2}
    if len(numbers) > 1 or min(numbers) < 2:
        raise InputError(
            "Agreement needs the same two or more raters for every item; write None where one is missing."
        )
    return numbers.pop()


def _place(rating: str, categories: Sequence[str]) -> int:
    if rating not in categories:
        raise InputError(f"{rating!r} is no category here; they are: {', '.join(categories)}.")
    return categories.index(rating)


def _disagreement(k: int, weights: Weights) -> Array:
    places = np.arange(k, dtype=np.float64)
    distance: Array = np.abs(np.subtract.outer(places, places))
    if weights == "none":
        return (distance > 0).astype(np.float64)
    return distance if weights == "linear" else distance * distance


def _beyond_chance(disagreed: Array, expected: Array) -> Array:
    """1 - observed over expected disagreement; NaN where chance cannot disagree."""
    # Sums of shares that ought to cancel leave 1e-17 behind, which is no chance of a disagreement.
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(expected > 1e-12, 1.0 - disagreed / expected, np.nan), dtype=np.float64)


def _estimate(
    values: Array, clusters: Sequence[object], statistic: Statistic | None, replicates: int, seed: int
) -> Estimate:
    resampled = resample_means(values, clusters, replicates=replicates, seed=seed)
    return resampled.estimate(range(values.shape[1]), statistic)
