"""The measures of TOFU's and MUSE's papers as a table: one row a measure, one column a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medunlearn.reports.content import ReportContent
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.tables import Cell, Table
from medunlearn.reports.words import ABSENT, UNSCORED, decimal, interval


def published_table(content: ReportContent) -> Table | None:
    """None where the benchmark has no such measures."""
    if content.published is None:
        return None
    found: dict[str, dict[str, Cell]] = {}
    for row in rows_of(content.published.table):
        found.setdefault(str(row["measure"]), {})[str(row["model"])] = _cell(row)
    labels = [model.label for model in content.models]
    rows = tuple(
        (Cell(measure), *(of.get(label, Cell(ABSENT)) for label in labels)) for measure, of in found.items()
    )
    return Table((Cell("Measure"), *(Cell(label) for label in labels)), rows)


def _cell(row: Mapping[str, Any]) -> Cell:
    value, note = number(row["value"]), str(row["note"] or "")
    if value is None:
        # The reference of a comparison has no value of its own and is no gap in the measurement.
        return Cell("reference") if note == "the reference" else Cell(UNSCORED, note)
    # A p-value of a hundredth of a thousandth is not 0.
    text = f"{value:.2g}" if 0.0 < value < 0.0005 else decimal(value)
    return Cell(text, " ".join(part for part in (interval(number(row["low"]), number(row["high"])), note) if part))
