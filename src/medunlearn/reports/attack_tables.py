"""Parts of the sections on attacks in a report of runs: tables by model, differences, and figures by strength."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from medunlearn.reports.blocks import Cell, Spec, Table
from medunlearn.reports.content import ModelResult, ReportContent
from medunlearn.reports.figures import colours, layout, line, plot, short, whiskers
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.table_blocks import gap_cell, grid, records

_DASHES = {"target": "dot", "retrained": "dash", "unlearned": "solid"}
Row = Mapping[str, Any]


def model_tables(
    content: ReportContent,
    models: Iterable[Row],
    head: str,
    parts: Iterable[tuple[str, list[tuple[Cell, str, Cell]]]],
) -> list[Table]:
    """A table per part with entries, one column per model.

    Args:
        parts: title, and entries: name of a row, label of a model, value.
    """
    labels = [model.label for model in present_models(content, models)]
    grids = (grid(head, entries, labels, title) for title, entries in parts)
    return [table for table in grids if table]


def difference_table(
    comparisons: pd.DataFrame, names: tuple[str, str], labels: Iterable[tuple[Cell, Cell]]
) -> Table | None:
    """Known differences of two models; ``labels`` of each comparison, under these names."""
    columns = (Cell("Models"), *map(Cell, names), Cell("Difference", "95% interval"))
    rows = zip(rows_of(comparisons), labels, strict=True)
    known = [(row, cells) for row, cells in rows if number(row["difference"]) is not None]
    return records(columns, [(model_pair(row), *cells, gap_cell(row)) for row, cells in known])


def strength_figure(
    content: ReportContent, rows: list[Row], strengths: Sequence[str], x: str, y: str = "", bottom: int = 44
) -> Spec:
    """Leakage by attack strength, one line per model with its intervals; ``strengths`` are the rows' labels."""
    names, lines = list(dict.fromkeys(strengths)), []
    for model in present_models(content, rows):
        own = [
            (strength, row)
            for strength, row in zip(strengths, rows, strict=True)
            if row["model"] == model.label and number(row["value"]) is not None
        ]
        edges = whiskers([(number(row["value"]), number(row["low"]), number(row["high"])) for _, row in own])
        points = {"x": [name for name, _ in own], "y": [short(row["value"]) for _, row in own], "error_y": edges}
        hover = "%{y:.3f}, %{x}<extra>%{fullData.name}</extra>"
        lines.append(model_line(content, model, hover, "lines+markers", **points))
    # Gen Score is in percent, everything else from 0 to 1.
    most = 100.0 if any(value > 1 for trace in lines for value in trace["y"]) else 1.0
    frame = layout(([-0.3, len(names) - 0.7], [-0.02 * most, 1.02 * most]), x, y, small=True)
    frame["xaxis"] |= {"type": "category", "categoryorder": "array", "categoryarray": names}
    return plot(lines, frame, (52, 10, 40, bottom), showlegend=True)


def model_line(content: ReportContent, model: ModelResult, hover: str, mode: str, **points: Any) -> Spec:
    colour = colours(content.models)[model.label]
    return line(model.label, colour, hover, mode=mode, dash=_DASHES[model.role], **points)


def present_models(content: ReportContent, rows: Iterable[Row]) -> list[ModelResult]:
    labels = {row["model"] for row in rows}
    return [model for model in content.models if model.label in labels]


def model_pair(row: Row) -> Cell:
    return Cell(str(row["model"]), f"− {row['against']}")


def measure_title(content: ReportContent, metric: Any) -> str:
    return content.metrics[metric][0] if metric in content.metrics else str(metric)
