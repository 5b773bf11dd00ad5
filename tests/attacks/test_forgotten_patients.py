"""Telling forgotten patients from others: a model that shows them, and one that never saw either."""

from __future__ import annotations

from typing import Any

import numpy as np

from medunlearn.attacks.whitebox.patient_features import told_apart
from medunlearn.data.records import Record


def areas(language_model: Any, documents: list[Record], members: slice, others: slice) -> float:
    records = [*documents[members], *documents[others]]
    names = [record.record_id for record in records]
    how = {"max_length": None, "batch_size": 16, "seed": 0}
    return float(np.mean(told_apart(language_model, records, names, len(documents[members]), **how)))


def test_memorized_patients_are_told_from_unseen_ones(
    memorized: Any, untrained: Any, documents: list[Record]
) -> None:
    assert areas(memorized, documents, slice(0, 20), slice(20, 40)) > 0.8
    # Both halves learned, or neither: nothing to tell. Ten against ten settle it to about 0.2.
    assert abs(areas(memorized, documents, slice(0, 10), slice(10, 20)) - 0.5) < 0.3
    assert abs(areas(untrained, documents, slice(0, 20), slice(20, 40)) - 0.5) < 0.25
