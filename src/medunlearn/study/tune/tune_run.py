"""Run a tuning: trials of every method with an equal budget, then the best and the untuned settings with every
seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import write_atomically
from medunlearn.models.folders import model_identity
from medunlearn.probes.evaluate import evaluation_folder
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.study.slots.slot import Slot, slots_of
from medunlearn.study.sweep.cell_runner import CellRunner, Say, evaluated_cells, writing_to
from medunlearn.study.sweep.jobs import Job, perform
from medunlearn.study.tune.method_trials import MethodTrials
from medunlearn.study.tune.objective import AxisValues, TuneObjective, level_of_unseen
from medunlearn.study.tune.trial_job import TrialJob, perform_trial
from medunlearn.study.tune.trials import TABLE, TuneTrial, trial_table
from medunlearn.study.tune.tune_cells import TuneCell
from medunlearn.study.tune.tune_cost import TrialCosts
from medunlearn.study.tune.tune_plan import Tuning
from medunlearn.study.tune.tune_result import Tuned, tuned, write_content


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
        runner = _TuneRunner(tuning, tuning.base.benchmark(), device, say)
        slots = slots_of(tuning.base.settings, jobs, device, max(1, len(runner.pending)))
        trials = sum(runner.trials_left(cell) for cell in runner.pending if cell.kind == "tune")
        runner.run(slots, len(runner.pending) + trials, quiet=quiet)
        result = tuned(tuning, runner.studies, runner.evaluated(), runner.objectives(), runner.benchmark)
        runner.facts |= write_content(result)
        runner.write("failed" if result.failed else "complete")
        say("report: best settings, spread over seeds, and the curve of trials")
        return result.with_report()


class _TuneRunner(CellRunner[TuneCell]):
    """A running tuning: its cells and every method's trials."""

    record, unit = Tuned.record, "trials and cells"

    def __init__(self, tuning: Tuning, benchmark: Benchmark, device: str, say: Say) -> None:
        self.tuning, self._identity = tuning, cache(model_identity)
        costs = TrialCosts(tuning, benchmark, device)
        costs.check_budget()
        self.studies = {method: MethodTrials.open(tuning, method, benchmark, costs) for method in tuning.methods}
        super().__init__(tuning.settings, tuning.cells, tuning.notes, tuning.base, benchmark, say)
        self.facts |= {
            "benchmark": benchmark.facts(),
            "subjects": tuning.subject_counts(benchmark),
            "spaces": tuning.space_texts,
        }

    def is_done(self, cell: TuneCell) -> bool:
        if cell.kind == "tune":
            study = self.studies[str(cell.method)]
            is_finished = study.ended and study.best is not None
            cell.seconds = study.seconds if is_finished else None
            return is_finished
        job = self.job(cell)
        output = job and job.output(self.benchmark, self._identity)
        if output:
            cell.folder, cell.evaluation, cell.seconds = output
        return bool(output) and not self._reference_problem(cell)

    def costs(self) -> Mapping[str, float]:
        """Cost of the cells; trials are the longest path."""
        return {f"tune {method}": 1e3 for method in self.tuning.methods}

    def trials_left(self, cell: TuneCell) -> int:
        """Trials of a ``tune`` cell that may still run, as far as known in advance."""
        study, settings = self.studies[str(cell.method)], self.tuning.settings
        whole = int(self.tuning.share) if settings.runs else len(study.trials) + 1
        return max(0, whole - len(study.finished))

    def call(self, cell: TuneCell) -> tuple[Callable[[Any, Slot], Any], Any] | str:
        if cell.kind == "tune":
            study = self.studies[str(cell.method)]
            if trial := study.next():
                return perform_trial, self._trial_job(study, trial)
            cell.seconds = study.seconds
            return "" if study.best else f"no trial of {cell.method} has a number: {study.reasons}"
        if job := self.job(cell):
            return perform, job
        return f"the untuned settings failed: {self.studies[str(cell.method)].trials[0].reason}"

    def accept(self, cell: TuneCell, output: Any, seconds: float) -> str | None:
        if not isinstance(output, TuneTrial):
            return super().accept(cell, output, seconds) or self._reference_problem(cell)
        study, trial = self.studies[str(cell.method)], output
        study.end(trial)
        value = "failed" if trial.value is None else f"{trial.value:.3f}"
        best = study.best
        words = f"{trial.reason or trial.state}" + ("; its model is broken" if trial.problem else "")
        so_far = f"; best {best.value:.3f} (trial {best.number})" if best and best.value is not None else ""
        self.say(f"{trial.method} trial {trial.number}: {value}, {words}{so_far}")
        return None

    def findings(self) -> dict[str, Any]:
        """The best trial of each method."""
        best = {method: trial for method, study in self.studies.items() if (trial := study.best)}
        return {
            "best": {
                method: {"trial": t.number, "params": t.params, "value": t.value} for method, t in best.items()
            }
        }

    def write(self, status: str = "running") -> None:
        """Write the record, and the table of all trials."""
        super().write(status)
        trials = [trial for study in self.studies.values() for trial in study.trials]
        write_atomically(self.out / TABLE, trial_table(trials).to_parquet)

    def _reference_problem(self, cell: TuneCell) -> str:
        """Reason why target or retrained model is not a valid reference, by its evaluation on the choosing half."""
        if cell.half != "choosing" or cell.evaluation is None or cell.folder is None:
            return ""
        evaluated = Evaluated(Run.open(cell.folder), Run.open(cell.evaluation))
        if (problems := evaluated.record.info.problems) and not self.tuning.settings.evaluate.get("allow_broken"):
            return (
                f"its model is broken: {'; '.join(problems)}. Nothing is tuned against it: train it better, or say "
                "evaluate: {allow_broken: true}"
            )
        needs = self._objective(evaluated, evaluated, self.tuning.fold).needs
        if missing := AxisValues.of(evaluated.summary, self.tuning.fold).missing(needs):
            return (
                f"nothing was scored on {', '.join(missing)} (fold {self.tuning.fold}). Choose other axes, or "
                "evaluate.metrics that have it"
            )
        return ""

    def job(self, cell: TuneCell) -> Job | None:
        """The job of a cell with met dependencies, except ``tune`` cells; None if there is no model for it."""
        tuning, out = self.tuning, self.out
        if cell.kind in ("target", "retrained"):
            return Job(self.folder, out, cell.kind, settings=tuning.base.training(cell.seed, cell.split))
        if cell.kind == "unlearn":
            best = self.studies[str(cell.method)].best if cell.setting == "best" else None
            retrained, params = self._folder("retrained", cell.seed), best.params if best else {}
            settings = tuning.unlearning(str(cell.method), params, cell.seed, trial=False, retrained=retrained)
            return Job(self.folder, out, model=self._folder("target", cell.seed), settings=settings)
        measure = tuning.measures[cell.place] if cell.half == "choosing" else tuning.evaluating("reporting")
        if cell.method and cell.seed == tuning.seeds[0]:
            study = self.studies[cell.method]
            trial = study.best if cell.setting == "best" else study.trials[0]
            if trial is None or trial.state == "failed":
                return None
            return Job(self.folder, out, model=study.run_of(trial), measure=measure)
        return Job(self.folder, out, model=tuning.cell[cell.needs[0]].folder, measure=measure)

    def _folder(self, role: str, seed: int) -> Path | None:
        """Folder of a seed's target or retrained model; None without one."""
        cells = (cell for cell in self.tuning.cells if cell.kind == role and cell.seed == seed)
        return next((cell.folder for cell in cells), None)

    def _trial_job(self, study: MethodTrials, trial: TuneTrial) -> TrialJob:
        tuning, method, seed = self.tuning, study.method, self.tuning.seeds[0]
        target, retrained = self._folder("target", seed), self._folder("retrained", seed)
        assert target is not None
        settings = tuning.unlearning(method, trial.params, seed, trial=True, retrained=retrained)
        measure = tuning.measuring(method)
        evaluated = self._evaluated_with(target, measure)
        goal = self._evaluated_with(retrained, measure) if retrained else None
        return TrialJob(
            self.folder,
            study.run_of(trial),
            target,
            settings,
            None if settings.evaluate_every else measure,
            self._objective(evaluated, goal, tuning.fold),
            tuning.settings.halving,
            trial,
            tuple(study.finished),
        )

    def _evaluated_with(self, folder: Path, measure: EvaluateSettings) -> Evaluated:
        run = Run.open(folder)
        return Evaluated(run, Run.open(evaluation_folder(run, self.benchmark, measure)))

    def _objective(self, target: Evaluated, goal: Evaluated | None, fold: str) -> TuneObjective:
        """The objective on one half of the subjects, from target and retrained model."""
        settings = self.tuning.settings
        if settings.retrain:
            assert goal is not None
            return TuneObjective(fold, settings.axes, AxisValues.of(goal.summary, fold))
        level = settings.rank_level if settings.rank_level is not None else level_of_unseen(target.facts, fold)
        utility = AxisValues.of(target.summary, fold).utility or 0.0
        return TuneObjective(fold, settings.axes, None, settings.utility_floor * utility, level or 0.0)

    def evaluated(self) -> dict[str, Evaluated]:
        """Name of each finished evaluation on the reporting half -> its model and scores."""
        return evaluated_cells(cell for cell in self.tuning.cells if cell.half == "reporting")

    def objectives(self) -> dict[tuple[int, str], TuneObjective]:
        """Seed and fold -> the objective on the reporting half; missing if a model that it needs is missing."""
        objectives, evaluated = dict[tuple[int, str], TuneObjective](), self.evaluated()
        for seed in self.tuning.seeds:
            end = f", seed {seed}" if len(self.tuning.seeds) > 1 else ""
            target, goal = evaluated.get(f"evaluate target{end}"), evaluated.get(f"evaluate retrained{end}")
            if target is not None and (goal is not None or not self.tuning.settings.retrain):
                for fold in self.tuning.evaluating("reporting").folds:
                    objectives[seed, fold] = self._objective(target, goal, fold)
        return objectives
