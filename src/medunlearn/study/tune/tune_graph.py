"""Stages of a tuning, and what each needs.

With the first seed every method has trials, whose objective comes from the target and the retrained model on the
choosing half of the subjects. Its untuned and its best settings are reported on the other half: with the first seed
by the models of their trials, with every further seed by a model of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.study.stages import Graph
from medunlearn.study.sweep.job_stages import Cell, Evaluate, TrainModel, Workspace
from medunlearn.study.tune.method_trials import Cost
from medunlearn.study.tune.tune_plan import Half, Tuning
from medunlearn.study.tune.tune_stages import EvaluateReference, EvaluateTrial, TuneMethod, UnlearnTuned

SETTINGS = ("untuned", "best")


@dataclass(frozen=True)
class TuneGraph:
    """A tuning's graph and its stages.

    Attributes:
        methods: the trials of each method.
        references: seed -> evaluations of the target and the retrained model on the reporting half.
        evaluations: all evaluations on the reporting half.
    """

    graph: Graph
    cells: tuple[Cell[Any], ...]
    methods: Mapping[str, TuneMethod]
    references: Mapping[int, tuple[Evaluate, ...]]
    evaluations: tuple[Evaluate | EvaluateTrial, ...]


def tune_graph(tuning: Tuning, benchmark: Benchmark | None, cost: Cost) -> TuneGraph:
    """Every stage of a tuning, each after those that it needs.

    Args:
        benchmark: finds results on disk; None if it is not built yet.
        cost: FLOPs of a trial.
    """
    make = _StageMaker(tuning, Workspace.of(tuning.base.settings, benchmark))
    cells, evaluations = list[Cell[Any]](), list[Evaluate | EvaluateTrial]()
    methods, references = dict[str, TuneMethod](), dict[int, tuple[Evaluate, ...]]()
    for seed in tuning.seeds:
        models = make.models(seed)
        cells += models
        if not methods:
            choosing = [*make.choosing(models)]
            methods = {method: make.trials(method, models, choosing, cost) for method in tuning.methods}
            cells += [*choosing, *methods.values()]
        references[seed] = tuple(make.reporting(model) for model in models)
        cells += references[seed]
        evaluations += references[seed]
        for trials in methods.values():
            if seed == trials.seed:
                own = [*make.of_trials(trials)]
                cells += own
                evaluations += own
                continue
            for evaluation in make.of_models(trials, models):
                cells += [evaluation.model, evaluation]
                evaluations.append(evaluation)
    return TuneGraph(Graph.of(cells), tuple(cells), methods, references, tuple(evaluations))


@dataclass(frozen=True)
class _StageMaker:
    """Maker of a tuning's stages."""

    tuning: Tuning
    workspace: Workspace

    def models(self, seed: int) -> list[TrainModel]:
        """The target, and the retrained model if there is one."""
        splits = (None, self.tuning.settings.split) if self.tuning.settings.retrain else (None,)
        return [
            TrainModel(
                name=f"{role}{self._end(seed)}",
                workspace=self.workspace,
                kind=role,
                seed=seed,
                split=split,
                settings=self.tuning.base.training(seed, split),
            )
            for role, split in zip(("target", "retrained"), splits, strict=False)
        ]

    def choosing(self, models: Sequence[TrainModel]) -> Iterator[EvaluateReference]:
        """Evaluations of the models on the choosing half, one for each evaluation settings of trials."""
        for model in models:
            for place, settings in enumerate(self.tuning.measures()):
                name = f"evaluate {model.kind} on the choosing half{self._end(model.seed)}"
                yield EvaluateReference(
                    name=name + (f" ({place + 1})" if place else ""),
                    tuning=self.tuning,
                    model=model,
                    settings=settings,
                    **self._labels("choosing", model.name, model.seed),
                )

    def trials(
        self, method: str, models: Sequence[TrainModel], choosing: Sequence[EvaluateReference], cost: Cost
    ) -> TuneMethod:
        """The trials of a method, after the evaluations that its objective comes from."""
        measure, (target, *retrained) = self.tuning.measuring(method), models
        return TuneMethod(
            name=f"tune {method}",
            needs=(target, *choosing, *retrained),
            workspace=self.workspace,
            seed=target.seed,
            split=self.tuning.settings.split,
            method=method,
            tuning=self.tuning,
            target=target,
            retrained=next(iter(retrained), None),
            references=tuple(stage for stage in choosing if stage.settings == measure),
            cost=cost,
        )

    def reporting(self, model: TrainModel) -> Evaluate:
        """The evaluation of a target or a retrained model on the reporting half."""
        labels = self._labels("reporting", model.name, model.seed)
        return Evaluate(name=f"evaluate {model.name}", model=model, settings=self._reporting, **labels)

    def of_trials(self, trials: TuneMethod) -> Iterator[EvaluateTrial]:
        """Evaluations of the models of a method's untuned and its best trial, one after the other."""
        previous: tuple[EvaluateTrial, ...] = ()
        for setting in SETTINGS:
            evaluation = EvaluateTrial(
                name=f"evaluate {trials.method} {setting}{self._end(trials.seed)}",
                after=previous,
                method=trials.method,
                trials=trials,
                best=setting == "best",
                settings=self._reporting,
                **self._labels("reporting", trials.method, trials.seed, setting),
            )
            previous = (evaluation,)
            yield evaluation

    def of_models(self, trials: TuneMethod, models: Sequence[TrainModel]) -> Iterator[Evaluate]:
        """Evaluations of a further seed's models with a method's untuned and best settings, one after the other."""
        (target, *retrained), method = models, trials.method
        model_before: tuple[UnlearnTuned, ...] = ()
        before: tuple[Evaluate, ...] = ()
        for setting in SETTINGS:
            model = UnlearnTuned(
                name=f"{method} {setting}{self._end(target.seed)}",
                after=model_before,
                workspace=self.workspace,
                seed=target.seed,
                split=self.tuning.settings.split,
                method=method,
                labels={"setting": setting},
                tuning=self.tuning,
                model=target,
                retrained=next(iter(retrained), None),
                trials=trials if setting == "best" else None,
            )
            evaluation = Evaluate(
                name=f"evaluate {model.name}",
                after=before,
                method=method,
                model=model,
                settings=self._reporting,
                **self._labels("reporting", method, target.seed, setting),
            )
            model_before, before = (model,), (evaluation,)
            yield evaluation

    @property
    def _reporting(self) -> EvaluateSettings:
        return self.tuning.evaluating("reporting")

    def _labels(self, half: Half, store: str, seed: int, setting: str = "") -> dict[str, Any]:
        """Fields of an evaluation; those of one store of responses never run at the same time."""
        alone, labels = f"{store}, seed {seed}", {"setting": setting, "half": half}
        return {"workspace": self.workspace, "seed": seed, "alone": alone, "labels": labels}

    def _end(self, seed: int) -> str:
        return f", seed {seed}" if len(self.tuning.seeds) > 1 else ""
