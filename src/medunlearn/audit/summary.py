"""Means over probes, differences of two models, and the paper's own statistics.

A cell is a corpus, prefix length and decoding. The samples of a probe are averaged first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from medunlearn.audit.tables import CELL
from medunlearn.results.matrix import groups, score_matrix
from medunlearn.results.summary import compare, summarize
from medunlearn.statistics.two_sample import paper_bootstrap, rank_sum_test


def means(scores: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
    """:func:`~medunlearn.results.summary.summarize` by cell: value, low, high, n_scored, n_unscored, n_subjects."""
    table = summarize(probe_scores(scores), CELL, replicates=replicates, seed=seed)
    return _floats(table.drop(columns=["parts", "replicates_dropped"]))


def differences(scores: pd.DataFrame, against: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
    """First minus second model, paired on shared probes: difference, its interval, p and n_pairs."""
    ours, theirs = _shared(probe_scores(scores), probe_scores(against))
    table = compare(ours, theirs, CELL, replicates=replicates, seed=seed)
    table = table.rename(columns={"low": "difference_low", "high": "difference_high"})
    columns = ["measure", "difference", "difference_low", "difference_high", "p", "n_pairs"]
    return _floats(table[[*CELL, *columns]])


def paper_summary(scores: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """The paper's summary of a model: mean of 100 draws' means of 100 probes, with their percentile interval."""
    rows: list[dict[str, Any]] = []
    for cell, values in _cells(scores):
        for measure in values.columns:
            mean = paper_bootstrap(values[measure].to_numpy(), seed=seed)
            numbers = (None, None, None, 0) if mean is None else (mean.mean, mean.low, mean.high, mean.n)
            names = ("value", "low", "high", "n_scored")
            rows.append(cell | {"measure": measure} | dict(zip(names, numbers, strict=True)))
    return _floats(pd.DataFrame(rows, columns=[*CELL, "measure", "value", "low", "high", "n_scored"]))


def paper_differences(scores: pd.DataFrame, against: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """The paper's comparison of two models: rank-sum test over the draws' means; z and p."""
    theirs = {tuple(cell.values()): values for cell, values in _cells(against)}
    rows: list[dict[str, Any]] = []
    for cell, values in _cells(scores):
        other = theirs.get(tuple(cell.values()), pd.DataFrame())
        for measure in values.columns.intersection(other.columns, sort=False):
            ours = paper_bootstrap(values[measure].to_numpy(), seed=seed)
            # Independent draws: the paper's test is for independent samples.
            draws = paper_bootstrap(other[measure].to_numpy(), seed=seed + 1)
            known = ours is not None and draws is not None
            z, p = rank_sum_test(ours.means, draws.means) if known else (None, None)  # type: ignore[union-attr]
            rows.append(cell | {"measure": measure, "z": z, "p_rank_sum": p})
    return _floats(pd.DataFrame(rows, columns=[*CELL, "measure", "z", "p_rank_sum"]))


def probe_scores(scores: pd.DataFrame) -> pd.DataFrame:
    """The score table with the mean over each probe's samples; null where none is scored."""
    keys = ["item", "subject", *CELL, "measure"]
    return scores.groupby(keys, sort=False)["value"].mean().reset_index()


def _shared(ours: pd.DataFrame, theirs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of the cells of both models; of the second only probes and measures that the first has too."""
    keys = [*CELL, "item", "measure"]
    both = ours.merge(theirs[CELL].drop_duplicates(), on=CELL)
    return both, theirs.merge(both[keys], on=keys)


def _cells(scores: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Each cell's labels and values [probes, measures], NaN for unscored."""
    matrix = score_matrix(probe_scores(scores), CELL)
    for group in groups(matrix, CELL):
        yield dict(group.labels), pd.DataFrame(matrix.values[group.rows], columns=list(matrix.measures))


def _floats(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers as float64 with NaN where there is none."""
    columns = [name for name in table.columns if name not in {*CELL, "measure"}]
    return table.astype({name: "float64" for name in columns if not pd.api.types.is_integer_dtype(table[name])})
