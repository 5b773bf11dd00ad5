"""One method's trials in their folder: the next one, finished ones, and the remaining budget."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from medunlearn.data.benchmark import Benchmark
from medunlearn.study.graph_run import slug
from medunlearn.study.tune.space import default_values
from medunlearn.study.tune.study import next_params
from medunlearn.study.tune.trials import TuneTrial, best_trial, read_trials, write_trials
from medunlearn.study.tune.tune_plan import Tuning

Cost = Callable[[str, dict[str, object]], float | None]
"""Method and searched settings -> estimated FLOPs of the trial; None if they cannot be estimated."""


@dataclass
class MethodTrials:
    """A method's trials.

    Attributes:
        cost: function for the cost of a trial in FLOPs.
        trials: trials in order; at most the last one is ``running``.
    """

    tuning: Tuning
    method: str
    folder: Path
    cost: Cost
    trials: list[TuneTrial] = field(default_factory=list)

    @classmethod
    def open(cls, tuning: Tuning, method: str, benchmark: Benchmark, cost: Cost) -> MethodTrials:
        """Open the trials in the folder; settings that affect trials have separate folders."""
        folder = tuning.settings.out / f"trials-{slug(method)}-{tuning.study_key(method, benchmark)[:8]}"
        return cls(tuning, method, folder, cost, read_trials(folder))

    @property
    def finished(self) -> list[TuneTrial]:
        return [trial for trial in self.trials if trial.state != "running"]

    @property
    def best(self) -> TuneTrial | None:
        return best_trial(self.trials)

    @property
    def is_spent(self) -> bool:
        """True if no trial runs, and the budget has room for none."""
        if not self.trials or self.trials[-1].state == "running":
            return False
        spent = self.spent if self.tuning.settings.runs is None else len(self.trials)
        return spent >= self.tuning.share

    @property
    def spent(self) -> float:
        """Known FLOPs of the finished trials."""
        return sum(trial.flops or 0.0 for trial in self.finished)

    @property
    def counts(self) -> dict[str, int]:
        """State -> number of trials, and the number of broken models."""
        states = ("complete", "pruned", "failed")
        numbers = {state: sum(trial.state == state for trial in self.trials) for state in states}
        return numbers | {"broken": sum(bool(trial.problem) for trial in self.trials)}

    @property
    def seconds(self) -> float:
        """Run time of all trials."""
        return round(sum(trial.seconds or 0.0 for trial in self.trials), 2)

    @property
    def reasons(self) -> str:
        """The first three different reasons of ended trials."""
        return "; ".join(list(dict.fromkeys(trial.reason or trial.state for trial in self.trials))[:3])

    def run_of(self, trial: TuneTrial) -> Path:
        """Folder of a trial's run."""
        return self.folder / f"{trial.number:03d}"

    def next(self) -> TuneTrial | None:
        """The next trial to run, recorded before it starts; None if the budget is spent.

        An interrupted trial is returned again with its settings, and its run resumes from the last checkpoint.
        """
        if self.trials and self.trials[-1].state == "running":
            return self.trials[-1]
        self._drop_models()  # a kill may have cut off the last deletion
        if self.is_spent:
            return None
        tuning, number = self.tuning, len(self.trials)
        untuned = default_values(tuning.unlearning(self.method, {}, tuning.seeds[0], trial=False))
        params = next_params(tuning.spaces[self.method], self.trials, untuned, number, tuning.seeds[0])
        planned = tuning.unlearning(self.method, params, tuning.seeds[0], trial=True).epochs
        trial = TuneTrial(
            self.method, number, "running", params, planned=planned, flops=self.cost(self.method, params)
        )
        if tuning.settings.flops and number and (trial.flops or 0.0) + self.spent > tuning.share:
            return None  # what was drawn does not fit any more
        self.trials.append(trial)
        write_trials(self.folder, self.trials)
        return trial

    def end(self, trial: TuneTrial) -> None:
        """Record the end of the running trial; only the untuned and the best trial keep their models."""
        if trial.flops is not None and trial.planned and trial.state == "pruned":
            trial = replace(trial, flops=trial.flops * trial.epochs / trial.planned)
        self.trials[-1] = trial
        write_trials(self.folder, self.trials)
        self._drop_models()

    @property
    def needless_models(self) -> list[Path]:
        """Model folders of finished trials, without those of the untuned and the best one."""
        best = self.best
        others = (
            trial for trial in self.finished if trial.number and (best is None or trial.number != best.number)
        )
        return [folder for trial in others if (folder := self.run_of(trial) / "model").exists()]

    def _drop_models(self) -> None:
        """Delete the needless models."""
        for folder in self.needless_models:
            shutil.rmtree(folder, ignore_errors=True)
