"""Attacks in a report of runs: membership inference, and reconstruction from identifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from medunlearn.reports.blocks import Bullets, Cell, Prose, Section, Spec, Table, details, figures, section
from medunlearn.reports.content import ModelResult, ReportContent
from medunlearn.reports.figures import colours, layout, line, plot, short, whiskers
from medunlearn.reports.formatting import signed
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.table_blocks import gap_cell, grid, records, value_cell

MEASURES = {
    "auc": "area under the ROC curve",
    "tpr_at_1pct_fpr": "true positives at 1% false positives",
    "tpr_at_0.1pct_fpr": "true positives at 0.1% false positives",
}
MEMBERSHIP_NOTES: tuple[str, ...] = (
    "An attack scores documents of the forget set and documents of the same kind that no model was trained on; "
    "higher = more likely a member. The area is how often a member outscores a non-member: 1 = every member is "
    "told, 0.5 = guessing.",
    "The retrained model never saw the forget set, so its area is what forgetting should reach. Over-forgotten: "
    "the area lies below it (without a retrained model: below 0.5), with the interval. That tells members as well "
    "as an area above does: they are the ones that the model avoids.",
)
RECONSTRUCTION_NOTES: tuple[str, ...] = (
    "The forget set's questions, asked again with ever more identifiers in front: the nearest level's name, then "
    "the next one's too. Higher = leaks more. The change is from the question with nothing in front, paired.",
    "The retrained model never saw these records: its answers are guesses. What a model leaks beyond it was not "
    "forgotten.",
)
_DASHES = {"target": "dot", "retrained": "dash", "unlearned": "solid"}
Row = Mapping[str, Any]


def membership_section(content: ReportContent) -> Section | None:
    """Areas and rates by group of documents, differences, and ROC curves; None where no model was attacked."""
    tables = membership_tables(content)
    if not tables:
        return None
    reasons = _membership_reasons(content)
    return section(
        "Membership inference",
        Prose(MEMBERSHIP_NOTES),
        tables,
        Bullets(reasons) if reasons else None,
        details("Differences between models, paired on documents", _area_differences(content)),
        figures(roc_figures(content), "ROC curves"),
        name="membership",
    )


def membership_tables(content: ReportContent) -> list[Table]:
    """A table a group: one row an attack and measure, one column a model."""

    def attack(row: Row) -> Cell:
        measure = str(row["measure"])
        return Cell(_title(content, row["attack"]), MEASURES.get(measure, measure))

    def value(row: Row) -> Cell:
        return value_cell(row, "" if pd.isna(row["reading"]) else str(row["reading"]))

    table, tables = content.membership.table, []
    for group in table["group"].unique() if len(table) else ():
        rows = [row for row in rows_of(table) if row["group"] == group]
        rows.sort(key=lambda row: list(MEASURES).index(row["measure"]))
        documents = "Documents" if group == "all" else _group(group).capitalize()
        members, others = (max(int(row[name]) for row in rows) for name in ("n_members", "n_nonmembers"))
        title = f"{documents}: {members} members, {others} non-members"
        tables.append((title, rows))
    return model_tables(content, table, "Attack", tables, attack, value)


def model_tables(
    content: ReportContent,
    models: pd.DataFrame,
    head: str,
    parts: list[tuple[str, list[Row]]],
    name: Callable[[Row], Cell],
    value: Callable[[Row], Cell],
) -> list[Table]:
    labels = [model.label for model in present_models(content, models)]
    grids = (grid(head, ((name(r), r["model"], value(r)) for r in rows), labels, title) for title, rows in parts)
    return [table for table in grids if table]


def _membership_reasons(content: ReportContent) -> tuple[str, ...]:
    """Reasons of unscored numbers, each once."""
    attacks: dict[str, dict[str, None]] = {}
    for row in rows_of(content.membership.table):
        if number(row["value"]) is None:
            attacks.setdefault(str(row["reason"]), {})[_title(content, row["attack"])] = None
    return tuple(f"Unscored, {', '.join(names)}: {reason}." for reason, names in attacks.items())


def _area_differences(content: ReportContent) -> Table | None:
    columns = (Cell("Models"), Cell("Attack"), Cell("Difference of areas", "95% interval"), Cell("It lies"))
    rows = (
        (
            pair_cell(row),
            Cell(_title(content, row["attack"]), "" if row["group"] == "all" else _group(row["group"])),
            gap_cell(row),
            Cell(str(row["reading"] or "")),
        )
        for row in known_differences(content.membership.comparisons)
    )
    return records(columns, rows)


def roc_figures(content: ReportContent) -> list[tuple[str, Spec]]:
    """A ROC plot a group and attack, one line a model, and the diagonal of guessing."""
    curves, plots = content.membership.curves, []
    frame = layout(([-0.01, 1.01], [-0.01, 1.01]), "false positive rate", "true positive rate", small=True)
    diagonal = {"type": "line", "x0": 0, "y0": 0, "x1": 1, "y1": 1, "line": {"color": "--line", "width": 1}}
    hover = "%{y:.3f} at %{x:.3f}<extra>%{fullData.name}</extra>"
    for (group, attack), part in curves.groupby(["group", "attack"], sort=False) if len(curves) else ():
        lines = []
        for model in present_models(content, part):
            rows = part[part["model"] == model.label]
            x, y = ([short(float(rate)) for rate in rows[name]] for name in ("fpr", "tpr"))
            lines.append(model_line(content, model, hover, "lines", x=x, y=y))
        title = _title(content, attack) + ("" if group == "all" else f", {_group(group)}")
        plots.append((title, plot(lines, frame, (52, 10, 40, 44), shapes=[diagonal], showlegend=True)))
    return plots


def reconstruction_section(content: ReportContent) -> Section | None:
    """Leakage by the identifiers in front of a question; None where no model was attacked."""
    table = content.reconstruction.table
    if table.empty:
        return None

    def value(row: Row) -> Cell:
        change = number(row["change"])
        return value_cell(row, "" if change is None else f"change {signed(change)}")

    parts = [
        (f"{kind} questions on {side}: {measure_title(content, measure)}", part)
        for (side, _, kind, measure), part in table.groupby(["side", "fold", "kind", "measure"], sort=False)
    ]
    tables = [
        shown
        for title, part in parts
        for shown in model_tables(
            content, part, "Identifiers in front", [(title, list(rows_of(part)))], _front, value
        )
    ]
    return section(
        "Reconstruction",
        Prose(RECONSTRUCTION_NOTES),
        tables,
        details("Differences between models, paired on questions", _leakage_differences(content)),
        figures(
            [(title, _leakage_figure(content, part)) for title, part in parts], "Leakage by identifiers in front"
        ),
    )


def _leakage_differences(content: ReportContent) -> Table | None:
    columns = (Cell("Models"), Cell("Questions"), Cell("Identifiers in front"), Cell("Difference", "95% interval"))
    rows = (
        (pair_cell(row), Cell(str(row["kind"]), measure_title(content, row["measure"])), _front(row), gap_cell(row))
        for row in known_differences(content.reconstruction.comparisons)
    )
    return records(columns, rows)


def _leakage_figure(content: ReportContent, part: pd.DataFrame) -> Spec:
    """Leakage by identifiers, one line a model with its intervals."""
    names = list(dict.fromkeys(_front(row).text for row in rows_of(part)))
    lines = []
    for model in present_models(content, part):
        rows = [r for r in rows_of(part) if r["model"] == model.label and number(r["value"]) is not None]
        edges = whiskers((number(row["value"]), number(row["low"]), number(row["high"])) for row in rows)
        x, y = [_front(row).text for row in rows], [short(row["value"]) for row in rows]
        hover = "%{y:.3f}, %{x}<extra>%{fullData.name}</extra>"
        lines.append(model_line(content, model, hover, "lines+markers", x=x, y=y, error_y=edges))
    # Gen Score is in percent, everything else from 0 to 1.
    most = 100.0 if any(value > 1 for trace in lines for value in trace["y"]) else 1.0
    ranges = ([-0.3, len(names) - 0.7], [-0.02 * most, 1.02 * most])
    frame = layout(ranges, "identifiers in front", "leakage", small=True)
    frame["xaxis"] |= {"type": "category", "categoryorder": "array", "categoryarray": names}
    return plot(lines, frame, (52, 10, 40, 64), showlegend=True)


def model_line(content: ReportContent, model: ModelResult, hover: str, mode: str, **points: Any) -> Spec:
    colour = colours(content.models)[model.label]
    return line(model.label, colour, hover, mode=mode, dash=_DASHES[model.role], **points)


def present_models(content: ReportContent, table: pd.DataFrame) -> list[ModelResult]:
    labels = set(table["model"]) if len(table) else set()
    return [model for model in content.models if model.label in labels]


def known_differences(comparisons: pd.DataFrame) -> list[Row]:
    return [row for row in rows_of(comparisons) if number(row["difference"]) is not None]


def pair_cell(row: Row) -> Cell:
    return Cell(str(row["model"]), f"− {row['against']}")


def _title(content: ReportContent, attack: Any) -> str:
    return str(content.membership.titles.get(attack, attack))


def measure_title(content: ReportContent, metric: Any) -> str:
    return content.metrics[metric][0] if metric in content.metrics else str(metric)


def _group(group: Any) -> str:
    return str(group).replace("_", " ")


def _front(row: Row) -> Cell:
    """The identifiers in front of a question."""
    return Cell(str(row["identifiers"]) or "nothing")
