"""The tables of the diagnosis report as plain cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from medunlearn.papers.memorization.diagnosis.report.content import DiagnosisContent
from medunlearn.reports.tables import Cell, Table
from medunlearn.reports.words import ABSENT, UNSCORED, decimal, interval, signed

ALL = "all"
FOLDS = {"train": ", training records", "holdout": ", held-out records"}


def _at(row: Mapping[Any, Any], name: str) -> float | None:
    value = row[name]
    return None if pd.isna(value) else float(value)


def _reading(row: Mapping[Any, Any], note: str = "") -> Cell:
    value = _at(row, "value")
    bounds = interval(_at(row, "low"), _at(row, "high"))
    return Cell(UNSCORED if value is None else decimal(value), ", ".join(part for part in (bounds, note) if part))


def accuracy_cells(content: DiagnosisContent) -> Table:
    """One row a specialty and k, one column a model (Figure 6)."""
    rows = []
    for (specialty, k), group in content.accuracy.groupby(["specialty", "k"], sort=False):
        of = {row["model"]: row for row in group.to_dict("records")}
        first = next(iter(of.values()))
        name = Cell(f"{specialty or ALL}, top-{k}")
        rows.append(
            (
                name,
                *(
                    _reading(of[label], _unread(of[label])) if label in of else Cell(ABSENT)
                    for label in content.models
                ),
                Cell(f"{first['n_subjects']:,}"),
            )
        )
    return Table((Cell("Specialty, k"), *(Cell(label) for label in content.models), Cell("Patients")), tuple(rows))


def _unread(row: Mapping[Any, Any]) -> str:
    return f"{row['n_unread']:,} without a list" if row["n_unread"] else ""


def difference_cells(content: DiagnosisContent) -> Table | None:
    """One row a comparison: the difference with its interval and p; None without any."""
    if not len(content.differences):
        return None
    rows = []
    for row in content.differences.to_dict("records"):
        gap, p = _at(row, "difference"), _at(row, "p")
        rows.append(
            (
                Cell(f"{row['specialty'] or ALL}, top-{row['k']}"),
                Cell(f"{row['model']} minus {row['against']}"),
                Cell(ABSENT if gap is None else signed(gap), interval(_at(row, "low"), _at(row, "high"))),
                Cell(ABSENT if p is None else f"{p:.4f}"),
                Cell(f"{row['n_subjects']:,}"),
            )
        )
    return Table(tuple(map(Cell, ("Specialty, k", "Models", "Difference", "p", "Patients"))), tuple(rows))


def epoch_cells(content: DiagnosisContent) -> Table | None:
    """One row a measure, one column an epoch: the numbers of Figure 7; None where nothing was watched."""
    table = content.epochs
    if not len(table):
        return None
    table = table[table["measure"] != table["metric"]]
    epochs = sorted(table["epoch"].unique().tolist())
    rows = []
    for (measure, fold), group in table.groupby(["measure", "fold"], sort=False):
        of = {row["epoch"]: row for row in group.to_dict("records")}
        cells = (_reading(of[epoch], _lacks(of[epoch])) if epoch in of else Cell(ABSENT) for epoch in epochs)
        rows.append((Cell(f"{measure}{FOLDS.get(str(fold), '')}"), *cells))
    return Table((Cell("Epoch"), *(Cell(str(epoch), _mark(content, epoch)) for epoch in epochs)), tuple(rows))


def _lacks(row: Mapping[Any, Any]) -> str:
    return f"{row['n_unscored']:,} unscored" if row["n_unscored"] else ""


def _mark(content: DiagnosisContent, epoch: int) -> str:
    marks = [name for name, at in (("chosen", content.chosen), ("early stop", content.stop)) if at == epoch]
    return ", ".join(marks)


def rise_cells(content: DiagnosisContent) -> Table | None:
    """One row a length of run: does memorization rise while the validation loss falls? None where not known."""
    if not content.rise:
        return None
    rows = []
    for one in content.rise:
        rows.append(
            (
                Cell(f"{one['tokens']} tokens"),
                Cell(one["verdict"]),
                Cell(f"{one['first']} to {one['last']}"),
                _gap(one["loss"]),
                _gap(one["trained"]),
                _gap(one["held_out"]) if one["held_out"] else Cell(ABSENT),
            )
        )
    names = (
        "Run",
        "Memorization rises while the loss falls",
        "Epochs",
        "Validation loss",
        "Memorized, training",
        "Memorized, held out",
    )
    return Table(tuple(map(Cell, names)), tuple(rows))


def _gap(one: Mapping[str, Any]) -> Cell:
    if one["difference"] is None:
        return Cell(ABSENT)
    return Cell(signed(one["difference"]), interval(one["low"], one["high"]))
