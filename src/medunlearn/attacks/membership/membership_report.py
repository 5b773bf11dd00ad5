"""Membership inference in a report of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from medunlearn.attacks import known_attacks
from medunlearn.attacks.attacked import Attacked, Attacks
from medunlearn.attacks.membership.membership_results import AUC, CURVES, MEASURE
from medunlearn.data.storage import read_frame
from medunlearn.reports.attack_tables import (
    model_line,
    model_pair,
    model_tables,
    present_models,
)
from medunlearn.reports.blocks import Bullets, Cell, Prose, Section, Spec, Table, details, figures, section
from medunlearn.reports.content import AttackPart, Membership, ReportContent
from medunlearn.reports.figures import layout, plot, short
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.table_blocks import gap_cell, records, value_cell
from medunlearn.results.evaluated import joined

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
Row = Mapping[str, Any]


def membership_part(content: ReportContent, attacks: Attacks | None, notes: Sequence[str]) -> AttackPart:
    """The part of a report; no readings for broken models or without a valid reference."""
    return areas_part(content, Membership() if attacks is None else _areas(content, attacks), notes)


def areas_part(content: ReportContent, areas: Membership, notes: Sequence[str] = ()) -> AttackPart:
    """The part of a report, from its tables."""
    data = {
        "table": areas.table,
        "comparisons": areas.comparisons,
        "curves": areas.curves.drop(columns="threshold", errors="ignore"),
    }
    shown = membership_section(replace(content, membership=areas), notes)
    return AttackPart(MEASURE, shown, data, areas=areas)


def _areas(content: ReportContent, attacks: Attacks) -> Membership:
    table = attacks.table()
    if "reading" in table:
        broken = [model.label for model in content.models if model.problems]
        table["reading"] = table["reading"].mask(table["model"].isin(broken))
    if content.reference is not None and not content.reference.passed:
        table = table.assign(reading=None)
    return Membership(
        table=table,
        comparisons=attacks.comparisons,
        curves=joined([_curves(model).assign(model=model.run.label) for model in attacks.models]),
        titles={cls.name: cls.title for cls in known_attacks().values() if cls.name in {*table["attack"]}},
    )


def _curves(model: Attacked) -> pd.DataFrame:
    return read_frame(model.record.folder / CURVES)


def membership_section(content: ReportContent, notes: Sequence[str] = ()) -> Section | None:
    """AUCs and rates by group of documents, differences, and ROC curves; None if no model was attacked."""
    tables = membership_tables(content)
    if not tables:
        return None
    reasons = (*_membership_reasons(content), *notes)
    return section(
        "Membership inference",
        Prose(MEMBERSHIP_NOTES),
        tables,
        Bullets(reasons) if reasons else None,
        details("Differences between models, paired on documents", _areadifference_table(content)),
        figures(roc_figures(content), "ROC curves"),
        name=MEASURE,
    )


def membership_tables(content: ReportContent) -> list[Table]:
    """A table per group: one row per attack and measure, one column per model."""

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
        tables.append((title, [(attack(row), row["model"], value(row)) for row in rows]))
    return model_tables(content, rows_of(table), "Attack", tables)


def _membership_reasons(content: ReportContent) -> tuple[str, ...]:
    """Distinct reasons of unscored numbers."""
    attacks: dict[str, dict[str, None]] = {}
    for row in rows_of(content.membership.table):
        if number(row["value"]) is None:
            attacks.setdefault(str(row["reason"]), {})[_title(content, row["attack"])] = None
    return tuple(f"Unscored, {', '.join(names)}: {reason}." for reason, names in attacks.items())


def _areadifference_table(content: ReportContent) -> Table | None:
    columns = (Cell("Models"), Cell("Attack"), Cell("Difference", "95% interval"), Cell("It lies"))
    rows = (
        (
            model_pair(row),
            Cell(_title(content, row["attack"]), ", ".join(_what_differs(row))),
            gap_cell(row),
            Cell(str(row["reading"] or "")),
        )
        for row in rows_of(content.membership.comparisons)
        if number(row["difference"]) is not None
    )
    return records(columns, rows)


def _what_differs(row: Row) -> Iterator[str]:
    measure = str(row.get("measure", AUC))
    yield MEASURES.get(measure, measure)
    if row["group"] != "all":
        yield _group(row["group"])


def roc_figures(content: ReportContent) -> list[tuple[str, Spec]]:
    """A ROC plot per group and attack, one line per model, and the diagonal of guessing."""
    curves, plots = content.membership.curves, []
    frame = layout(([-0.01, 1.01], [-0.01, 1.01]), "false positive rate", "true positive rate", small=True)
    diagonal = {"type": "line", "x0": 0, "y0": 0, "x1": 1, "y1": 1, "line": {"color": "--line", "width": 1}}
    hover = "%{y:.3f} at %{x:.3f}<extra>%{fullData.name}</extra>"
    for (group, attack), part in curves.groupby(["group", "attack"], sort=False) if len(curves) else ():
        lines = []
        for model in present_models(content, rows_of(part)):
            rows = part[part["model"] == model.label]
            x, y = ([short(float(rate)) for rate in rows[name]] for name in ("fpr", "tpr"))
            lines.append(model_line(content, model, hover, "lines", x=x, y=y))
        title = _title(content, attack) + ("" if group == "all" else f", {_group(group)}")
        plots.append((title, plot(lines, frame, (52, 10, 40, 44), shapes=[diagonal], showlegend=True)))
    return plots


def _title(content: ReportContent, attack: Any) -> str:
    return str(content.membership.titles.get(attack, attack))


def _group(group: Any) -> str:
    return str(group).replace("_", " ")
