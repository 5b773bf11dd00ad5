"""Reconstruction in a report of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from medunlearn.attacks.attacked import Attacks
from medunlearn.attacks.reconstruction.reconstruction_results import NAME, reported
from medunlearn.reports.attack_tables import difference_table, measure_title, model_tables, strength_figure
from medunlearn.reports.blocks import Bullets, Cell, Prose, Section, details, figures, section
from medunlearn.reports.content import AttackPart, ReportContent
from medunlearn.reports.formatting import signed
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.table_blocks import value_cell

RECONSTRUCTION_NOTES: tuple[str, ...] = (
    "The forget set's questions, asked again with ever more identifiers in front: the nearest level's name, then "
    "the next one's too. Higher = leaks more. The change is from the question with nothing in front, paired.",
    "The retrained model never saw these records: its answers are guesses. What a model leaks beyond it was not "
    "forgotten.",
    "A longer prompt moves every model, so a model's change is read against the target's own.",
)
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Reconstruction:
    """Results of a reconstruction attack; both empty if no model was attacked.

    Attributes:
        table: model, role, side, fold, kind, context, identifiers, measure, value, low, high, change, n_scored.
        comparisons: model, against, side, fold, kind, context, identifiers, measure, difference, low, high, p,
            change_difference, change_low, change_high, change_p.
    """

    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    comparisons: pd.DataFrame = field(default_factory=pd.DataFrame)


def reconstruction_part(content: ReportContent, attacks: Attacks | None, notes: Sequence[str]) -> AttackPart:
    """The part of a report."""
    own = Reconstruction()
    if attacks is not None:
        own = Reconstruction(reported(attacks.table()), reported(attacks.comparisons))
    data = {"table": own.table, "comparisons": own.comparisons}
    return AttackPart(NAME, reconstruction_section(content, own, notes), data)


def reconstruction_section(
    content: ReportContent, own: Reconstruction, notes: Sequence[str] = ()
) -> Section | None:
    """Leakage by the identifiers in a question's prefix; None if no model was attacked."""
    table = own.table
    if table.empty:
        return None

    def value(row: Row) -> Cell:
        change = number(row["change"])
        return value_cell(row, "" if change is None else f"change {signed(change)}")

    parts = [
        (f"{kind} questions on {side}: {measure_title(content, measure)}", list(rows_of(part)))
        for (side, _, kind, measure), part in table.groupby(["side", "fold", "kind", "measure"], sort=False)
    ]
    head = "Identifiers in front"
    tables = [
        table
        for title, rows in parts
        for table in model_tables(
            content, rows, head, [(title, [(_front(row), row["model"], value(row)) for row in rows])]
        )
    ]
    labels = [
        (Cell(str(row["kind"]), measure_title(content, row["measure"])), _front(row))
        for row in rows_of(own.comparisons)
    ]
    differences = difference_table(own.comparisons, ("Questions", head), labels)
    moved = own.comparisons
    if "change_difference" in moved:
        parts_of_change = {f"change_{name}": name for name in ("difference", "low", "high", "p")}
        moved = moved.drop(columns=[*parts_of_change.values()]).rename(columns=parts_of_change)
    changes = difference_table(moved, ("Questions", head), labels)
    plots = [
        (title, strength_figure(content, rows, [_front(row).text for row in rows], head.lower(), "leakage", 64))
        for title, rows in parts
    ]
    return section(
        "Reconstruction",
        Prose(RECONSTRUCTION_NOTES),
        tables,
        Bullets(tuple(notes)) if notes else None,
        details("Differences between models, paired on questions", differences),
        details("A model's change minus the other's under the same prompt", changes),
        figures(plots, "Leakage by identifiers in front"),
    )


def _front(row: Row) -> Cell:
    """The identifiers in front of a question."""
    return Cell(str(row["identifiers"]) or "nothing")
