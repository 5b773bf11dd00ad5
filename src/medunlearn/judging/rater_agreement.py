"""Rows of agreement tables: raters are judges, annotators, or ways of sorting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from medunlearn.statistics.agreement import Rating, cohen_kappa, in_words, observed_agreement
from medunlearn.statistics.intervals import Estimate

AGREEMENT_COLUMNS = ("measure", "on", "first", "second", "value", "low", "high", "words", "n_cases", "n_subjects")


def pair_rows(
    on: str,
    raters: tuple[str, str],
    ratings: tuple[Sequence[Rating], Sequence[Rating]],
    subjects: Sequence[str],
    categories: Sequence[str],
    *,
    ordered: bool = False,
    **draws: Any,
) -> Iterator[dict[str, Any]]:
    """Agreement of two raters: share of equal ratings, Cohen's kappa and, with ordered categories, weighted kappa.

    Args:
        on: name of the categories.
        draws: settings of the bootstrap over subjects.
    """
    yield agreement_row("agreement", on, *raters, observed_agreement(*ratings, subjects, **draws))
    yield agreement_row("cohen_kappa", on, *raters, cohen_kappa(*ratings, subjects, categories, **draws))
    if ordered:
        kappa = cohen_kappa(*ratings, subjects, categories, weights="quadratic", **draws)
        yield agreement_row("weighted_kappa", on, *raters, kappa)


def agreement_row(measure: str, on: str, first: str, second: str, estimate: Estimate) -> dict[str, Any]:
    """A row with the columns :data:`AGREEMENT_COLUMNS`; a kappa has its verbal interpretation."""
    words = in_words(estimate.value) if measure.endswith("kappa") else ""
    numbers = (estimate.value, estimate.low, estimate.high, words, estimate.n, estimate.n_clusters)
    return dict(zip(AGREEMENT_COLUMNS, (measure, on, first, second, *numbers), strict=True))
