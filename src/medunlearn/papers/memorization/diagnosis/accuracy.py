"""Tables of top-k accuracy from predictions: overall, by specialty, and before against after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.statistics import resample_means, resample_pairs
from medunlearn.statistics.bootstrap import Array

ALL = ""
"""What tables call the specialty of all admissions together."""


def hits(table: pd.DataFrame, ks: Sequence[int]) -> Array:
    """1 where a right diagnosis is among the first k, else 0, shape [rows, len(ks)].

    A response in which no diagnosis can be read names none that is right: 0, and counted as unread beside it.
    """
    ranks = table["rank"].astype("Float64").to_numpy(dtype=float, na_value=np.inf)
    return np.column_stack([(ranks <= k).astype(float) for k in ks])


def groups(table: pd.DataFrame, least_patients: int) -> tuple[dict[str, pd.Series], dict[str, int]]:
    """Which rows are of all admissions, and of each specialty with enough patients; the others with their number.

    Specialties with many patients come first.
    """
    patients = table[table["specialty"] != ""].groupby("specialty")["subject"].nunique()
    ordered = sorted(patients.items(), key=lambda one: (-one[1], str(one[0])))
    large = {str(name): table["specialty"] == name for name, n in ordered if n >= least_patients}
    small = {str(name): int(n) for name, n in ordered if n < least_patients}
    return {ALL: pd.Series(True, index=table.index), **large}, small


def accuracy_table(
    models: Mapping[str, pd.DataFrame], ks: Sequence[int], least_patients: int, *, replicates: int, seed: int
) -> pd.DataFrame:
    """One row a model, specialty and k: value (0-1, higher = diagnoses better) with its 95% interval over patients.

    Args:
        models: label -> predictions (:func:`medunlearn.papers.memorization.diagnosis.asking.predictions`).

    Returns:
        model, specialty ("" for all), k, value, low, high, n (responses), n_subjects (patients), n_unread
        (responses without a list of diagnoses, which count as wrong).
    """
    rows: list[dict[str, Any]] = []
    for label, table in models.items():
        inside, _ = groups(table, least_patients)
        for specialty, which in inside.items():
            part = table[which]
            drawn = resample_means(hits(part, ks), part["subject"].tolist(), replicates=replicates, seed=seed)
            for place, k in enumerate(ks):
                found = drawn.estimate([place])
                rows.append(
                    {
                        "model": label,
                        "specialty": specialty,
                        "k": k,
                        "value": found.value,
                        "low": found.low,
                        "high": found.high,
                        "n": found.n,
                        "n_subjects": found.n_clusters,
                        "n_unread": int((part["named"] == 0).sum()),
                    }
                )
    return _numbers(rows, ("value", "low", "high"))


def difference_table(
    models: Mapping[str, pd.DataFrame], ks: Sequence[int], least_patients: int, *, replicates: int, seed: int
) -> pd.DataFrame:
    """The first model minus each other on the same admissions, paired on patients.

    Returns:
        model, against, specialty, k, difference, low, high, p, n_pairs, n_subjects. p is two-sided, of one
        comparison (:class:`medunlearn.statistics.Difference`).
    """
    (label, first), *others = models.items()
    rows: list[dict[str, Any]] = []
    for against, other in others:
        matched = first.merge(other[["question_id", "named", "rank"]], on="question_id", suffixes=("", "_other"))
        inside, _ = groups(matched, least_patients)
        there = matched.assign(rank=matched["rank_other"])
        for specialty, which in inside.items():
            pairs = resample_pairs(
                hits(matched[which], ks),
                hits(there[which], ks),
                matched.loc[which, "subject"].tolist(),
                replicates=replicates,
                seed=seed,
            )
            for place, k in enumerate(ks):
                found = pairs.difference([place])
                rows.append(
                    {
                        "model": label,
                        "against": against,
                        "specialty": specialty,
                        "k": k,
                        "difference": found.difference,
                        "low": found.low,
                        "high": found.high,
                        "p": found.p,
                        "n_pairs": found.n_pairs,
                        "n_subjects": found.n_clusters,
                    }
                )
    return _numbers(rows, ("difference", "low", "high", "p"))


def _numbers(rows: list[dict[str, Any]], names: Sequence[str]) -> pd.DataFrame:
    table = pd.DataFrame(rows)
    return table.astype(dict.fromkeys(names, "Float64")) if rows else table
