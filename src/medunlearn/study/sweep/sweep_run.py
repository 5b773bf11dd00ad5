"""Run a sweep: every pending cell, in several processes; then the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import MedunlearnError
from medunlearn.probes.keyword_stage import find_keywords
from medunlearn.study.slots.slot import Slot, slots_of
from medunlearn.study.sweep.cell_runner import CellRunner, Say, evaluated_cells, writing_to
from medunlearn.study.sweep.cells import SweepCell
from medunlearn.study.sweep.jobs import job_of, perform
from medunlearn.study.sweep.rate_search import RULE, Trial, at_edge, best_rate, search_table
from medunlearn.study.sweep.result import Swept
from medunlearn.study.sweep.survey import costs, is_done_in, trials
from medunlearn.study.sweep.sweep_plan import Sweep


def run_sweep(
    sweep: Sweep,
    *,
    jobs: int | None = None,
    device: str = "auto",
    quiet: bool = False,
    say: Say = lambda line: None,
) -> Swept:
    """Run the pending cells. A failed cell does not stop the others: see :attr:`Swept.failed`.

    Args:
        jobs: number of concurrent cells, each in its own process; None for one per GPU, or one per core.
        say: called with a line at the start, and at the end of each cell.

    Raises:
        InputError: an unusable device or number of jobs; another command writes to this folder.
        KeyboardInterrupt: interrupted; the same call resumes.
    """
    with writing_to(sweep.settings.out, "sweep"):
        benchmark = sweep.benchmark()
        find_keywords(benchmark, sweep.evaluation, sweep.settings.extractor_python, say=say)
        runner = _SweepRunner(sweep, benchmark, say)
        most = max(1, sum(cell.takes_process for cell in runner.pending))
        runner.run(slots_of(sweep.settings, jobs, device, most), len(runner.pending), quiet=quiet)
        swept = runner.result().judged(sweep, benchmark, quiet=quiet, say=say)
        runner.write("failed" if swept.failed else "complete")
        say("report: tables, figures and findings")
        return swept.with_report(sweep, benchmark)


class _SweepRunner(CellRunner[SweepCell]):
    """A running sweep: its cells, and the candidate rates."""

    record = Swept.record

    def __init__(self, sweep: Sweep, benchmark: Benchmark, say: Say) -> None:
        self.sweep, self._is_done = sweep, is_done_in(sweep, benchmark)
        super().__init__(sweep.settings, sweep.cells, sweep.notes, sweep, benchmark, say)
        choices = [cell for cell in sweep.cells if cell.done and cell.kind == "choose"]
        self.trials = [trial for cell in choices for trial in self._trials(cell)]

    def is_done(self, cell: SweepCell) -> bool:
        return self._is_done(cell)

    def costs(self) -> Mapping[str, float]:
        return costs(self.sweep, self.benchmark)

    def call(self, cell: SweepCell) -> tuple[Callable[[Any, Slot], Any], Any] | str:
        if cell.takes_process:
            return perform, job_of(cell, self.sweep, self.folder)
        # The failure of a choice, where no rate has a score, is one of a cell like any other.
        failure = ""
        try:
            cell.lr, cell.seconds = best_rate(trials(self.sweep, cell)), 0.0
        except MedunlearnError as error:
            failure = str(error)
        rows = self._trials(cell)
        self.trials += rows
        if cell.lr is not None:
            edge = at_edge(rows, cell.lr)
            self.say(f"{cell.name}: {cell.lr:g}" + (f" ({edge})" if edge else ""))
        return failure

    def findings(self) -> dict[str, Any]:
        """Every candidate rate with its numbers."""
        if not self.sweep.search:
            return {}
        best = {row.method: row.lr for row in self.trials if row.chosen}
        trial_rows = [asdict(row) for row in self.trials]
        return {"search": {"rule": RULE, "split": self.sweep.search.split, "chosen": best, "tried": trial_rows}}

    def result(self) -> Swept:
        """Results of the finished cells."""
        cells = pd.DataFrame([cell.facts() for cell in self.sweep.cells])
        return Swept(self.out, cells, search_table(self.trials), evaluated_cells(self.sweep.cells))

    def _trials(self, cell: SweepCell) -> list[Trial]:
        """The candidate rates of a choice, with the best one marked."""
        return [replace(row, chosen=row.lr == cell.lr) for row in trials(self.sweep, cell)]
