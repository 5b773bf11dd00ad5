"""What the report of the diagnosis case is made of; nothing here reads a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class DiagnosisContent:
    """Everything that the report shows; no text of a record or response is in it.

    Attributes:
        benchmark: name, builder, source, data_use, counts, invented.
        part: which part was asked about.
        gold: ``principal`` or ``any``: what had to be found.
        ks: the k of top-k.
        least_patients: patients that a specialty has at least, to be shown by itself.
        models: labels, the model in question first.
        accuracy: model, specialty ("" for all), k, value, low, high, n, n_subjects, n_unread.
        differences: model, against, specialty, k, difference, low, high, p, n_pairs, n_subjects; may be empty.
        epochs: epoch, measure, fold, metric, value, low, high, n_scored, n_unscored; may be empty.
        best: the epoch of the least validation loss; None where there is no such number.
        chosen: the epoch whose model is the run's.
        stop: the epoch after which early stopping ends (or would have ended) the training; None: it does not.
        patience: by which ``stop`` is told.
        small: specialties with fewer patients -> how many.
        rise: one entry a length of run: tokens, first, last, verdict, and the differences loss, trained, held_out.
        replicates: bootstrap draws behind an interval.
    """

    title: str
    benchmark: Mapping[str, Any]
    part: str
    gold: str
    ks: tuple[int, ...]
    least_patients: int
    models: tuple[str, ...]
    accuracy: pd.DataFrame
    differences: pd.DataFrame
    epochs: pd.DataFrame
    best: int | None
    chosen: int | None
    stop: int | None
    patience: int
    small: Mapping[str, int]
    rise: tuple[Mapping[str, Any], ...]
    replicates: int
