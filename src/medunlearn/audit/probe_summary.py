"""Means over probes, differences of two models, and the paper's own statistics.

A cell is a corpus, prefix length and decoding. The samples of a probe are averaged first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from medunlearn.audit.audit_tables import CELL, WAY, cell_of, shared_probes
from medunlearn.results.matrix import Array, groups, score_matrix
from medunlearn.results.summary import compare, summarize
from medunlearn.statistics.two_sample import paper_bootstrap, rank_sum_test


def means(scores: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
    """:func:`~medunlearn.results.summary.summarize` by cell: value, low, high, n_scored, n_unscored, n_subjects."""
    table = summarize(probe_scores(scores), cell_of(scores), replicates=replicates, seed=seed)
    return _floats(table.drop(columns=["parts", "replicates_dropped"]))


def differences(scores: pd.DataFrame, against: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
    """First minus second model, paired on shared probes: difference, its interval, p and n_pairs."""
    cell = cell_of(scores)
    keys = [*cell, "item", "measure"]
    ours = probe_scores(scores)
    theirs = align_probes(ours, probe_scores(against))
    ours = ours.merge(theirs[cell].drop_duplicates(), on=cell)
    table = compare(ours, theirs.merge(ours[keys], on=keys), cell, replicates=replicates, seed=seed)
    table = table.rename(columns={"low": "difference_low", "high": "difference_high"})
    return _floats(table[[*cell, "measure", "difference", "difference_low", "difference_high", "p", "n_pairs"]])


def align_probes(ours: pd.DataFrame, theirs: pd.DataFrame) -> pd.DataFrame:
    """The second model's scores of shared probes, with subject and labels of the first's table."""
    names = ["subject", *(name for name in cell_of(ours) if name != "decoding")]
    labels = ours.drop_duplicates("item").set_index("item")[names]
    theirs = theirs[theirs["item"].isin(shared_probes(ours, theirs, "item"))]
    columns = {name: theirs["item"].map(labels[name]).astype(labels[name].dtype) for name in labels.columns}
    return theirs.assign(**columns)


def paper_summary(scores: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """The paper's summary of a model: mean of 100 draws' means of 100 probes, with their percentile interval."""
    rows, cell = [], cell_of(scores)
    for *labels, values in _columns(scores):
        mean = paper_bootstrap(values, seed=seed)
        numbers = (None, None, None, 0) if mean is None else (mean.mean, mean.low, mean.high, mean.n)
        rows.append((*labels, *numbers))
    return _floats(pd.DataFrame(rows, columns=[*cell, "measure", "value", "low", "high", "n_scored"]))


def paper_differences(scores: pd.DataFrame, against: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """The paper's comparison of two models: rank-sum test over the draws' means; z and p."""
    theirs = {tuple(labels): values for *labels, values in _columns(against)}
    rows: list[tuple[Any, ...]] = []
    for *labels, values in _columns(scores):
        if tuple(labels) in theirs:
            # Independent draws: the paper's test is for independent samples.
            ours, others = paper_bootstrap(values, seed=seed), paper_bootstrap(theirs[tuple(labels)], seed=seed + 1)
            test = (None, None) if ours is None or others is None else rank_sum_test(ours.means, others.means)
            rows.append((*labels, *test))
    return _floats(pd.DataFrame(rows, columns=[*cell_of(scores), "measure", "z", "p_rank_sum"]))


def leaking_subjects(scores: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Count the subjects whose measure is above 0 in any of their probes and samples.

    Returns:
        One row per corpus and decoding: corpus, decoding, measure, n_leaking, n_subjects (with a score).
    """
    scored = scores[(scores["measure"] == measure) & scores["value"].notna()]
    highest = scored.groupby(["corpus", "decoding", "subject"], sort=False)["value"].max().gt(0).reset_index()
    table = highest.groupby(["corpus", "decoding"], sort=False)["value"].agg(["sum", "size"]).reset_index()
    table = table.rename(columns={"sum": "n_leaking", "size": "n_subjects"}).astype({"n_leaking": int})
    return table.assign(measure=measure)[["corpus", "decoding", "measure", "n_leaking", "n_subjects"]]


def probe_scores(scores: pd.DataFrame) -> pd.DataFrame:
    """The score table with the mean over each probe's samples; null if none is scored."""
    keys = ["item", "subject", *cell_of(scores), "measure"]
    return scores.groupby(keys, sort=False)["value"].mean().reset_index()


def _columns(scores: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """Each cell's labels, each measure and its values [probes], NaN for unscored."""
    cell = cell_of(scores)
    matrix = score_matrix(probe_scores(scores), cell)
    for group in groups(matrix, cell):
        for place, measure in enumerate(matrix.measures):
            values: Array = matrix.values[group.rows, place]
            yield (*group.labels.values(), measure, values)


def _floats(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers as float64 with NaN if there is none."""
    columns = [name for name in table.columns if name not in {*CELL, WAY, "measure"}]
    return table.astype({name: "float64" for name in columns if not pd.api.types.is_integer_dtype(table[name])})
