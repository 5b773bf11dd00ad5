"""Membership inference in a report: areas, rates, curves, and on LUME the SemEval-2025 Task 4 score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from medunlearn.reports.content import ModelResult, ReportContent
from medunlearn.reports.figures import Spec, colours, layout, safe, short
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.tables import Cell, Table
from medunlearn.reports.words import ABSENT, UNSCORED, decimal, interval, signed

MEASURES = {
    "auc": "area under the ROC curve",
    "tpr_at_1pct_fpr": "true positives at 1% false positives",
    "tpr_at_0.1pct_fpr": "true positives at 0.1% false positives",
}

NOTES: tuple[str, ...] = (
    "An attack scores documents of the forget set and documents of the same kind that no model was trained on; "
    "higher = more likely a member. The area is how often a member outscores a non-member: 1 = every member is "
    "told, 0.5 = guessing.",
    "The retrained model never saw the forget set, so its area is what forgetting should reach. Over-forgotten: "
    "the area lies below it (without a retrained model: below 0.5), with the interval. That tells members as well "
    "as an area above does: they are the ones that the model avoids.",
)

_DASHES = {"target": "dot", "retrained": "dash", "unlearned": "solid"}


def membership_tables(content: ReportContent) -> list[tuple[str, Table]]:
    """A titled table a group: one row an attack and measure, one column a model."""
    found, labels = content.membership, [model.label for model in content.models]
    attacked = [label for label in labels if len(found.table) and label in set(found.table["model"])]
    tables = []
    for group in dict.fromkeys(row["group"] for row in rows_of(found.table)):
        inside = [row for row in rows_of(found.table) if row["group"] == group]
        cells: dict[tuple[str, str], dict[str, Cell]] = {}
        for row in inside:
            cells.setdefault((row["measure"], row["attack"]), {})[row["model"]] = _cell(row)
        rows = [
            (Cell(found.titles.get(attack, attack), MEASURES.get(measure, measure)),
             *(of.get(label, Cell(ABSENT)) for label in attacked))
            for (measure, attack), of in sorted(cells.items(), key=lambda one: list(MEASURES).index(one[0][0]))
        ]  # fmt: skip
        columns = (Cell("Attack"), *(Cell(label) for label in attacked))
        people = f"{_most(inside, 'n_members')} members, {_most(inside, 'n_nonmembers')} non-members"
        name = "Documents" if group == "all" else str(group).replace("_", " ").capitalize()
        tables.append((f"{name}: {people}", Table(columns, tuple(rows))))
    return tables


def membership_reasons(content: ReportContent) -> list[str]:
    """Why numbers are unscored, each reason once."""
    rows = [row for row in rows_of(content.membership.table) if number(row["value"]) is None]
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        about = f"{content.membership.titles.get(row['attack'], row['attack'])}"
        found.setdefault(str(row["reason"]), {})[about] = None
    return [f"Unscored, {', '.join(names)}: {reason}." for reason, names in found.items()]


def difference_table(content: ReportContent) -> Table | None:
    """Areas against those of the other models, paired on documents."""
    rows = []
    for row in rows_of(content.membership.comparisons):
        gap = number(row["difference"])
        if gap is None:
            continue
        name = content.membership.titles.get(row["attack"], row["attack"])
        rows.append(
            (
                Cell(str(row["model"]), f"− {row['against']}"),
                Cell(name, "" if row["group"] == "all" else str(row["group"]).replace("_", " ")),
                Cell(signed(gap), interval(number(row["low"]), number(row["high"]))),
                Cell(str(row["reading"] or "")),
            )
        )
    columns = (Cell("Models"), Cell("Attack"), Cell("Difference of areas", "95% interval"), Cell("It lies"))
    return Table(columns, tuple(rows)) if rows else None


def privacy_table(content: ReportContent) -> Table | None:
    """MUSE's privacy leakage: one row a model and attack."""
    rows = [
        (
            Cell(str(row["model"]), f"against {row['against']}"),
            Cell(content.membership.titles.get(row["attack"], row["attack"])),
            Cell(UNSCORED if (value := number(row["value"])) is None else signed(value),
                 interval(number(row["low"]), number(row["high"]))),
        )
        for row in rows_of(content.membership.privacy)
    ]  # fmt: skip
    columns = (Cell("Model"), Cell("Attack"), Cell("Privacy leakage", "0 = as the retrained model"))
    return Table(columns, tuple(rows)) if rows else None


def semeval_table(content: ReportContent) -> Table | None:
    """The SemEval-2025 Task 4 score and always its three parts."""
    scores = content.membership.semeval
    if not scores:
        return None
    names = list(next(iter(scores.values())))
    rows = tuple((Cell(name), *(_part(of[name]) for of in scores.values())) for name in names)
    return Table((Cell("SemEval-2025 Task 4"), *(Cell(label) for label in scores)), rows)


def _part(value: float | None) -> Cell:
    return Cell(UNSCORED if value is None else decimal(value))


def roc_figures(content: ReportContent) -> list[tuple[str, Spec]]:
    """A ROC plot a group and attack, one line a model, and the diagonal of guessing."""
    curves = content.membership.curves
    if not len(curves):
        return []
    found = []
    for (group, attack), part in curves.groupby(["group", "attack"], sort=False):
        title = content.membership.titles.get(str(attack), str(attack))
        lines = [
            _line(model, part, content.models) for model in content.models if model.label in set(part["model"])
        ]
        found.append((title if group == "all" else f"{title}, {str(group).replace('_', ' ')}", _plot(lines)))
    return found


def _line(model: ModelResult, part: pd.DataFrame, models: Sequence[ModelResult]) -> Spec:
    rows = part[part["model"] == model.label]
    line = {"color": colours(models)[model.label], "width": 1.8, "dash": _DASHES[model.role], "shape": "linear"}
    hover = "%{y:.3f} at %{x:.3f}<extra>%{fullData.name}</extra>"
    points = {"x": [short(float(one)) for one in rows["fpr"]], "y": [short(float(one)) for one in rows["tpr"]]}
    kind = {"type": "scatter", "mode": "lines", "name": safe(model.label), "hovertemplate": hover}
    return {**kind, **points, "line": line}


def _plot(lines: list[Spec]) -> Spec:
    frame = layout(([-0.01, 1.01], [-0.01, 1.01]), "false positive rate", "true positive rate", small=True)
    diagonal = {"type": "line", "x0": 0, "y0": 0, "x1": 1, "y1": 1, "line": {"color": "--line", "width": 1}}
    frame |= {"shapes": [diagonal], "showlegend": True, "margin": {"l": 52, "r": 10, "t": 40, "b": 44}}
    frame |= {"legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 12}}}
    return {"data": lines, "layout": frame, "labels": False}


def _cell(row: Mapping[str, Any]) -> Cell:
    value = number(row["value"])
    if value is None:
        return Cell(UNSCORED)
    said = "" if pd.isna(row["reading"]) else str(row["reading"])
    return Cell(
        decimal(value), " ".join(part for part in (interval(number(row["low"]), number(row["high"])), said) if part)
    )


def _most(rows: Sequence[Mapping[str, Any]], name: str) -> int:
    return max(int(row[name]) for row in rows)
