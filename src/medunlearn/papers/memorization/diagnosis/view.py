"""Diagnostic accuracy on the terminal and as JSON."""

from __future__ import annotations

from medunlearn.models.health import banner
from medunlearn.papers.memorization.diagnosis import report
from medunlearn.papers.memorization.diagnosis.rise import rise_finding
from medunlearn.reports.blocks import Cell, Table
from medunlearn.reports.claims import cases_table
from medunlearn.reports.json import plain
from medunlearn.reports.view import ResultView


def diagnosis_view(result: report.Diagnosed) -> ResultView:
    """Accuracies, differences and epochs of diagnosed models."""
    rise, epochs = rise_finding(result.results["rise"]), report.epoch_table(result)
    tables = (
        (f"top-k accuracy, {result.settings.part} part", report.accuracy_table(result)),
        ("differences, paired on patients", report.difference_table(result)),
        ("does memorization rise while the validation loss falls?", cases_table(rise) if rise else None),
        ("epoch by epoch", None if epochs is None else _without_intervals(epochs)),
    )
    data = {"folder": str(result.record.folder), "rise": result.results["rise"], "health": result.problems}
    return ResultView(
        data | {name: plain(getattr(result, name)) for name in ("accuracy", "differences", "epochs")},
        [(title, table) for title, table in tables if table is not None],
        [*filter(None, (report.stopping(result), report.small_text(result), f"Report: {result.report}"))],
        banner(result.problems),
    )


def _without_intervals(table: Table) -> Table:
    """The table with texts alone, except in the first column: the report has the intervals."""
    columns = tuple(Cell(cell.text) for cell in table.columns)
    rows = tuple((Cell(str(row[0])), *(Cell(cell.text) for cell in row[1:])) for row in table.rows)
    return Table(columns, rows)
