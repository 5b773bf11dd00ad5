"""Stages that only a tuning has: reference evaluations, trials, and the models with tuned settings."""

from __future__ import annotations

from dataclasses import dataclass

from medunlearn.config import EvaluateSettings, UnlearnSettings
from medunlearn.errors import InputError, MedunlearnError
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.study.stages import Inputs, Work
from medunlearn.study.sweep.job_stages import Evaluate, JobStage, RecordedStage, TrainModel, UnlearnModel, Workspace
from medunlearn.study.sweep.jobs import Job, JobOutput
from medunlearn.study.tune.method_trials import Cost, MethodTrials
from medunlearn.study.tune.objective import AxisValues, TuneObjective, level_of_unseen
from medunlearn.study.tune.trial_job import TrialJob, perform_trial
from medunlearn.study.tune.trials import TuneTrial
from medunlearn.study.tune.tune_plan import Tuning


def opened(output: JobOutput) -> Evaluated:
    """A model and its scores, from the output of its evaluation."""
    assert output.evaluation is not None
    return Evaluated(Run.open(output.folder), Run.open(output.evaluation))


def objective_of(tuning: Tuning, target: Evaluated, goal: Evaluated | None, fold: str) -> TuneObjective:
    """The objective on one half of the subjects, from the target and the retrained model."""
    settings = tuning.settings
    if settings.retrain:
        assert goal is not None
        return TuneObjective(fold, settings.axes, AxisValues.of(goal.summary, fold))
    level = settings.rank_level if settings.rank_level is not None else level_of_unseen(target.facts, fold)
    utility = AxisValues.of(target.summary, fold).utility or 0.0
    return TuneObjective(fold, settings.axes, None, settings.utility_floor * utility, level or 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class EvaluateReference(Evaluate):
    """Evaluate the target or the retrained model on the choosing half, and refuse one that is no reference."""

    tuning: Tuning

    def read(self, inputs: Inputs) -> JobOutput | None:
        output = super().read(inputs)
        return None if output is None or self._problem(output) else output

    def accept(self, output: JobOutput) -> JobOutput:
        if problem := self._problem(output):
            raise InputError(problem)
        return output

    def _problem(self, output: JobOutput) -> str:
        """Reason why the model is not a valid reference; "" if it is."""
        evaluated, fold = opened(output), self.tuning.fold
        allowed = self.tuning.settings.evaluate.get("allow_broken")
        if (problems := evaluated.record.info.problems) and not allowed:
            return (
                f"its model is broken: {'; '.join(problems)}. Nothing is tuned against it: train it better, or say "
                "evaluate: {allow_broken: true}"
            )
        needs = objective_of(self.tuning, evaluated, evaluated, fold).needs
        if missing := AxisValues.of(evaluated.summary, fold).missing(needs):
            return (
                f"nothing was scored on {', '.join(missing)} (fold {fold}). Choose other axes, or evaluate.metrics "
                "that have it"
            )
        return ""


@dataclass(frozen=True, kw_only=True, eq=False)
class TuneMethod(RecordedStage[MethodTrials]):
    """Trials of a method, one after the other, until its budget is spent.

    The trials so far are those on disk.

    Attributes:
        references: evaluations of the target, and of the retrained model if there is one.
    """

    kind: str = "tune"
    method: str
    workspace: Workspace
    tuning: Tuning
    target: TrainModel
    retrained: TrainModel | None
    references: tuple[EvaluateReference, ...]
    cost: Cost

    def trials(self) -> MethodTrials:
        """The trials so far."""
        assert self.workspace.benchmark is not None
        return MethodTrials.open(self.tuning, self.method, self.workspace.benchmark, self.cost)

    def read(self, inputs: Inputs) -> MethodTrials | None:
        if self.workspace.benchmark is None:
            return None
        trials = self.trials()
        # A kill may have cut off the last deletion, which `work` completes.
        return trials if trials.is_spent and trials.best and not trials.needless_models else None

    def work(self, inputs: Inputs) -> Work | None:
        trials = self.trials()
        trial = trials.next()
        if trial is None:
            return None
        job = self._job(trials, trial, inputs)
        return Work(perform_trial, job, None if job.shared else 1)

    def accept(self, output: TuneTrial) -> None:
        self.trials().end(output)

    def run(self, inputs: Inputs) -> MethodTrials:
        trials = self.trials()
        if trials.best is None:
            raise MedunlearnError(f"no trial of {self.method} has a number: {trials.reasons}")
        return trials

    def seconds(self, result: MethodTrials) -> float:
        return result.seconds

    def report(self, output: TuneTrial | MethodTrials, seconds: float) -> str:
        if isinstance(output, MethodTrials):
            return ""
        best, value = self.trials().best, "failed" if output.value is None else f"{output.value:.3f}"
        words = f"{output.reason or output.state}" + ("; its model is broken" if output.problem else "")
        so_far = f"; best {best.value:.3f} (trial {best.number})" if best and best.value is not None else ""
        return f"{output.method} trial {output.number}: {value}, {words}{so_far}"

    def _job(self, trials: MethodTrials, trial: TuneTrial, inputs: Inputs) -> TrialJob:
        tuning, retrained = self.tuning, inputs.get(self.retrained)
        target, goal = [*(opened(inputs[stage]) for stage in self.references), None][:2]
        assert target is not None
        settings = tuning.unlearning(
            self.method, trial.params, self.seed, trial=True, retrained=retrained and retrained.folder
        )
        return TrialJob(
            self.workspace.folder,
            trials.run_of(trial),
            inputs[self.target].folder,
            settings,
            None if settings.evaluate_every else tuning.measuring(self.method),
            objective_of(tuning, target, goal, tuning.fold),
            tuning.settings.halving,
            trial,
            tuple(trials.finished),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class UnlearnTuned(UnlearnModel):
    """Unlearn with a further seed.

    Attributes:
        trials: the best settings of these; None for the untuned ones.
    """

    method: str
    tuning: Tuning
    retrained: TrainModel | None
    trials: TuneMethod | None

    def unlearning(self, inputs: Inputs | None = None) -> UnlearnSettings:
        trials, retrained = (inputs.get(self.trials), inputs.get(self.retrained)) if inputs else (None, None)
        params = trials.best.params if trials and trials.best else {}
        folder = retrained and retrained.folder
        return self.tuning.unlearning(self.method, params, self.seed, trial=False, retrained=folder)


@dataclass(frozen=True, kw_only=True, eq=False)
class EvaluateTrial(JobStage):
    """Evaluate the model of a method's best or untuned trial on the reporting half."""

    kind: str = "evaluate"
    trials: TuneMethod
    best: bool
    settings: EvaluateSettings

    def read(self, inputs: Inputs) -> JobOutput | None:
        return None if self._trial(inputs).state == "failed" else super().read(inputs)

    def job(self, inputs: Inputs) -> Job:
        trial = self._trial(inputs)
        if trial.state == "failed":
            raise MedunlearnError(f"the untuned settings failed: {trial.reason}")
        return self._job(model=inputs[self.trials].run_of(trial), measure=self.settings)

    def _trial(self, inputs: Inputs) -> TuneTrial:
        trials = inputs[self.trials]
        return trials.best if self.best and trials.best else trials.trials[0]
