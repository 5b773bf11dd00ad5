"""Stages whose work is that of a single command, in the same folder: a sweep's and a tuning's.

What a stage works with are settings of the single commands (``settings``, ``measure``, ``unlearning``): its price
and its size follow from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from medunlearn.config import (
    AttackSettings,
    Context,
    EvaluateSettings,
    SweepSettings,
    TrainSettings,
    UnlearnSettings,
)
from medunlearn.data.benchmark import Benchmark
from medunlearn.models.folders import model_identity
from medunlearn.results.runs import Run
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.pricing import Pricing
from medunlearn.study.experiment import benchmark_folder
from medunlearn.study.sized_defaults import fit_to_model
from medunlearn.study.stages import Inputs, Stage, Work
from medunlearn.study.sweep.jobs import Job, JobOutput, perform
from medunlearn.study.sweep.sequence_counts import SequenceCounts

T = TypeVar("T")


class StagePrice(NamedTuple):
    """Price of a stage.

    Attributes:
        batch_size: answers decoded together.
        note: what the price excludes.
    """

    cost: Cost
    batch_size: int = 64
    note: str = ""


@dataclass(frozen=True)
class Workspace:
    """Folders and benchmark of a graph's stages.

    Attributes:
        out: folder of the results.
        folder: folder of the benchmark.
        benchmark: None if it is not built yet: then nothing is done.
        identity: hash of a model's files, cached for all stages.
    """

    out: Path
    folder: Path
    benchmark: Benchmark | None
    identity: Callable[[str], str] = field(default_factory=lambda: cache(model_identity))

    @staticmethod
    def of(settings: SweepSettings, benchmark: Benchmark | None) -> Workspace:
        """The workspace of a sweep."""
        folder = Path(settings.benchmark.get("folder") or benchmark_folder(settings))
        return Workspace(settings.out, folder, benchmark)


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedStage(Stage[T]):
    """A stage with a row in the record.

    Attributes:
        kind: label of the row.
        lr: learning rate of a trial.
        labels: further columns of the row.
    """

    kind: str
    seed: int
    split: str | None = None
    method: str | None = None
    context: Context | None = None
    lr: float | None = None
    labels: dict[str, Any] = field(default_factory=dict)

    def sequences(self, counts: SequenceCounts) -> float:
        """Number of sequences that it trains on (both sides in unlearning) or evaluates."""
        return 0.0

    @property
    def group(self) -> str:
        """Label of the stages that are priced together."""
        return self.kind

    def price(self, pricing: Pricing) -> StagePrice:
        """Its price, before anything ran."""
        return StagePrice(Cost())

    def facts(self, result: T | None = None) -> dict[str, Any]:
        names = ("name", "kind", "method", "split", "seed", "context", "lr")
        return {name: getattr(self, name) for name in names} | self.labels


@dataclass(frozen=True, kw_only=True, eq=False)
class JobStage(RecordedStage[JobOutput]):
    """A stage that makes a model, or asks one."""

    workspace: Workspace

    def job(self, inputs: Inputs) -> Job:
        """Its work with all inputs resolved."""
        raise NotImplementedError

    def read(self, inputs: Inputs) -> JobOutput | None:
        benchmark = self.workspace.benchmark
        return None if benchmark is None else self.job(inputs).output(benchmark, self.workspace.identity)

    def work(self, inputs: Inputs) -> Work | None:
        job = self.job(inputs)
        return Work(perform, job, None if job.shared else 1)

    def seconds(self, result: JobOutput) -> float | None:
        return result.seconds

    def facts(self, result: JobOutput | None = None) -> dict[str, Any]:
        row = super().facts(result)
        if result is None:
            return row
        evaluation = None if result.evaluation is None else str(result.evaluation)
        return row | {"folder": str(result.folder), "evaluation": evaluation}

    def _job(self, **parts: Any) -> Job:
        return Job(self.workspace.folder, self.workspace.out, **parts)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainModel(JobStage):
    """Train the target, or a retrained model without a split's forget set; ``kind`` says which."""

    settings: TrainSettings

    def job(self, inputs: Inputs) -> Job:
        return self._job(label=self.kind, settings=self.settings)

    def sequences(self, counts: SequenceCounts) -> float:
        return counts.trained(self.settings)

    @property
    def group(self) -> str:
        return "train"

    def price(self, pricing: Pricing) -> StagePrice:
        return StagePrice(pricing.training(self.settings))


@dataclass(frozen=True, kw_only=True, eq=False)
class UnlearnModel(JobStage):
    """Unlearn a model, with settings that may depend on earlier stages."""

    kind: str = "unlearn"
    model: JobStage

    def unlearning(self, inputs: Inputs | None = None) -> UnlearnSettings:
        """Its settings; without inputs as far as they are known before anything ran."""
        raise NotImplementedError

    def fitted(self, settings: UnlearnSettings, inputs: Inputs | None) -> UnlearnSettings:
        """The settings with the rate and epochs that follow from size, where nobody gave them; without inputs the
        epochs alone.
        """
        benchmark, output = self.workspace.benchmark, inputs.get(self.model) if inputs else None
        if benchmark is None:
            return settings
        parameters = Run.open(output.folder).info.results.get("parameters") if output else None
        return fit_to_model(settings, parameters, benchmark)

    def job(self, inputs: Inputs) -> Job:
        return self._job(model=inputs[self.model].folder, settings=self.unlearning(inputs))

    def sequences(self, counts: SequenceCounts) -> float:
        return counts.unlearned(self.unlearning())

    @property
    def group(self) -> str:
        return f"{self.kind} {self.method}"

    def price(self, pricing: Pricing) -> StagePrice:
        return StagePrice(pricing.unlearning(self.unlearning()))


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluate(JobStage):
    """Evaluate a model."""

    kind: str = "evaluate"
    model: JobStage
    settings: EvaluateSettings

    def job(self, inputs: Inputs) -> Job:
        return self._job(model=inputs[self.model].folder, measure=self.settings)

    def sequences(self, counts: SequenceCounts) -> float:
        return counts.asked(self.settings)

    def price(self, pricing: Pricing) -> StagePrice:
        return StagePrice(pricing.evaluating(self.settings), self.settings.batch_size)


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackWith(JobStage):
    """Attack a model.

    Attributes:
        target, retrained: second models of attacks that use one; None for the attacked model itself.
    """

    kind: str = "attack"
    model: JobStage
    settings: AttackSettings
    target: JobStage | None = None
    retrained: JobStage | None = None

    def job(self, inputs: Inputs) -> Job:
        beside = (inputs[other].folder for other in (self.target, self.retrained) if other is not None)
        return self._job(model=inputs[self.model].folder, measure=self.settings, beside=tuple(beside))

    def sequences(self, counts: SequenceCounts) -> float:
        return counts.attacked(self.settings)

    def price(self, pricing: Pricing) -> StagePrice:
        stage = pricing.attacking(self.settings)
        return StagePrice(stage.cost, self.settings.batch_size, stage.note)
