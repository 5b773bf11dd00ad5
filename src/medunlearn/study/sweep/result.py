"""Results of a sweep and their report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import read_json
from medunlearn.registry import load
from medunlearn.reports.blocks import Block
from medunlearn.reports.view import ResultView, plain_table, records_table
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.study.graph_run import StudyResult
from medunlearn.study.judge_stage import judge_all, judged_runs
from medunlearn.study.report.gather_ratings import panel_part
from medunlearn.study.sweep.sweep_plan import Sweep

SWEEP_REPORT = "medunlearn.papers.sweeps.report:sweep_report"
"""The report of the benchmark's paper; loaded at the end of a sweep."""


@dataclass(frozen=True)
class Swept(StudyResult):
    """Results of a sweep.

    Attributes:
        search: one row per method and rate: method, lr, utility, forgetting, score, chosen, ...; empty without one.
        evaluated: name of an ``evaluate`` cell -> its model and scores.
        unjudged: name and reason of failed judging.
        unscored: name and reason of each cell of which a measure scored nothing.
        report: path of the report; None, like ``content``, if no model was evaluated.
    """

    search: pd.DataFrame
    evaluated: Mapping[str, Evaluated]
    unjudged: tuple[tuple[str, str], ...] = ()
    unscored: tuple[tuple[str, str], ...] = ()
    report: Path | None = None
    content: Any = None
    record = "sweep.json"

    @property
    def models(self) -> tuple[Evaluated, ...]:
        """Every evaluated model, by split and context."""
        return tuple(self.evaluated.values())

    @property
    def failed(self) -> list[tuple[str, str]]:
        """Name and reason of every cell that failed, did not run because of a failure, or has a measure that scored
        nothing; and of failed judging.
        """
        return [*super().failed, *self.unscored, *self.unjudged]

    def view(self) -> ResultView:
        """Number of cells by kind and status, the selected rates, and the report's first screen."""
        shown = ResultView() if self.content is None else self.content.view()

        def blocks() -> Iterator[Block | str | None]:
            counts = Counter(zip(self.cells["kind"], self.cells["status"], strict=True))
            cells = [(*what, number) for what, number in counts.items()]
            yield plain_table(("Kind", "State", "Number"), cells, "Cells")
            if len(rates := self.search[self.search["chosen"].astype(bool)]):
                columns: dict[str, Any] = {"Method": "method", "Lr": lambda row: f"{row['lr']:g}"}
                columns |= {name.capitalize(): _decimals(name) for name in ("utility", "forgetting", "score")}
                yield records_table(rates, columns, "Learning rates")
            yield from shown.blocks
            yield f"report: {self.report}" if self.report else "There is no report: no model was evaluated."

        data = {"report": self.report, **read_json(self.folder / self.record)}
        return ResultView(data, blocks(), shown.warnings, failure=self.failures())

    def table(self) -> pd.DataFrame:
        """model, method, split, seed, context, then a summary's columns: side, fold, kind, measure, value, ..."""
        cells = self.cells.set_index("name")
        tables = []
        for name, model in self.evaluated.items():
            labels: dict[str, Any] = {column: cells.loc[name, column] for column in ("method", "split", "seed")}
            labels = {"model": model.run.label, **labels, "context": model.context}
            tables.append(model.summary.assign(**labels)[[*labels, *model.summary.columns]])
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def judged(
        self,
        sweep: Sweep,
        benchmark: Benchmark,
        attacks: Sequence[Run],
        *,
        quiet: bool,
        say: Callable[[str], None],
    ) -> Swept:
        """The results after the sweep's judges, if any, have added their ratings to the scores."""
        if sweep.judges is None:
            return self
        how: dict[str, Any] = {"quiet": quiet, "say": say}
        unjudged = judge_all(sweep.judges, benchmark, self.folder, self.models, attacks, **how)
        fresh = {
            name: Evaluated(model.run, Run.open(model.record.folder)) for name, model in self.evaluated.items()
        }
        return replace(self, evaluated=fresh, unjudged=tuple(unjudged))

    def with_report(self, sweep: Sweep, benchmark: Benchmark) -> Swept:
        """The results with a report of the evaluated models, which lists missing ones; without evaluated models
        unchanged.
        """
        if not self.evaluated:
            return self
        from medunlearn.reports.write import write_report

        settings = sweep.evaluation
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


def _decimals(name: str) -> Callable[[Mapping[Any, Any]], str]:
    return lambda row: f"{row[name]:.3f}"
