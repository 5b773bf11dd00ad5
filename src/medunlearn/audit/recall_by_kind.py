"""Recall of an audit's detectors on labelled notes (``recall.parquet``), as the first screen shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.leftovers import read_whole
from medunlearn.data.storage import read_frame
from medunlearn.statistics.intervals import MIN_SUBJECTS

ALL_KINDS = "all"
RECALL = "recall.parquet"
OURS, YOURS = "ours", "yours"
"""Origin of the labelled notes: the package or the user."""


@dataclass(frozen=True, slots=True)
class KindRecall:
    """Share of the labelled identifiers of a kind that the detectors find.

    Attributes:
        kind: title of the kind, or :data:`ALL_KINDS`.
        recall: 0-1; ``low`` and ``high`` its 95% interval over notes, None with fewer than five.
        found, labelled: numbers of identifiers.
        notes: origin of the labelled notes, :data:`OURS` or :data:`YOURS`.
    """

    kind: str
    recall: float
    low: float | None
    high: float | None
    found: int
    labelled: int
    notes: str


def read_recall(folder: Path, titles: Mapping[str, str]) -> tuple[KindRecall, ...]:
    """Recall by kind, most labels first, ``all`` of the user's notes last; empty without a measurement.

    Kinds with fewer than five labels are left out, and ``all`` of our notes: their mix of kinds is not the user's.

    Args:
        titles: kind of identifier -> its name.
    """
    table = read_whole(folder / RECALL, read_frame)
    if table is None:
        return ()
    notes = YOURS if "notes" in table.columns and table["notes"].eq(YOURS).all() else OURS
    measured = table[table["recall"].notna()]
    kinds, whole = (measured[(measured["kind"] == ALL_KINDS) == is_whole] for is_whole in (False, True))
    kinds = kinds[kinds["labelled"] >= MIN_SUBJECTS].sort_values("labelled", ascending=False, kind="stable")
    visible = pd.concat([kinds, whole]) if notes == YOURS else kinds
    columns = ["kind", "recall", "recall_low", "recall_high", "found", "labelled"]
    return tuple(
        KindRecall(titles.get(kind, kind), recall, _number(low), _number(high), found, labelled, notes)
        for kind, recall, low, high, found, labelled in visible[columns].itertuples(index=False, name=None)
    )


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)
