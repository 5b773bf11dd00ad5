"""The page "what brings it back": every attack beside the same attack on a model that never knew. Reads no file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from medunlearn.reports.blocks import Bullets, Cell, Prose, Section, Table, section
from medunlearn.reports.formatting import ABSENT, decimal, interval, signed
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.table_blocks import cross_table, value_cell

NAME = "brings_back"
TITLE = "What brings it back"
COLUMNS = (
    *("attack", "title", "measure", "states", "model", "role", "before", "value", "low", "high", "n_subjects"),
    *("against", "difference", "difference_low", "difference_high", "p", "reading", "reason"),
)
"""Columns of the page's rows: the attack's part and title; its measure; number of its states, of which the worst
counts for each question; the model; the mean before the attack, and under it with its 95% interval over subjects;
the retrained model, and the difference from it under the same attack, paired on questions; the reading; why there
is no number."""
ABOUT = (
    "Each row is one attack, each column one model. An attack with several states counts the worst of them for "
    "each question. 0-1, higher = more of the forgotten text comes out.",
    "The retrained model never saw the forgotten patients, and gets the same attack in the same states. Only the "
    "difference from it counts: what stands above it was not forgotten. Intervals are over patients, paired on "
    "questions.",
)
WITHOUT_RETRAINED = (
    "No retrained model was attacked, so no number here says that something came back. Each attack says what its "
    "number then means."
)
Row = Mapping[str, Any]


def battery_section(
    table: pd.DataFrame, words: Mapping[str, str], measures: Mapping[str, str], alone: Mapping[str, str]
) -> Section | None:
    """The section; None without rows.

    Args:
        table: :data:`COLUMNS`.
        words: reading -> its basis.
        measures: name of a measure -> its title.
        alone: an attack's title -> meaning of its number without a retrained model.
    """
    if table.empty:
        return None
    rows = [*rows_of(table)]
    has_reference = any(number(row["difference"]) is not None for row in rows)
    readings = {_text(row["reading"]) for row in rows}
    bullets = [f"{word.capitalize()}: {why}." for word, why in words.items() if word in readings]
    if not has_reference:
        bullets += [f"{title}: {why}." for title, why in alone.items()]
    return section(
        TITLE,
        Prose(ABOUT if has_reference else (ABOUT[0], WITHOUT_RETRAINED)),
        battery_table(rows, measures),
        Bullets(tuple(bullets)) if bullets else None,
        name=NAME.replace("_", "-"),
    )


def battery_table(rows: Sequence[Row], measures: Mapping[str, str]) -> Table | None:
    """One row per part of an attack, one column per model, the retrained one last."""
    labels = dict.fromkeys(row["model"] for row in sorted(rows, key=lambda row: row["role"] == "retrained"))
    numbered = [row for row in rows if number(row["value"]) is not None]
    entries = [((_attack_cell(row, measures),), row["model"], _model_cell(row)) for row in numbered]
    for row in rows:
        if reason := _text(row["reason"]):
            own = [other for other in numbered if f"{other['attack']}.".startswith(f"{row['attack']}.")]
            cells = dict.fromkeys(_attack_cell(other, measures) for other in own) or [Cell(str(row["title"]))]
            entries += [((cell,), row["model"], Cell(ABSENT, reason)) for cell in cells]
    return cross_table(["Attack"], entries, {label: Cell(label) for label in labels})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _attack_cell(row: Row, measures: Mapping[str, str]) -> Cell:
    states = int(row["states"])
    worst = f", worst of {states} states" if states > 1 else ""
    return Cell(str(row["title"]), f"{measures.get(row['measure'], row['measure'])}{worst}")


def _model_cell(row: Row) -> Cell:
    """The difference from the retrained model; of the retrained model, or without one, the value itself."""
    reading, before = _text(row["reading"]), number(row["before"])
    was = "" if before is None else f"before {decimal(before)}"
    difference = number(row["difference"])
    if difference is None:
        return value_cell(row, ", ".join(filter(None, (was, reading))))
    low, high = (number(row[name]) for name in ("difference_low", "difference_high"))
    value = f"{decimal(float(row['value']))} under the attack"
    parts = (interval(low, high) or "too few subjects for an interval", value, was, reading)
    return Cell(signed(difference), ", ".join(filter(None, parts)))
