"""Tables of top-k accuracy from predictions: overall, by specialty, and before against after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from medunlearn.results.summary import compare, summarize

ALL = ""
"""Name of all admissions' specialty in tables."""


def accuracy_scores(predictions: pd.DataFrame, ks: Sequence[int]) -> pd.DataFrame:
    """A score table: 1 where a right diagnosis is among the first k, else 0; the measure is k.

    A response in which no diagnosis can be read names none that is right: 0, and counted as unread beside it.
    """
    ranks = predictions["rank"].astype("Float64").to_numpy(dtype=float, na_value=np.inf)
    items = predictions.rename(columns={"question_id": "item"})
    return pd.concat(
        [items.assign(measure=str(k), value=(ranks <= k).astype(float)) for k in ks], ignore_index=True
    )


def small_specialties(predictions: pd.DataFrame, least_patients: int) -> dict[str, int]:
    """Specialties with fewer patients and their number of them, those with most first."""
    return {name: n for name, n in _patients(predictions).items() if n < least_patients}


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
    parts = []
    for label, predictions in models.items():
        by_specialty = _by_specialty(predictions, least_patients)
        table = summarize(accuracy_scores(by_specialty, ks), ["specialty"], replicates=replicates, seed=seed)
        unread = (by_specialty["named"] == 0).groupby(by_specialty["specialty"]).sum()
        parts.append(table.assign(model=label, n_unread=table["specialty"].map(unread)))
    table = pd.concat(parts, ignore_index=True).rename(columns={"measure": "k", "n_scored": "n"})
    columns = ["model", "specialty", "k", "value", "low", "high", "n", "n_subjects", "n_unread"]
    return table[columns].astype({"k": "int64"})


def difference_table(
    models: Mapping[str, pd.DataFrame], ks: Sequence[int], least_patients: int, *, replicates: int, seed: int
) -> pd.DataFrame:
    """The first model minus each other on the same admissions, paired on patients.

    Returns:
        model, against, specialty, k, difference, low, high, p, n_pairs, n_subjects. p is two-sided, of one
        comparison (:class:`medunlearn.statistics.Difference`). Nothing of a model alone.
    """
    scores = {label: accuracy_scores(_by_specialty(table, least_patients), ks) for label, table in models.items()}
    (label, first), *others = scores.items()
    parts = [
        compare(first, other, ["specialty"], replicates=replicates, seed=seed).assign(model=label, against=against)
        for against, other in others
    ]
    if not parts:
        return pd.DataFrame()
    columns = ["model", "against", "specialty", "k", "difference", "low", "high", "p", "n_pairs", "n_subjects"]
    return pd.concat(parts, ignore_index=True).rename(columns={"measure": "k"})[columns].astype({"k": "int64"})


def _patients(predictions: pd.DataFrame) -> dict[str, int]:
    known = predictions[predictions["specialty"] != ALL].groupby("specialty")["subject"].nunique()
    return {str(name): int(n) for name, n in sorted(known.items(), key=lambda entry: (-entry[1], str(entry[0])))}


def _by_specialty(predictions: pd.DataFrame, least_patients: int) -> pd.DataFrame:
    """All admissions together, and those of each specialty with enough patients, those with most first."""
    large = [name for name, n in _patients(predictions).items() if n >= least_patients]
    parts = [predictions[predictions["specialty"] == name] for name in large]
    return pd.concat([predictions.assign(specialty=ALL), *parts], ignore_index=True)
