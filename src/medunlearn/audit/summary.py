"""Means over probes with intervals over subjects, differences of two models, and the paper's own statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.audit.tables import CELL
from medunlearn.statistics import resample_means, resample_pairs
from medunlearn.statistics.two_sample import paper_bootstrap, rank_sum_test

ScoresAndProbes = tuple[pd.DataFrame, pd.DataFrame]


def summarize(scores: pd.DataFrame, probes: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
    """One row per corpus, prefix length, variant and measure.

    ``value``: mean over probes (each the mean of its samples), null where none is scored; ``low, high``:
    percentile interval over subjects, null with a single subject; ``n_scored``, ``n_unscored``: probes;
    ``n_subjects``.
    """
    rows: list[dict[str, Any]] = []
    for cell, values, subjects in _cells(scores, probes):
        means = resample_means(values.to_numpy(), subjects, replicates=replicates, seed=seed)
        for place, measure in enumerate(values.columns):
            mean = means.estimate([place])
            rows.append(
                cell
                | {"measure": measure, "value": mean.value, "low": mean.low, "high": mean.high}
                | {"n_scored": mean.n, "n_unscored": len(values) - mean.n, "n_subjects": mean.n_clusters}
            )
    return _frame(rows, ["measure", "value", "low", "high", "n_scored", "n_unscored", "n_subjects"])


def differences(one: ScoresAndProbes, other: ScoresAndProbes, *, replicates: int, seed: int) -> pd.DataFrame:
    """First minus second model, paired on shared probes: difference, its interval, p and n_pairs."""
    rows: list[dict[str, Any]] = []
    for cell, values, subjects, theirs in _shared_cells(one, other):
        # Rows in the order of the first; probes that the second lacks are NaN and pair with nothing.
        against = theirs.reindex(index=values.index, columns=values.columns)
        pairs = resample_pairs(values.to_numpy(), against.to_numpy(), subjects, replicates=replicates, seed=seed)
        for place, measure in enumerate(values.columns):
            gap = pairs.difference([place])
            rows.append(
                cell
                | {"measure": measure, "difference": gap.difference, "difference_low": gap.low}
                | {"difference_high": gap.high, "p": gap.p, "n_pairs": gap.n_pairs}
            )
    return _frame(rows, ["measure", "difference", "difference_low", "difference_high", "p", "n_pairs"])


def paper_summary(scores: pd.DataFrame, probes: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """The paper's summary of a model: mean of 100 draws' means of 100 probes, with their percentile interval."""
    rows: list[dict[str, Any]] = []
    for cell, values, _ in _cells(scores, probes):
        for measure in values.columns:
            mean = paper_bootstrap(values[measure].to_numpy(), seed=seed)
            numbers = (None, None, None, 0) if mean is None else (mean.mean, mean.low, mean.high, mean.n)
            names = ("value", "low", "high", "n_scored")
            rows.append(cell | {"measure": measure} | dict(zip(names, numbers, strict=True)))
    return _frame(rows, ["measure", "value", "low", "high", "n_scored"])


def paper_differences(one: ScoresAndProbes, other: ScoresAndProbes, *, seed: int) -> pd.DataFrame:
    """The paper's comparison of two models: rank-sum test over the draws' means; z and p."""
    rows: list[dict[str, Any]] = []
    for cell, values, _, theirs in _shared_cells(one, other):
        for measure in [name for name in values.columns if name in theirs]:
            ours = paper_bootstrap(values[measure].to_numpy(), seed=seed)
            # Independent draws: the paper's test is for independent samples.
            against = paper_bootstrap(theirs[measure].to_numpy(), seed=seed + 1)
            known = ours is not None and against is not None
            z, p = rank_sum_test(ours.means, against.means) if known else (None, None)  # type: ignore[union-attr]
            rows.append(cell | {"measure": measure, "z": z, "p_rank_sum": p})
    return _frame(rows, ["measure", "z", "p_rank_sum"])


def _cells(scores: pd.DataFrame, probes: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame, list[str]]]:
    """Each cell's labels, values [probes, measures] with NaN for unscored, and subjects [probes]."""
    joined = scores.merge(probes[["probe_id", "subject", "corpus", "prefix_tokens"]], on="probe_id", how="inner")
    measures = list(dict.fromkeys(scores["measure"]))
    for cell, part in joined.groupby(CELL, sort=False):
        by_probe = part.groupby(["probe_id", "measure"], sort=False)["value"].mean().unstack("measure")
        values = by_probe.reindex(columns=measures).astype(np.float64)
        subjects = part.drop_duplicates("probe_id").set_index("probe_id")["subject"].reindex(values.index)
        yield dict(zip(CELL, cell, strict=True)), values, [str(subject) for subject in subjects]


def _shared_cells(
    one: ScoresAndProbes, other: ScoresAndProbes
) -> Iterator[tuple[dict[str, Any], pd.DataFrame, list[str], pd.DataFrame]]:
    theirs = {tuple(cell.values()): values for cell, values, _ in _cells(*other)}
    for cell, values, subjects in _cells(*one):
        if tuple(cell.values()) in theirs:
            yield cell, values, subjects, theirs[tuple(cell.values())]


def _frame(rows: list[dict[str, Any]], columns: list[str]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=[*CELL, *columns])
    texts = {*CELL, "measure"} - {"prefix_tokens"}
    return table.astype(
        {name: "float64" for name in table.columns if table[name].dtype == object and name not in texts}
    )
