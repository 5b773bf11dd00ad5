"""Stages that only a sweep has: the search for a method's learning rate, and unlearning at it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from medunlearn.config import EvaluateSettings, UnlearnSettings
from medunlearn.data.origins import DRAWN, read_provenance, why_undecided
from medunlearn.data.storage import read_frame
from medunlearn.errors import MedunlearnError
from medunlearn.results.evaluated import SUMMARY
from medunlearn.results.runs import RunRecord
from medunlearn.study.cost.pricing import Pricing
from medunlearn.study.presets import with_retrained
from medunlearn.study.stages import Inputs
from medunlearn.study.sweep.job_stages import RecordedStage, StagePrice, TrainModel, UnlearnModel
from medunlearn.study.sweep.jobs import Job
from medunlearn.study.sweep.rate_search import Trial, at_edge, best_rate, trial_of
from medunlearn.study.sweep.sequence_counts import SequenceCounts
from medunlearn.study.sweep.sweep_plan import Sweep


@dataclass(frozen=True, kw_only=True, eq=False)
class SearchRate(UnlearnModel):
    """Unlearn at one rate, and evaluate the model."""

    kind: str = "search"
    lr: float
    settings: UnlearnSettings
    measure: EvaluateSettings

    def unlearning(self, inputs: Inputs | None = None) -> UnlearnSettings:
        return self.fitted(self.settings, inputs)

    def job(self, inputs: Inputs) -> Job:
        return replace(super().job(inputs), measure=self.measure)

    def sequences(self, counts: SequenceCounts) -> float:
        return super().sequences(counts) + counts.asked(self.measure)

    def price(self, pricing: Pricing) -> StagePrice:
        evaluation = pricing.evaluating(self.measure)
        return StagePrice(super().price(pricing).cost + evaluation, self.measure.batch_size)

    def trial(self, inputs: Inputs) -> Trial:
        """Its rate with its numbers, or the reason why there are none."""
        output = inputs.get(self)
        if output is None or output.evaluation is None:
            return Trial(str(self.method), self.lr, reason=inputs.reason(self) or "not run")
        record = RunRecord.read(output.evaluation)
        origins = read_provenance((record.results.get("benchmark") or {}).get("provenance"))
        table = read_frame(output.evaluation / SUMMARY, ("measure", "value"))
        return trial_of(str(self.method), self.lr, table, "; ".join(record.problems), why_undecided(origins))


class RateChoice(NamedTuple):
    """The best learning rate of a method, and all that were tried."""

    lr: float
    trials: tuple[Trial, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class ChooseRate(RecordedStage[RateChoice]):
    """Choose a method's best rate, once the trials of all rates have ended."""

    takes_slot = False
    kind: str = "choose"
    method: str
    model: TrainModel
    after: tuple[SearchRate, ...]

    def trials(self, inputs: Inputs) -> tuple[Trial, ...]:
        """Every rate that was tried."""
        return tuple(search.trial(inputs) for search in self.after)

    def run(self, inputs: Inputs) -> RateChoice:
        trials = self.trials(inputs)
        best = best_rate(trials)
        return RateChoice(best, tuple(replace(trial, chosen=trial.lr == best) for trial in trials))

    def read(self, inputs: Inputs) -> RateChoice | None:
        try:
            return self.run(inputs)
        except MedunlearnError:
            return None

    def seconds(self, result: RateChoice) -> float:
        return 0.0

    def report(self, output: RateChoice, seconds: float) -> str:
        drawn = next((trial.reason for trial in output.trials if DRAWN in trial.reason), "")
        edge = f"not by its numbers: {drawn}" if drawn else at_edge(output.trials, output.lr)
        return f"{self.name}: {output.lr:g}" + (f" ({edge})" if edge else "")

    def facts(self, result: RateChoice | None = None) -> dict[str, Any]:
        return super().facts() | {"lr": None if result is None else result.lr}


@dataclass(frozen=True, kw_only=True, eq=False)
class Unlearn(UnlearnModel):
    """Unlearn a split by a method, at its own rate or the best one of the search.

    Attributes:
        retrained: the reference model of a method that reads one.
    """

    split: str
    method: str
    sweep: Sweep
    choice: ChooseRate | None = None
    retrained: TrainModel | None = None

    def unlearning(self, inputs: Inputs | None = None) -> UnlearnSettings:
        choice = inputs and inputs.get(self.choice)
        settings = self.sweep.unlearning(self.method, self.split, self.seed, choice.lr if choice else None)
        retrained = inputs and inputs.get(self.retrained)
        return with_retrained(self.fitted(settings, inputs), retrained.folder if retrained else None)
