"""A tuning: trials of every method with an equal budget, then the best and the untuned settings with every seed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.folder_lock import lock_folder, remove_leftovers
from medunlearn.errors import InputError, StorageError
from medunlearn.models.folders import model_identity
from medunlearn.pipeline.evaluate import evaluation_folder
from medunlearn.pipeline.experiment import benchmark_folder
from medunlearn.pipeline.sweep.cells import Board
from medunlearn.pipeline.sweep.jobs import Job, perform
from medunlearn.pipeline.sweep.pool import Call, Pool
from medunlearn.pipeline.sweep.sweep_run import LOGS, Say, lend, slug, terminable
from medunlearn.pipeline.tuning.method_trials import MethodTrials
from medunlearn.pipeline.tuning.objective import AxisValues, TuneObjective, level_of_unseen
from medunlearn.pipeline.tuning.trial_job import TrialJob, perform_trial
from medunlearn.pipeline.tuning.trials import TuneTrial
from medunlearn.pipeline.tuning.tune_cells import TuneCell
from medunlearn.pipeline.tuning.tune_costs import TrialCosts
from medunlearn.pipeline.tuning.tune_plan import Tuning
from medunlearn.pipeline.tuning.tune_record import tune_facts, write_record
from medunlearn.pipeline.tuning.tune_result import Tuned, tuned
from medunlearn.progress import Advance, progress
from medunlearn.reports.tune_report import TuneContent
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run, drop_checkpoints


def run_tuning(
    tuning: Tuning,
    *,
    jobs: int | None = None,
    device: str = "auto",
    quiet: bool = False,
    say: Say = lambda line: None,
) -> Tuned:
    """Run what is not done. A method that fails does not stop the rest: see :attr:`Tuned.failed`.

    Args:
        jobs: methods, models and evaluations at the same time, each in a process of its own; None for one a GPU,
            or one a core. A method's trials run one after another, so that each goes by those before it.
        say: told one line at the start, and one at the end of each trial and cell.

    Raises:
        InputError: a device, number of jobs or budget that cannot be used; another command writes to this folder.
        KeyboardInterrupt: interrupted; the same call goes on from there.
    """
    out = tuning.settings.out
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file, not a folder. Choose another --out.")
    with lock_folder(out, "tune"):
        remove_leftovers(out)
        work = TuneWork(tuning, tuning.base.benchmark(), device, say)
        work.survey()
        pending = [cell for cell in tuning.cells if not cell.done]
        slots = lend(jobs, device, max(1, len(pending)))
        say(f"benchmark: {work.benchmark.name}, {len(work.benchmark.questions)} questions; {len(slots)} at a time")
        say(f"{len(tuning.cells)} cells, {len(tuning.cells) - len(pending)} of them done")
        for note in tuning.notes:
            say(note)
        total = len(pending) + sum(work.left(cell) for cell in pending if cell.kind == "tune")
        try:
            with terminable(), progress("trials and cells", total, quiet=quiet) as advance, Pool(slots) as pool:
                work.run(pool, advance)
        except BaseException as error:
            for cell in work.board.running():
                cell.status = "interrupted"
            with suppress(StorageError):
                work.write("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
            raise
        result = tuned(tuning, work.studies, work.evaluated(), work.objectives(), work.benchmark)
        work.write("failed" if result.failed else "complete", result.content())
        say("report: best settings, spread over seeds, and the curve of trials")
        return result.with_report()


class TuneWork:
    """A running tuning: its cells and every method's trials."""

    def __init__(self, tuning: Tuning, benchmark: Benchmark, device: str, say: Say) -> None:
        self.tuning, self.benchmark, self.say = tuning, benchmark, say
        costs = TrialCosts(tuning, benchmark, device)
        costs.check_budget()
        self.studies = {method: MethodTrials.open(tuning, method, benchmark, costs) for method in tuning.methods}
        # The trials are the longest way.
        self.board = Board(tuning.cells, {f"tune {method}": 1e3 for method in tuning.methods})
        self.facts = tune_facts(tuning, benchmark)
        settings = tuning.settings
        self.folder = Path(settings.benchmark.get("folder") or benchmark_folder(tuning.base.settings))
        self._known = cache(model_identity)

    def survey(self) -> None:
        """Mark the cells whose output is on disk as done. A cell counts as done only if what it stands on is."""
        for cell in self.tuning.cells:
            cell.status, cell.reason = "to do", None
            if not all(self.tuning.cell[name].done for name in cell.needs):
                continue
            if cell.kind == "tune":
                study = self.studies[str(cell.method)]
                done = study.ended and study.best is not None
                cell.status, cell.seconds = ("done", _seconds(study.trials)) if done else ("to do", None)
            elif (job := self.job(cell)) and (output := job.output(self.benchmark, self._known)):
                cell.folder, cell.evaluation, cell.seconds = output
                if not self._check(cell):
                    cell.status = "done"
                    drop_checkpoints(output.folder)

    def left(self, cell: TuneCell) -> int:
        """Trials of a ``tune`` cell that may still run, as far as that is known before."""
        study, settings = self.studies[str(cell.method)], self.tuning.settings
        whole = int(self.tuning.share) if settings.runs else len(study.trials) + 1
        return max(0, whole - len(study.finished))

    def run(self, pool: Pool, advance: Advance) -> None:
        """Until every cell has ended or cannot run."""
        self.write()
        while self.board.open:
            for cell in self.board.ready():
                if not pool.free:
                    break
                call = self._call(self.tuning.cell[cell.name], advance)
                if call is not None:
                    cell.status = "running"
                    pool.start(call)
            if self.board.running():
                name, output, failure, seconds = pool.wait()
                cell = self.tuning.cell[name]
                if isinstance(output, TuneTrial):
                    self._end_trial(cell, output, advance)
                    continue
                if not failure:
                    cell.folder, cell.evaluation, cell.seconds = output
                    failure = self._check(cell)
                    self.say(f"{name}: {seconds:.1f} s")
                self._settle(cell, failure, advance)

    def _call(self, cell: TuneCell, advance: Advance) -> Call | None:
        """The next work of a cell; None where it ends without any."""
        log = self.tuning.settings.out / LOGS / f"{slug(cell.name)}.log"
        if cell.kind == "tune":
            study = self.studies[str(cell.method)]
            trial = study.next()
            if trial is not None:
                return Call(cell.name, perform_trial, self._trial_job(study, trial), log)
            best = study.best
            cell.seconds = _seconds(study.trials)
            failure = "" if best else f"no trial of {cell.method} has a number: {_reasons(study.trials)}"
            self._settle(cell, failure, advance)
            return None
        job = self.job(cell)
        if job is None:
            trial = self.studies[str(cell.method)].trials[0]
            self._settle(cell, f"the untuned settings failed: {trial.reason}", advance)
            return None
        return Call(cell.name, perform, job, log)

    def _end_trial(self, cell: TuneCell, trial: TuneTrial, advance: Advance) -> None:
        study = self.studies[str(cell.method)]
        study.end(trial)
        value = "failed" if trial.value is None else f"{trial.value:.3f}"
        best = study.best
        words = f"{trial.reason or trial.state}" + ("; its model is broken" if trial.problem else "")
        so_far = f"; best {best.value:.3f} (trial {best.number})" if best and best.value is not None else ""
        self.say(f"{trial.method} trial {trial.number}: {value}, {words}{so_far}")
        cell.status = "to do"
        advance(1)
        self.write()

    def _settle(self, cell: TuneCell, failure: str, advance: Advance) -> None:
        """Note the end of a cell, and say why it failed."""
        lost = list[str]()
        if failure:
            lost = self.board.fail(cell, failure)
            self.say(f"{cell.name}: failed: {failure}")
            if lost:
                self.say(f"{len(lost)} cells that need {cell.name} will not run")
        else:
            cell.status = "done"
        advance(1 + len(lost))
        self.write()

    def _check(self, cell: TuneCell) -> str:
        """The reason why target or retrained model is no reference, by its evaluation on the choosing half."""
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
        """The job of a cell whose needs are met, but of ``tune``; None where there is no model for it."""
        tuning, out = self.tuning, self.tuning.settings.out
        if cell.kind in ("target", "retrained"):
            return Job(self.folder, out, cell.kind, settings=tuning.base.training(cell.seed, cell.split))
        if cell.kind == "unlearn":
            params = self._params(cell)
            settings = tuning.unlearning(
                str(cell.method), params, cell.seed, trial=False, retrained=self._folder("retrained", cell.seed)
            )
            return Job(self.folder, out, model=self._folder("target", cell.seed), settings=settings)
        measure = tuning.measures[cell.place] if cell.half == "choosing" else tuning.evaluating("reporting")
        if cell.method and cell.seed == tuning.seeds[0]:
            study = self.studies[cell.method]
            trial = study.best if cell.setting == "best" else study.trials[0]
            if trial is None or trial.state == "failed":
                return None
            return Job(self.folder, out, model=study.run_of(trial), measure=measure)
        return Job(self.folder, out, model=tuning.cell[cell.needs[0]].folder, measure=measure)

    def _params(self, cell: TuneCell) -> Mapping[str, object]:
        best = self.studies[str(cell.method)].best if cell.setting == "best" else None
        return best.params if best else {}

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

    def _evaluated_with(self, folder: Path, measure: object) -> Evaluated:
        run = Run.open(folder)
        return Evaluated(run, Run.open(evaluation_folder(run, self.benchmark, measure)))  # type: ignore[arg-type]

    def _objective(self, target: Evaluated, goal: Evaluated | None, fold: str) -> TuneObjective:
        """The objective on one half of the subjects, by target and retrained model there."""
        settings = self.tuning.settings
        if settings.retrain:
            assert goal is not None
            return TuneObjective(fold, settings.axes, AxisValues.of(goal.summary, fold))
        level = settings.rank_level if settings.rank_level is not None else level_of_unseen(target.facts, fold)
        utility = AxisValues.of(target.summary, fold).utility or 0.0
        return TuneObjective(fold, settings.axes, None, settings.utility_floor * utility, level or 0.0)

    def evaluated(self) -> dict[str, Evaluated]:
        """Name of each evaluation on the reporting half that is done -> its model and scores."""
        return {
            cell.name: Evaluated(Run.open(cell.folder), Run.open(cell.evaluation))
            for cell in self.tuning.cells
            if cell.half == "reporting" and cell.done and cell.folder and cell.evaluation
        }

    def objectives(self) -> dict[tuple[int, str], TuneObjective]:
        """Seed and fold -> the objective on the reporting half; none where a model that it needs is missing."""
        found, evaluated = dict[tuple[int, str], TuneObjective](), self.evaluated()
        for seed in self.tuning.seeds:
            end = f", seed {seed}" if len(self.tuning.seeds) > 1 else ""
            target, goal = evaluated.get(f"evaluate target{end}"), evaluated.get(f"evaluate retrained{end}")
            if target is not None and (goal is not None or not self.tuning.settings.retrain):
                for fold in self.tuning.evaluating("reporting").folds:
                    found[seed, fold] = self._objective(target, goal, fold)
        return found

    def write(self, status: str = "running", content: TuneContent | None = None) -> None:
        write_record(self.tuning, self.facts, self.studies, status, content)


def _seconds(trials: list[TuneTrial]) -> float:
    return round(sum(trial.seconds or 0.0 for trial in trials), 2)


def _reasons(trials: list[TuneTrial]) -> str:
    reasons = dict.fromkeys(trial.reason or trial.state for trial in trials)
    return "; ".join(list(reasons)[:3])
