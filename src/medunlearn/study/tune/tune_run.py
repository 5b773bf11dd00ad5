"""Run a tuning: trials of every method with an equal budget, then the best and the untuned settings with every
seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import write_frame
from medunlearn.results.evaluated import Evaluated
from medunlearn.study.graph_run import COLUMNS, GraphRun, Say, evaluated_models, writing_to
from medunlearn.study.slots.slot import slots_of
from medunlearn.study.tune.method_trials import MethodTrials
from medunlearn.study.tune.objective import TuneObjective
from medunlearn.study.tune.trials import TABLE, trial_table
from medunlearn.study.tune.tune_cost import TrialCosts
from medunlearn.study.tune.tune_graph import TuneGraph, tune_graph
from medunlearn.study.tune.tune_plan import Tuning
from medunlearn.study.tune.tune_result import Tuned, tuned, write_content
from medunlearn.study.tune.tune_stages import objective_of

LONGEST = 1e3
"""Relative cost of a method's trials, the longest path."""


def run_tuning(
    tuning: Tuning,
    *,
    jobs: int | None = None,
    device: str = "auto",
    quiet: bool = False,
    say: Say = lambda line: None,
) -> Tuned:
    """Run pending work. A failed method does not stop the others: see :attr:`Tuned.failed`.

    Args:
        jobs: number of concurrent methods, models and evaluations, each in its own process; None for one per GPU,
            or one per core. A method's trials run sequentially, each based on the previous ones.
        say: called with a line at the start, and at the end of each trial and cell.

    Raises:
        InputError: an unusable device, number of jobs or budget; another command writes to this folder.
        KeyboardInterrupt: interrupted; the same call resumes.
    """
    with writing_to(tuning.settings.out, "tune"):
        benchmark = tuning.base.benchmark()
        benchmark.refuse_drawn("Tuning")
        costs = TrialCosts(tuning, benchmark, device)
        costs.check_budget()
        stages = tune_graph(tuning, benchmark, costs)
        stages.graph.find_done()
        stages.graph.weigh({stage.name: LONGEST for stage in stages.methods.values()})
        run, pending = _TuneRun(tuning, stages, benchmark, say), len(stages.graph.pending())
        slots = slots_of(tuning.base.settings, jobs, device, pending)
        run.run(tuning.base.settings, slots, pending + run.trials_left(), quiet=quiet)
        evaluated = evaluated_models(stages.graph, stages.evaluations)
        objectives = _objectives(tuning, stages, evaluated)
        rows = pd.DataFrame(run.rows())
        result = tuned(tuning, stages, rows, run.trials(), evaluated, objectives, benchmark)
        run.facts |= write_content(result)
        run.write("failed" if result.failed else "complete")
        say("report: best settings, spread over seeds, and the curve of trials")
        return result.with_report()


class _TuneRun(GraphRun):
    """A running tuning, with every method's trials."""

    record, unit = Tuned.record, "trials and cells"
    columns: ClassVar[Mapping[str, Any]] = {**COLUMNS, "setting": "", "half": None}

    def __init__(self, tuning: Tuning, stages: TuneGraph, benchmark: Benchmark, say: Say) -> None:
        self.tuning, self.stages = tuning, stages
        super().__init__(stages.graph, tuning.settings, benchmark, tuning.notes, say)
        self.facts |= {
            "benchmark": benchmark.facts(),
            "subjects": tuning.subject_counts(benchmark),
            "spaces": tuning.space_texts,
        }

    def trials(self) -> dict[str, MethodTrials]:
        """Every method's trials so far."""
        return {method: stage.trials() for method, stage in self.stages.methods.items()}

    def trials_left(self) -> int:
        """Trials that may still run, as far as known in advance."""
        left, by_runs = 0, self.tuning.settings.runs
        for method, trials in self.trials().items():
            if not self.graph[self.stages.methods[method]].done:
                whole = int(self.tuning.share) if by_runs else len(trials.trials) + 1
                left += max(0, whole - len(trials.finished))
        return left

    def findings(self) -> dict[str, Any]:
        """The best trial of each method."""
        best = {method: trial for method, trials in self.trials().items() if (trial := trials.best)}
        rows = {name: {"trial": t.number, "params": t.params, "value": t.value} for name, t in best.items()}
        return {"best": rows}

    def write(self, status: str = "running") -> None:
        """Write the record, and the table of all trials."""
        super().write(status)
        rows = [trial for trials in self.trials().values() for trial in trials.trials]
        write_frame(self.out / TABLE, trial_table(rows))


def _objectives(
    tuning: Tuning, stages: TuneGraph, evaluated: dict[str, Evaluated]
) -> dict[tuple[int, str], TuneObjective]:
    """Seed and fold -> the objective on the reporting half; missing if a model that it needs is missing."""
    objectives = dict[tuple[int, str], TuneObjective]()
    for seed, references in stages.references.items():
        models = [evaluated[stage.name] for stage in references if stage.name in evaluated]
        if len(models) == len(references):
            target, goal = [*models, None][:2]
            assert target is not None
            for fold in tuning.evaluating("reporting").folds:
                objectives[seed, fold] = objective_of(tuning, target, goal, fold)
    return objectives
