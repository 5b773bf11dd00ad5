"""The diagnosis report: Figures 6 and 7 of the memorization paper from the user's runs, as blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import starmap
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.config import DiagnoseSettings, check
from medunlearn.data.storage import read_frame
from medunlearn.models.health import banner
from medunlearn.papers.memorization.diagnosis.rise import rise_finding
from medunlearn.papers.memorization.report.content import ACCURACY, Point, Row, point
from medunlearn.papers.memorization.report.figures import epoch_panels, figure_6
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.reports.blocks import Cell, Figure, Notice, Report, Spec, Table, Text, blocks, section
from medunlearn.reports.claims import cases_table, findings_data, statements
from medunlearn.reports.formatting import p_text
from medunlearn.reports.json import plain
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.table_blocks import cross_table, gap_cell, grid, records, value_cell
from medunlearn.reports.view import ResultView, titled
from medunlearn.results.runs import Run
from medunlearn.study.epochs.epoch_selection import TABLE, EpochStanding, stop_epoch

DIFFERENCES, PREDICTIONS = "differences.parquet", "predictions.parquet"
FOLDS = {"train": ", training records", "holdout": ", held-out records"}
PATIENCE = 2
"""Patience of the paper: a run that did not end early has the epoch marked after which it would have."""
_DASHES = {"chosen": "solid", "stop": "dash"}


@dataclass(frozen=True)
class Diagnosed:
    """Top-k accuracy of a run's model and the models it is compared with.

    Attributes:
        run: the model's run.
        record: the recorded run of `diagnose`, with the tables and ``report.html`` in its folder.
    """

    run: Run
    record: Run

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """Label of each model -> why it is broken; healthy models have no entry."""
        return {label: tuple(why) for label, why in self.results.get("health", {}).get("models", {}).items()}

    @cached_property
    def accuracy(self) -> pd.DataFrame:
        """:func:`~medunlearn.papers.memorization.diagnosis.accuracy.accuracy_table`."""
        return read_frame(self.record.folder / ACCURACY)

    @cached_property
    def differences(self) -> pd.DataFrame:
        """Paired differences of accuracy (:func:`.accuracy.difference_table`); empty with a single model."""
        return read_frame(self.record.folder / DIFFERENCES)

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """One row per model and admission, without text."""
        return read_frame(self.record.folder / PREDICTIONS)

    @cached_property
    def epochs(self) -> pd.DataFrame:
        """The run's table of epochs; empty if it was not evaluated during training."""
        path = self.run.folder / TABLE
        return read_frame(path) if path.exists() else pd.DataFrame()

    def table(self) -> pd.DataFrame:
        return self.accuracy

    def view(self) -> ResultView:
        """Accuracies, differences and epochs, for the terminal."""
        rise, epochs = rise_finding(self.results["rise"]), epoch_table(self)
        tables = (
            (f"top-k accuracy, {self.settings.part} part", accuracy_table(self)),
            ("differences, paired on patients", difference_table(self)),
            ("does memorization rise while the validation loss falls?", cases_table(rise) if rise else None),
            ("epoch by epoch", None if epochs is None else _without_intervals(epochs)),
        )
        data = {"folder": str(self.record.folder), "rise": self.results["rise"], "health": self.problems}
        return ResultView(
            data | {name: plain(getattr(self, name)) for name in ("accuracy", "differences", "epochs")},
            [*starmap(titled, tables), stopping(self), small_text(self), f"Report: {self.report}"],
            banner(self.problems),
        )

    @property
    def report(self) -> Path:
        return self.record.folder / "report.html"

    @cached_property
    def settings(self) -> DiagnoseSettings:
        return check(DiagnoseSettings, self.record.info.config)

    @property
    def results(self) -> Mapping[str, Any]:
        """Models, benchmark, small specialties, epochs of the training and rise, as in ``run.json``."""
        results: Mapping[str, Any] = self.record.info["results"]
        return results

    @property
    def choice(self) -> Mapping[str, Any]:
        """Epochs of the training: ``best`` by validation loss, ``chosen``, and ``stop``, the end by early stopping.

        None if there is none; ``patience`` of the early stopping.
        """
        recorded = self.results["epochs"] or {"numbers": [], "best": None, "chosen": None}
        standings = [
            EpochStanding(
                entry["epoch"], entry["parts"], entry["value"], least=True, problem=entry.get("problem", "")
            )
            for entry in recorded["numbers"]
        ]
        patience = recorded.get("patience") or PATIENCE
        return {
            "best": recorded["best"],
            "chosen": recorded["chosen"],
            "stop": stop_epoch(standings, patience),
            "patience": patience,
        }


def diagnosis_report(result: Diagnosed) -> Report:
    """Blocks and numbers of a diagnosis report."""
    words, results, settings = paper_yaml("memorization", "diagnosis"), result.results, result.settings
    right = "the principal diagnosis" if settings.gold == "principal" else "any of the patient's diagnoses"
    benchmark, small, stop = results["benchmark"], small_text(result), stopping(result)
    finding = rise_finding(results["rise"])
    broken = banner(result.problems)
    claims = [finding] if finding else []
    lines = epochs_figure(result)
    figures = [
        _wide(spec, f"Figure 6 ({title})") for title, spec in figure_6(list(rows_of(result.accuracy))).items()
    ]
    accuracy = section(
        "Top-k accuracy",
        Text(words["counting"].format(right=right, replicates=settings.replicates)),
        figures[0] if figures else None,
        section(f"By specialty, top-{min(settings.k)}", *figures[1:]),
        accuracy_table(result),
        Text(small, "aside") if small else None,
        section("Differences", difference_table(result)),
        name="accuracy",
    )
    epochs = section(
        "Epoch by epoch",
        Text(words["epochs"]) if lines else None,
        Text(stop) if stop else None,
        _wide(lines, "memorization, validation loss and accuracy by epoch"),
        epoch_table(result),
        statements(claims),
        name="epochs",
    )
    facts = (
        ("Models", ", ".join(results["models"])),
        ("Benchmark", f"{benchmark['name']}, data use: {benchmark['data_use']}"),
        ("Asked about", f"the {settings.part} part"),
        ("Right is", right),
    )
    data = {
        **{name: results[name] for name in ("benchmark", "models", "rise")},
        "problems": result.problems,
        **{name: result.choice[name] for name in ("best", "chosen", "stop")},
        **{name: getattr(result, name) for name in ("accuracy", "differences", "epochs")},
        "findings": findings_data(claims),
    }
    warning = Notice("Read this first", broken) if broken else None
    parts = blocks(warning, accuracy, epochs, Text(words["no_text"], "aside"))
    return Report(f"Diagnosis: {result.run.label}", parts, "Diagnosis report", facts, data)


def _wide(spec: Spec | None, label: str) -> Figure | None:
    return None if spec is None else Figure(spec, f"{label}. The numbers are in the tables.", size="wide")


def small_text(result: Diagnosed) -> str:
    """Sentence on the specialties that are not shown."""
    names = ", ".join(f"{name} ({n})" for name, n in result.results["specialties with fewer patients"].items())
    text: str = paper_yaml("memorization", "diagnosis")["small"]
    return text.format(least=result.settings.least_patients, names=names) if names else ""


def stopping(result: Diagnosed) -> str:
    """Sentence on the epoch after which early stopping ends the training."""
    choice = result.choice
    if choice["best"] is None:
        return ""
    at = f"ends after epoch {choice['stop']}" if choice["stop"] is not None else "does not end"
    text: str = paper_yaml("memorization", "diagnosis")["stopping"]
    return text.format(at=at, **choice)


def epochs_figure(result: Diagnosed) -> Spec | None:
    """Figure 7: memorization, validation loss and accuracy by epoch; None without measurements.

    In each, a line marks the chosen epoch, and a dashed one the epoch after which early stopping ends the training.
    """
    lines: dict[str, list[Point]] = {}
    for row in sorted(rows_of(result.epochs), key=lambda row: int(row["epoch"])):
        name = f"{row['measure']}{' (held out)' if row['fold'] == 'holdout' else ''}"
        lines.setdefault(name, []).append(point(row, "epoch"))
    starts = {"memorized records": "memorization,", "validation loss": "validation loss", "accuracy": "top-"}
    groups = {title: [name for name in lines if name.startswith(start)] for title, start in starts.items()}
    grouped_lines = {name: lines[name] for names in groups.values() for name in names}
    marks = ((result.choice[name], {"color": "--ink", "dash": dash}) for name, dash in _DASHES.items())
    return epoch_panels(groups, grouped_lines, [(epoch, style) for epoch, style in marks if epoch is not None])


def accuracy_table(result: Diagnosed) -> Table | None:
    """One row per specialty and k, one column per model (Figure 6)."""
    rows = list(rows_of(result.accuracy))
    entries = [
        (_place(row), row["model"], value_cell(row, _count(row["n_unread"], "without a list"))) for row in rows
    ]
    # Patients of the first model.
    patients = {_place(row): Cell(f"{row['n_subjects']:,}") for row in reversed(rows)}
    entries += [(place, "Patients", cell) for place, cell in patients.items()]
    return grid("Specialty, k", entries, [*result.results["models"], "Patients"])


def _place(row: Row) -> Cell:
    return Cell(f"{row['specialty'] or 'all'}, top-{row['k']}")


def _count(n: int, of: str) -> str:
    return f"{n:,} {of}" if n else ""


def difference_table(result: Diagnosed) -> Table | None:
    """One row per comparison: the difference with its interval and p; None without any."""
    rows = (
        (
            _place(row),
            Cell("{model} minus {against}".format_map(row)),
            gap_cell({**row, "n_subjects": None}),
            Cell(p_text(number(row["p"]))),
            Cell(f"{row['n_subjects']:,}"),
        )
        for row in rows_of(result.differences)
    )
    return records(map(Cell, ("Specialty, k", "Models", "Difference", "p", "Patients")), rows)


def epoch_table(result: Diagnosed) -> Table | None:
    """The numbers of Figure 7: one row per measure, one column per epoch; None without measurements."""
    rows = [row for row in rows_of(result.epochs) if row["measure"] != row["metric"]]
    marks = {"chosen": result.choice["chosen"], "early stop": result.choice["stop"]}
    columns = {
        epoch: Cell(str(epoch), ", ".join(name for name, at in marks.items() if at == epoch))
        for epoch in sorted({int(row["epoch"]) for row in rows})
    }
    entries = (
        (
            (Cell(f"{row['measure']}{FOLDS.get(str(row['fold']), '')}"),),
            int(row["epoch"]),
            value_cell(row, _count(row["n_unscored"], "unscored")),
        )
        for row in rows
    )
    return cross_table(["Epoch"], entries, columns)


def _without_intervals(table: Table) -> Table:
    """The table with texts alone, except in the first column: the report has the intervals."""
    columns = tuple(Cell(cell.text) for cell in table.columns)
    rows = tuple((Cell(str(row[0])), *(Cell(cell.text) for cell in row[1:])) for row in table.rows)
    return Table(columns, rows)
