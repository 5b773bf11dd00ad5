"""Run a sweep: every pending stage, in several processes; then the report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.probes.keyword_stage import find_keywords
from medunlearn.results.runs import Run
from medunlearn.study.graph_run import GraphRun, Say, evaluated_models, writing_to
from medunlearn.study.slots.slot import slots_of
from medunlearn.study.sweep.rate_search import RULE, Trial, search_table
from medunlearn.study.sweep.result import Swept
from medunlearn.study.sweep.sequence_counts import SequenceCounts
from medunlearn.study.sweep.survey import costs
from medunlearn.study.sweep.sweep_graph import SweepGraph, sweep_graph
from medunlearn.study.sweep.sweep_plan import Sweep
from medunlearn.study.unscored_cells import unscored_cells


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
        stages = sweep_graph(sweep, benchmark)
        stages.graph.find_done()
        stages.graph.weigh(costs(stages, SequenceCounts.of(benchmark)))
        run, pending = _SweepRun(sweep, stages, benchmark, say), stages.graph.pending()
        most = max(1, sum(stage.takes_slot for stage in pending)) if pending else 0
        slots = slots_of(sweep.settings, jobs, device, most)
        run.run(sweep.settings, slots, len(pending), quiet=quiet)
        swept = run.result().judged(sweep, benchmark, run.attacks(), quiet=quiet, say=say)
        run.write("failed" if swept.failed else "complete")
        say("report: tables, figures and findings")
        return swept.with_report(sweep, benchmark)


class _SweepRun(GraphRun):
    """A running sweep, with the candidate rates."""

    record = Swept.record

    def __init__(self, sweep: Sweep, stages: SweepGraph, benchmark: Benchmark, say: Say) -> None:
        self.sweep, self.stages = sweep, stages
        super().__init__(stages.graph, sweep.settings, benchmark, sweep.notes, say)

    def findings(self) -> dict[str, Any]:
        """Every candidate rate with its numbers."""
        if not self.sweep.search:
            return {}
        trials = [*self._trials()]
        best = {trial.method: trial.lr for trial in trials if trial.chosen}
        tried = [asdict(trial) for trial in trials]
        return {"search": {"rule": RULE, "split": self.sweep.search.split, "chosen": best, "tried": tried}}

    def result(self) -> Swept:
        """Results of the finished stages."""
        evaluated = evaluated_models(self.graph, self.stages.evaluations)
        attack = self.sweep.attacking(self.sweep.settings.splits[0]) if self.sweep.settings.attack else None
        unscored = unscored_cells(evaluated, self.sweep.evaluation, self.attacks(), attack)
        found = search_table([*self._trials()])
        return Swept(self.out, pd.DataFrame(self.rows()), found, evaluated, unscored=unscored)

    def attacks(self) -> list[Run]:
        """Finished attacks."""
        outputs = [self.graph.inputs.get(stage) for stage in self.stages.attacks]
        return [Run.open(output.evaluation) for output in outputs if output and output.evaluation]

    def _trials(self) -> Iterator[Trial]:
        """Candidate rates of all choices that were made or failed, with the best ones marked."""
        for choice in self.stages.choices:
            state = self.graph[choice]
            if state.done:
                yield from state.result.trials
            elif state.status == "failed":
                yield from choice.trials(self.graph.inputs)
