"""The cases of a finding as a table."""

from __future__ import annotations

from medunlearn.papers.lume.report.cases import Finding
from medunlearn.reports.tables import Cell, Table


def cases_table(found: Finding) -> Table:
    """One row a case: run, task, verdict, what it says, and its numbers."""
    columns = tuple(Cell(name) for name in ("Run", "Task", "Case", "What the numbers show", "Numbers"))
    rows = tuple(
        (
            Cell(case.run),
            Cell(case.task.replace("_", " ")),
            Cell(case.verdict),
            Cell(case.says),
            Cell("; ".join(map(str, case.evidence))),
        )
        for case in found.cases
    )
    return Table(columns, rows)
