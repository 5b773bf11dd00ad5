"""A finished sweep, and its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.pipeline.sweep.plan import Sweep
from medunlearn.registry import load
from medunlearn.results.evaluated import Evaluated

GATHER_REPORT = "medunlearn.papers.amnesia.swept.reporting:gather_report"
WRITE_REPORT = "medunlearn.papers.amnesia.swept.reporting:write_report"
"""The report of the benchmark's paper; loaded at the end of a sweep."""


@dataclass(frozen=True)
class Swept:
    """A finished sweep.

    Attributes:
        folder: of all cells; ``sweep.json`` in it says what became of each.
        cells: one row a cell: name, kind, status, method, split, seed, context, lr, folder, evaluation, seconds,
            reason.
        search: one row a method and rate: method, lr, utility, forgetting, score, chosen, ...; empty without one.
        evaluated: name of an ``evaluate`` cell -> the model that it asked, and what came of it.
        report: its path; None where no model was evaluated.
        content: what the report shows; None likewise.
    """

    folder: Path
    cells: pd.DataFrame
    search: pd.DataFrame
    evaluated: Mapping[str, Evaluated]
    report: Path | None = None
    content: Any = None

    @property
    def models(self) -> tuple[Evaluated, ...]:
        """Every evaluated model, split and context."""
        return tuple(self.evaluated.values())

    @property
    def failed(self) -> list[tuple[str, str]]:
        """Name and reason of every cell that failed, and of every one that did not run because of it."""
        lost = self.cells[self.cells["status"].isin(["failed", "not run"])]
        return [(str(name), str(reason)) for name, reason in zip(lost["name"], lost["reason"], strict=True)]

    def table(self) -> pd.DataFrame:
        """model, method, split, seed, context, then a summary's columns: side, fold, kind, metric, value, ..."""
        about = self.cells.set_index("name")
        tables = []
        for name, one in self.evaluated.items():
            cell: dict[str, Any] = {column: about.loc[name, column] for column in ("method", "split", "seed")}
            first: dict[str, Any] = {"model": one.run.label, **cell, "context": one.context}
            summary = one.summary
            tables.append(summary.assign(**first)[[*first, *summary.columns]])
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def with_report(swept: Swept, sweep: Sweep, benchmark: Benchmark) -> Swept:
    """The same with the report of what there is, which says what is missing; none where no model was evaluated."""
    if not swept.evaluated:
        return swept
    settings = sweep.evaluating(next(cell for cell in sweep.cells if cell.kind == "evaluate"))
    content = load(GATHER_REPORT)(
        sweep.settings.name,
        swept.models,
        benchmark,
        missing=swept.failed,
        search=swept.search if sweep.search else None,
        replicates=settings.replicates,
        seed=settings.seed,
    )
    return replace(swept, report=load(WRITE_REPORT)(content, swept.folder / "report"), content=content)
