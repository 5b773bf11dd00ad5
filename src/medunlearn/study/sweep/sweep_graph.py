"""Stages of a sweep, and what each needs.

A target is unlearned by every method for every split, at the method's best rate if rates are searched; a retrained
model is the reference. Every model is evaluated, and attacked if the sweep attacks, on its own split; the target on
all splits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from medunlearn.attacks import attack_class, expand
from medunlearn.config import Context
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import sha256_of_json
from medunlearn.methods import is_edit
from medunlearn.study.stages import Graph
from medunlearn.study.sweep.job_stages import AttackWith, Evaluate, JobStage, RecordedStage, TrainModel, Workspace
from medunlearn.study.sweep.sequence_counts import SequenceCounts
from medunlearn.study.sweep.sweep_plan import Sweep
from medunlearn.study.sweep.sweep_stages import ChooseRate, SearchRate, Unlearn


@dataclass(frozen=True)
class SweepGraph:
    """A sweep's graph and its stages, with those whose results are reported."""

    graph: Graph
    cells: tuple[RecordedStage[Any], ...]
    choices: tuple[ChooseRate, ...]
    evaluations: tuple[Evaluate, ...]
    attacks: tuple[AttackWith, ...]

    def sequences(self, counts: SequenceCounts) -> dict[str, float]:
        """Number of sequences that each stage trains on or evaluates."""
        return {cell.name: cell.sequences(counts) for cell in self.cells}


def sweep_graph(sweep: Sweep, benchmark: Benchmark | None = None) -> SweepGraph:
    """Every stage of a sweep, each after those that it needs.

    Args:
        benchmark: finds results on disk; None if it is not built yet.
    """
    stages, make = list[RecordedStage[Any]](), _SweepMaker(sweep, Workspace.of(sweep.settings, benchmark))
    choices, evaluations, attacks = list[ChooseRate](), list[Evaluate](), list[AttackWith]()
    for seed in sweep.seeds:
        target = make.train(seed)
        stages.append(target)
        if seed == sweep.seeds[0]:
            for search in make.searches(target):
                stages += [*search.after, search]
                choices.append(search)
        retrained = [make.train(seed, split) for split in sweep.settings.splits if split in sweep.retrained]
        unlearned = make.unlearn(target, retrained, choices)
        models: list[TrainModel | Unlearn] = [*retrained, *unlearned]
        own = [(target, split) for split in sweep.settings.splits] + [(model, str(model.split)) for model in models]
        across = [(model, split) for model in unlearned for split in sweep.asked_about(str(model.split))]
        asked = [question for model, split in own + across for question in make.evaluate(model, split)]
        reference_of, own = {model.split: model for model in retrained}, own if sweep.settings.attack else []
        attacked = [make.attack(model, split, target, reference_of.get(split)) for model, split in own]
        stages += [*models, *asked, *attacked]
        evaluations += asked
        attacks += attacked
    return SweepGraph(Graph.of(stages), tuple(stages), tuple(choices), tuple(evaluations), tuple(attacks))


@dataclass(frozen=True)
class _SweepMaker:
    """Maker of a sweep's stages."""

    sweep: Sweep
    workspace: Workspace

    def train(self, seed: int, without: str | None = None) -> TrainModel:
        role = "target" if without is None else "retrained"
        name = role if without is None else f"{role} {shown(without)}"
        settings = self.sweep.training(seed, without)
        return TrainModel(
            name=f"{name}{self._end(seed)}",
            workspace=self.workspace,
            kind=role,
            seed=seed,
            split=without,
            settings=settings,
        )

    def searches(self, target: TrainModel) -> Iterator[ChooseRate]:
        """The choice of a rate for each method that trains, after the trials of all rates."""
        sweep, search = self.sweep, self.sweep.search
        for method in sweep.methods:
            if search is None or is_edit(method):
                continue
            common: dict[str, Any] = {"seed": target.seed, "split": search.split, "method": method}
            trials = tuple(
                SearchRate(
                    name=f"search {method} {rate:g}",
                    workspace=self.workspace,
                    lr=rate,
                    model=target,
                    settings=sweep.unlearning(method, search.split, target.seed, rate),
                    measure=sweep.searching(search.split),
                    **common,
                )
                for rate in search.lr
            )
            yield ChooseRate(name=f"choose {method}", model=target, after=trials, **common)

    def unlearn(
        self, target: TrainModel, retrained: Sequence[TrainModel], choices: Sequence[ChooseRate]
    ) -> list[Unlearn]:
        """Models of every split and method.

        In a sequence a method's model starts from its model of the previous split. The reference of some methods
        is the split's retrained model.
        """
        choice_of, reference_of = {choice.method: choice for choice in choices}, {r.split: r for r in retrained}
        models, previous = list[Unlearn](), dict[str, Unlearn]()
        for split in self.sweep.settings.splits:
            for method in self.sweep.methods:
                model = Unlearn(
                    name=f"{method} {shown(split)}{self._end(target.seed)}",
                    workspace=self.workspace,
                    seed=target.seed,
                    split=split,
                    method=method,
                    sweep=self.sweep,
                    model=previous.get(method, target),
                    choice=choice_of.get(method),
                    retrained=reference_of[split] if method in self.sweep.reads_retrained else None,
                )
                models.append(model)
                if self.sweep.settings.sequence:
                    previous[method] = model
        return models

    def evaluate(self, model: JobStage, split: str) -> Iterator[Evaluate]:
        """The evaluation of a model in each context mode."""
        contexts = self.sweep.settings.contexts
        for context in contexts or (None,):
            mode = f" in {context}" if len(contexts) > 1 else ""
            settings = self.sweep.evaluating(split, context)
            labels = self._labels("evaluate", model, split, mode, context)
            yield Evaluate(context=context, settings=settings, **labels)

    def attack(self, model: JobStage, split: str, target: JobStage, retrained: JobStage | None) -> AttackWith:
        # An attack may ask the model, and keeps its responses where those of the first context are.
        store = next(iter(self.sweep.settings.contexts), None)
        labels, settings = self._labels("attack", model, split, "", store), self.sweep.attacking(split)
        roles = {role for name in expand(settings.attacks) for role in attack_class(name).second_models}
        beside = {"target": target, "retrained": retrained}
        labels |= {role: beside[role] for role in roles if beside[role] is not model}
        return AttackWith(settings=settings, **labels)

    def _labels(self, verb: str, model: JobStage, split: str, mode: str, store: Context | None) -> dict[str, Any]:
        """Fields of an evaluation or attack of a model; its name includes the split unless the model's name does.

        Those that share a store of responses never run at the same time, so that the second reuses the first's.
        """
        end = self._end(model.seed)
        name = model.name.removesuffix(end)
        about = name if split == model.split else f"{name} on {shown(split)}"
        return {
            "name": f"{verb} {about}{mode}{end}",
            "workspace": self.workspace,
            "alone": f"{model.name} in {store}",
            "seed": model.seed,
            "split": split,
            "method": model.method,
            "model": model,
        }

    def _end(self, seed: int) -> str:
        return f", seed {seed}" if len(self.sweep.seeds) > 1 else ""


def shown(split: str) -> str:
    """A split's name for lists and logs; a hash for a request, which names its patients."""
    return f"request-{sha256_of_json(split)[:6]}" if "=" in split else split
