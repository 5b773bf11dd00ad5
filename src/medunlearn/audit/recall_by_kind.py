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
    """Share of the labelled identifiers of a kind that the detectors find, in all styles of notes or in one.

    Attributes:
        kind: title of the kind, or :data:`ALL_KINDS`.
        style: of the notes, or :data:`ALL_KINDS`.
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
    style: str = ALL_KINDS


def read_recall(folder: Path, titles: Mapping[str, str]) -> tuple[KindRecall, ...]:
    """Recall by kind, most labels first, ``all`` of the user's notes last; empty without a measurement.

    Kinds with fewer than five labels are left out, and ``all`` of our notes: their mix of kinds is not the user's.
    Of ours the style with the lowest recall comes last.

    Args:
        titles: kind of identifier -> its name.
    """
    table = read_whole(folder / RECALL, read_frame)
    if table is None:
        return ()
    notes = YOURS if "notes" in table.columns and table["notes"].eq(YOURS).all() else OURS
    measured = table[table["recall"].notna()]
    by_style = measured[measured["style"] != ALL_KINDS] if "style" in measured.columns else measured[:0]
    measured = measured.drop(by_style.index)
    kinds, whole = (measured[(measured["kind"] == ALL_KINDS) == is_whole] for is_whole in (False, True))
    kinds = kinds[kinds["labelled"] >= MIN_SUBJECTS].sort_values("labelled", ascending=False, kind="stable")
    visible = pd.concat([kinds, whole]) if notes == YOURS else kinds
    visible = pd.concat([visible.assign(style=ALL_KINDS), by_style.nsmallest(1, "recall")])
    columns = ["kind", "recall", "recall_low", "recall_high", "found", "labelled", "style"]
    return tuple(
        KindRecall(titles.get(kind, kind), recall, _number(low), _number(high), found, labelled, notes, style)
        for kind, recall, low, high, found, labelled, style in visible[columns].itertuples(index=False, name=None)
    )


def hardly_measured(folder: Path, titles: Mapping[str, str]) -> tuple[str, ...]:
    """Titles of the kinds with fewer than five labels in the notes that recall was measured on."""
    table = read_whole(folder / RECALL, read_frame)
    if table is None:
        return ()
    labelled = table.groupby("kind")["labelled"].max()
    return tuple(title for kind, title in titles.items() if labelled.get(kind, 0) < MIN_SUBJECTS)


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)
