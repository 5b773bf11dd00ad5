"""Means over probes with intervals over subjects, differences of two models, and the paper's own statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.statistics import resample_means, resample_pairs
from medunlearn.statistics.ranksum import paper_bootstrap, rank_sum_test

CELL = ["corpus", "prefix_tokens", "variant"]
Audited = tuple[pd.DataFrame, pd.DataFrame]
"""Scores and probes of one audit."""


def summarize(scores: pd.DataFrame, probes: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
    """One row a corpus, prefix length, variant and measure.

    ``value`` is the mean over probes (each the mean of its samples), null where none is scored; ``low, high`` its
    percentile interval over subjects, null with a single subject; ``n_scored``, ``n_unscored`` probes;
    ``n_subjects``.
    """
    rows: list[dict[str, Any]] = []
    for cell, values, subjects in _cells(scores, probes):
        means = resample_means(values.to_numpy(), subjects, replicates=replicates, seed=seed)
        for place, measure in enumerate(values.columns):
            found = means.estimate([place])
            rows.append(
                dict(zip(CELL, cell, strict=True))
                | {"measure": measure, "value": found.value, "low": found.low, "high": found.high}
                | {"n_scored": found.n, "n_unscored": len(values) - found.n, "n_subjects": found.n_clusters}
            )
    return _frame(rows, ["measure", "value", "low", "high", "n_scored", "n_unscored", "n_subjects"])


def differences(one: Audited, other: Audited, *, replicates: int, seed: int) -> pd.DataFrame:
    """The first minus the second on the probes that both have, paired: difference, its interval, p and n_pairs."""
    rows: list[dict[str, Any]] = []
    theirs = {cell: values for cell, values, _ in _cells(*other)}
    for cell, values, subjects in _cells(*one):
        if cell not in theirs:
            continue
        # Rows in the order of the first; what the second lacks is NaN, so that it pairs with nothing.
        against = theirs[cell].reindex(index=values.index, columns=values.columns)
        pairs = resample_pairs(values.to_numpy(), against.to_numpy(), subjects, replicates=replicates, seed=seed)
        for place, measure in enumerate(values.columns):
            gap = pairs.difference([place])
            rows.append(
                dict(zip(CELL, cell, strict=True))
                | {"measure": measure, "difference": gap.difference, "difference_low": gap.low}
                | {"difference_high": gap.high, "p": gap.p, "n_pairs": gap.n_pairs}
            )
    return _frame(rows, ["measure", "difference", "difference_low", "difference_high", "p", "n_pairs"])


def paper_summary(scores: pd.DataFrame, probes: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """As the paper reports a model: mean of 100 draws' means of 100 probes, with their percentile interval."""
    rows: list[dict[str, Any]] = []
    for cell, values, _ in _cells(scores, probes):
        for measure in values.columns:
            found = paper_bootstrap(values[measure].to_numpy(), seed=seed)
            rows.append(
                dict(zip(CELL, cell, strict=True))
                | {"measure": measure, "value": None if found is None else found.mean}
                | {"low": None if found is None else found.low, "high": None if found is None else found.high}
                | {"n_scored": 0 if found is None else found.n}
            )
    return _frame(rows, ["measure", "value", "low", "high", "n_scored"])


def paper_differences(one: Audited, other: Audited, *, seed: int) -> pd.DataFrame:
    """As the paper compares two models: a rank-sum test over the draws' means; z and p."""
    rows: list[dict[str, Any]] = []
    theirs = {cell: values for cell, values, _ in _cells(*other)}
    for cell, values, _ in _cells(*one):
        for measure in values.columns:
            if cell not in theirs or measure not in theirs[cell]:
                continue
            ours = paper_bootstrap(values[measure].to_numpy(), seed=seed)
            # Draws of their own: the paper's test is for independent samples.
            against = paper_bootstrap(theirs[cell][measure].to_numpy(), seed=seed + 1)
            known = ours is not None and against is not None
            z, p = (
                rank_sum_test(ours.means, against.means) if ours is not None and against is not None else (0.0, 0.0)
            )
            rows.append(
                dict(zip(CELL, cell, strict=True))
                | {"measure": measure, "z": z if known else None, "p_rank_sum": p if known else None}
            )
    return _frame(rows, ["measure", "z", "p_rank_sum"])


def _cells(scores: pd.DataFrame, probes: pd.DataFrame) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame, list[str]]]:
    """(corpus, prefix length, variant), values [probes, measures] with NaN for unscored, and subjects [probes]."""
    about = probes[["probe_id", "subject", "corpus", "prefix_tokens"]]
    joined = scores.merge(about, on="probe_id", how="inner")
    measures = list(dict.fromkeys(scores["measure"]))
    for cell, part in joined.groupby(CELL, sort=False):
        by_probe = part.groupby(["probe_id", "measure"], sort=False)["value"].mean().unstack("measure")
        values = by_probe.reindex(columns=measures).astype(np.float64)
        subject = part.drop_duplicates("probe_id").set_index("probe_id")["subject"]
        yield tuple(cell), values, [str(one) for one in subject.reindex(values.index)]


def _frame(rows: list[dict[str, Any]], columns: list[str]) -> pd.DataFrame:
    found = pd.DataFrame(rows, columns=[*CELL, *columns])
    texts = {*CELL, "measure"} - {"prefix_tokens"}
    return found.astype(
        {name: "float64" for name in found.columns if found[name].dtype == object and name not in texts}
    )
