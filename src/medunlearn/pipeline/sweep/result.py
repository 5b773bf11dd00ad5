"""A sweep's record on disk (``sweep.json``), its results and their report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import tightest
from medunlearn.data.storage import write_json
from medunlearn.models.ancestry import model_use
from medunlearn.pipeline.judge_stage import judge_all, judged_runs
from medunlearn.pipeline.report.gather import panel_part
from medunlearn.pipeline.sweep.rate_search import RULE, Trial
from medunlearn.pipeline.sweep.sweep_plan import Sweep
from medunlearn.registry import load
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.machine import code, hardware, packages
from medunlearn.results.runs import Run

FILE = "sweep.json"
SWEEP_REPORT = "medunlearn.papers.sweeps.report:sweep_report"
"""The report of the benchmark's paper; loaded at the end of a sweep."""


def sweep_facts(sweep: Sweep, benchmark: Benchmark, jobs: int) -> dict[str, Any]:
    """The part of ``sweep.json`` that does not change while a sweep runs."""
    return {
        "name": sweep.settings.name,
        "status": "running",
        "settings": sweep.settings.model_dump(mode="json"),
        "data_use": tightest([benchmark.data_use, model_use(str(sweep.settings.train.get("model")))]),
        "notes": list(sweep.notes),
        "jobs": jobs,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "code": code(),
        "packages": packages(),
        "hardware": hardware(),
    }


def write_record(sweep: Sweep, facts: dict[str, Any], rows: Sequence[Trial], status: str) -> None:
    """Write ``sweep.json``: the state of all cells, and every rate that was tried."""
    facts |= {"status": status, "cells": [cell.facts() for cell in sweep.cells]}
    if sweep.search:
        facts["search"] = {
            "rule": RULE,
            "split": sweep.search.split,
            "chosen": {row.method: row.lr for row in rows if row.chosen},
            "tried": [asdict(row) for row in rows],
        }
    write_json(sweep.settings.out / FILE, facts)


@dataclass(frozen=True)
class Swept:
    """A finished sweep.

    Attributes:
        folder: of all cells; ``sweep.json`` in it lists their states.
        cells: one row a cell: name, kind, status, method, split, seed, context, lr, folder, evaluation, seconds,
            reason.
        search: one row a method and rate: method, lr, utility, forgetting, score, chosen, ...; empty without one.
        evaluated: name of an ``evaluate`` cell -> its model and scores.
        unjudged: name and reason of what the judges did not get through.
        report: its path; None where no model was evaluated, as ``content`` is.
    """

    folder: Path
    cells: pd.DataFrame
    search: pd.DataFrame
    evaluated: Mapping[str, Evaluated]
    unjudged: tuple[tuple[str, str], ...] = ()
    report: Path | None = None
    content: Any = None

    @property
    def models(self) -> tuple[Evaluated, ...]:
        """Every evaluated model, split and context."""
        return tuple(self.evaluated.values())

    @property
    def failed(self) -> list[tuple[str, str]]:
        """Name and reason of every cell that failed or did not run because of it, and of failed judging."""
        lost = self.cells[self.cells["status"].isin(["failed", "not run"])]
        cells = [(str(name), str(reason)) for name, reason in zip(lost["name"], lost["reason"], strict=True)]
        return [*cells, *self.unjudged]

    def failures(self, most: int = 5) -> str:
        """The number of cells without a result, the first of them with their reasons, and what to do."""
        failed = self.failed
        shown = "".join(f"\n  - {name}: {reason}" for name, reason in failed[:most])
        rest = f"\n  ... and {len(failed) - most} more" if len(failed) > most else ""
        return (
            f"{len(failed)} of {len(self.cells)} cells have no result; the others are done.{shown}{rest}\n"
            f"{self.folder / 'sweep.json'} lists them, {self.folder / 'logs'} says more. Mend the cause and give "
            "the command again: it does only these."
        )

    def table(self) -> pd.DataFrame:
        """model, method, split, seed, context, then a summary's columns: side, fold, kind, measure, value, ..."""
        cells = self.cells.set_index("name")
        tables = []
        for name, model in self.evaluated.items():
            labels: dict[str, Any] = {column: cells.loc[name, column] for column in ("method", "split", "seed")}
            labels = {"model": model.run.label, **labels, "context": model.context}
            tables.append(model.summary.assign(**labels)[[*labels, *model.summary.columns]])
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def judged(self, sweep: Sweep, benchmark: Benchmark, *, quiet: bool, say: Callable[[str], None]) -> Swept:
        """The same after the sweep's judges, where it has some; their ratings are in the scores."""
        if sweep.judges is None:
            return self
        attacks = [
            Run.open(str(folder))
            for folder in self.cells.loc[self.cells["kind"] == "attack", "evaluation"]
            if isinstance(folder, str)
        ]
        how: dict[str, Any] = {"quiet": quiet, "say": say}
        unjudged = judge_all(sweep.judges, benchmark, self.folder, self.models, attacks, **how)
        fresh = {n: Evaluated(one.run, Run.open(one.record.folder)) for n, one in self.evaluated.items()}
        return replace(self, evaluated=fresh, unjudged=tuple(unjudged))

    def with_report(self, sweep: Sweep, benchmark: Benchmark) -> Swept:
        """The same with the report of its evaluated models, which lists what is missing; none without any."""
        if not self.evaluated:
            return self
        from medunlearn.reports import write_report

        settings = sweep.evaluating(next(cell for cell in sweep.cells if cell.kind == "evaluate"))
        content = load(SWEEP_REPORT)(
            self.models,
            benchmark,
            title=sweep.settings.name,
            missing=self.failed,
            search=self.search if sweep.search else None,
            replicates=settings.replicates,
            seed=settings.seed,
            judged=[panel_part(run) for run in judged_runs(self.folder)],
        )
        return replace(self, report=write_report(content.report, self.folder / "report"), content=content)
