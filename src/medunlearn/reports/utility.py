"""Utility by lm-evaluation-harness in a report: what counts, a column a model."""

from __future__ import annotations

from medunlearn.reports.content import ReportContent
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.tables import Cell, Table
from medunlearn.reports.words import ABSENT, UNSCORED, decimal, interval

NOTE = (
    "Tasks of lm-evaluation-harness, on as many items as were asked; higher = more useful. Intervals are "
    "a bootstrap over items, since these are about nobody. `utility` is the plain mean of the numbers above it."
)


def utility_table(content: ReportContent) -> Table | None:
    """One row a task and metric that counts, with the number of items, and `utility` last; None without any."""
    found = rows_of(content.utility)
    labels = [model.label for model in content.models if model.label in {row["model"] for row in found}]
    cells: dict[tuple[str, str], dict[str, Cell]] = {}
    for row in found:
        value = number(row["value"])
        about = interval(number(row["low"]), number(row["high"]))
        shown = Cell(UNSCORED) if value is None else Cell(decimal(value), about)
        cells.setdefault((str(row["name"]), f"{row['metric']}, {row['n_scored']} items"), {})[row["model"]] = shown
    rows = tuple((Cell(*key), *(of.get(label, Cell(ABSENT)) for label in labels)) for key, of in cells.items())
    return Table((Cell("Task"), *(Cell(label) for label in labels)), rows) if rows else None
