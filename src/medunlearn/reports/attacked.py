"""Attacks in a report of runs: membership inference, and reconstruction from identifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from medunlearn.reports.blocks import Bullets, Cell, Prose, Section, Spec, Table, details, figures, section
from medunlearn.reports.content import ModelResult, ReportContent
from medunlearn.reports.figures import colours, layout, safe, short, whiskers
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.tables import grid, records, value_cell
from medunlearn.reports.words import interval, signed

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


def membership_section(content: ReportContent) -> Section | None:
    """Areas and rates by group of documents, differences, and ROC curves; None where no model was attacked."""
    tables = membership_tables(content)
    if not tables:
        return None
    reasons = membership_reasons(content)
    return section(
        "Membership inference",
        Prose(MEMBERSHIP_NOTES),
        tables,
        Bullets(tuple(reasons)) if reasons else None,
        details("Differences between models, paired on documents", difference_table(content)),
        figures(roc_figures(content), "ROC curves"),
        name="membership",
    )


def membership_tables(content: ReportContent) -> list[Table]:
    """A table a group: one row an attack and measure, one column a model."""
    membership, tables = content.membership, []
    rows = list(rows_of(membership.table))
    labels = _attacked(content.models, membership.table)
    for group in dict.fromkeys(row["group"] for row in rows):
        inside = [row for row in rows if row["group"] == group]
        inside.sort(key=lambda row: list(MEASURES).index(row["measure"]))
        entries = (
            (
                Cell(_title(content, row["attack"]), MEASURES.get(row["measure"], row["measure"])),
                row["model"],
                value_cell(row, "" if pd.isna(row["reading"]) else str(row["reading"])),
            )
            for row in inside
        )
        documents = "Documents" if group == "all" else str(group).replace("_", " ").capitalize()
        members, others = (max(int(row[name]) for row in inside) for name in ("n_members", "n_nonmembers"))
        table = grid("Attack", entries, labels, f"{documents}: {members} members, {others} non-members")
        tables += [table] if table else []
    return tables


def membership_reasons(content: ReportContent) -> list[str]:
    """Why numbers are unscored, each reason once."""
    attacks: dict[str, dict[str, None]] = {}
    for row in rows_of(content.membership.table):
        if number(row["value"]) is None:
            attacks.setdefault(str(row["reason"]), {})[_title(content, row["attack"])] = None
    return [f"Unscored, {', '.join(names)}: {reason}." for reason, names in attacks.items()]


def difference_table(content: ReportContent) -> Table | None:
    """Areas against those of the other models, paired on documents."""
    columns = (Cell("Models"), Cell("Attack"), Cell("Difference of areas", "95% interval"), Cell("It lies"))
    return records(
        columns,
        (
            (
                Cell(str(row["model"]), f"− {row['against']}"),
                Cell(_title(content, row["attack"]), "" if row["group"] == "all" else _group(row["group"])),
                _gap(row),
                Cell(str(row["reading"] or "")),
            )
            for row in rows_of(content.membership.comparisons)
            if number(row["difference"]) is not None
        ),
    )


def roc_figures(content: ReportContent) -> list[tuple[str, Spec]]:
    """A ROC plot a group and attack, one line a model, and the diagonal of guessing."""
    curves, plots = content.membership.curves, []
    if not len(curves):
        return []
    for (group, attack), part in curves.groupby(["group", "attack"], sort=False):
        title = _title(content, attack) + ("" if group == "all" else f", {_group(group)}")
        lines = []
        for model in _present(content.models, part):
            rows = part[part["model"] == model.label]
            lines.append(
                _line(content.models, model, "lines", "%{y:.3f} at %{x:.3f}<extra>%{fullData.name}</extra>")
                | {"x": [short(float(one)) for one in rows["fpr"]], "y": [short(float(one)) for one in rows["tpr"]]}
            )
        frame = layout(([-0.01, 1.01], [-0.01, 1.01]), "false positive rate", "true positive rate", small=True)
        diagonal = {"type": "line", "x0": 0, "y0": 0, "x1": 1, "y1": 1, "line": {"color": "--line", "width": 1}}
        frame |= {"shapes": [diagonal], "showlegend": True, "margin": {"l": 52, "r": 10, "t": 40, "b": 44}}
        plots.append((title, {"data": lines, "layout": frame, "labels": False}))
    return plots


def reconstruction_section(content: ReportContent) -> Section | None:
    """Leakage by the identifiers in front of a question; None where no model was attacked."""
    tables = reconstruction_tables(content)
    if not tables:
        return None
    return section(
        "Reconstruction",
        Prose(RECONSTRUCTION_NOTES),
        tables,
        details("Differences between models, paired on questions", reconstruction_differences(content)),
        figures(reconstruction_figures(content), "Leakage by identifiers in front"),
    )


def reconstruction_tables(content: ReportContent) -> list[Table]:
    """A table a side, kind and metric: one row a set of identifiers, one column a model."""
    tables = []
    for title, part in _parts(content):
        labels = [model.label for model in _present(content.models, part)]
        entries = (
            (
                Cell(_identifiers(row)),
                row["model"],
                value_cell(row, "" if (change := number(row["change"])) is None else f"change {signed(change)}"),
            )
            for row in rows_of(part)
        )
        table = grid("Identifiers in front", entries, labels, title)
        tables += [table] if table else []
    return tables


def reconstruction_differences(content: ReportContent) -> Table | None:
    """Each model's leakage against the other models', paired on questions."""
    columns = (Cell("Models"), Cell("Questions"), Cell("Identifiers in front"), Cell("Difference", "95% interval"))
    return records(
        columns,
        (
            (
                Cell(str(row["model"]), f"− {row['against']}"),
                Cell(str(row["kind"]), _metric(content, row["metric"])),
                Cell(_identifiers(row)),
                _gap(row),
            )
            for row in rows_of(content.reconstruction.comparisons)
            if number(row["difference"]) is not None
        ),
    )


def reconstruction_figures(content: ReportContent) -> list[tuple[str, Spec]]:
    """A plot a side, kind and metric: leakage by identifiers, one line a model with its intervals."""
    plots = []
    for title, part in _parts(content):
        names = list(dict.fromkeys(_identifiers(row) for row in rows_of(part)))
        lines = []
        for model in _present(content.models, part):
            rows = [
                row for row in rows_of(part) if row["model"] == model.label and number(row["value"]) is not None
            ]
            edges = [(number(row["value"]), number(row["low"]), number(row["high"])) for row in rows]
            lines.append(
                _line(content.models, model, "lines+markers", "%{y:.3f}, %{x}<extra>%{fullData.name}</extra>")
                | {"x": [_identifiers(row) for row in rows], "y": [short(row["value"]) for row in rows]}
                | {"error_y": whiskers(edges)}
            )
        # Gen Score is in percent, everything else from 0 to 1.
        most = 100.0 if any(value > 1 for line in lines for value in line["y"]) else 1.0
        ranges = ([-0.3, len(names) - 0.7], [-0.02 * most, 1.02 * most])
        frame = layout(ranges, "identifiers in front", "leakage", small=True)
        frame["xaxis"] |= {"type": "category", "categoryorder": "array", "categoryarray": names}
        frame |= {"showlegend": True, "margin": {"l": 52, "r": 10, "t": 40, "b": 64}}
        plots.append((title, {"data": lines, "layout": frame, "labels": False}))
    return plots


def _parts(content: ReportContent) -> list[tuple[str, pd.DataFrame]]:
    table = content.reconstruction.table
    if table.empty:
        return []
    return [
        (f"{kind} questions on {side}: {_metric(content, metric)}", part)
        for (side, _, kind, metric), part in table.groupby(["side", "fold", "kind", "metric"], sort=False)
    ]


def _line(models: Sequence[ModelResult], model: ModelResult, mode: str, hover: str) -> Spec:
    line = {"color": colours(models)[model.label], "width": 1.8, "dash": _DASHES[model.role]}
    return {"type": "scatter", "mode": mode, "name": safe(model.label), "hovertemplate": hover, "line": line}


def _present(models: Sequence[ModelResult], table: pd.DataFrame) -> list[ModelResult]:
    labels = set(table["model"]) if len(table) else set()
    return [model for model in models if model.label in labels]


def _attacked(models: Sequence[ModelResult], table: pd.DataFrame) -> list[str]:
    return [model.label for model in _present(models, table)]


def _title(content: ReportContent, attack: Any) -> str:
    return str(content.membership.titles.get(attack, attack))


def _metric(content: ReportContent, metric: Any) -> str:
    return content.metrics[metric][0] if metric in content.metrics else str(metric)


def _group(group: Any) -> str:
    return str(group).replace("_", " ")


def _identifiers(row: Mapping[str, Any]) -> str:
    return str(row["identifiers"]) or "nothing"


def _gap(row: Mapping[str, Any]) -> Cell:
    return Cell(signed(number(row["difference"]) or 0.0), interval(number(row["low"]), number(row["high"])))
