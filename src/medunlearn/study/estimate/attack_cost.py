"""Cost of the attacks on one model: forward passes, decoded tokens and training steps of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any

from medunlearn.attacks.attack_run import AttackBattery
from medunlearn.attacks.attack_sizes import Cost
from medunlearn.attacks.membership.passes import document_sequences
from medunlearn.attacks.recovery.attacked_model import AttackedModel
from medunlearn.attacks.recovery.measuring import StateMeasurer
from medunlearn.attacks.recovery.recovery_attacks import RecoveryAttack
from medunlearn.config import AttackSettings, EvaluateSettings, TrainSettings, What
from medunlearn.data.records import Question, Record
from medunlearn.errors import InputError, first_line
from medunlearn.probes.material import sequences
from medunlearn.study.estimate.blueprint import blueprint_of
from medunlearn.study.estimate.stage_cost import BACKWARD, BYTES_AN_ANSWER, Planner, Stage
from medunlearn.study.estimate.work import Work
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop_settings import LoopSettings
from medunlearn.training.objectives import NextToken
from medunlearn.training.trainable import choose_trainable


def attack_stage(name: str, planner: Planner, settings: AttackSettings, trained: TrainSettings) -> Stage:
    """Stage of a new `attack` run on a model trained by ``trained``, or derived from it.

    The note names attacks of unknown cost, with reasons.
    """
    stages = [*attack_stages(planner, settings, trained).values()]
    work = sum((stage.work for stage in stages), Work())
    notes = "; ".join(filter(None, (stage.note for stage in stages)))
    return Stage(name, "to do", notes, work, sum(stage.disk for stage in stages))


def attack_stages(planner: Planner, settings: AttackSettings, trained: TrainSettings) -> Mapping[str, Stage]:
    """Name of each family of the attacks -> its stage on a new model."""
    sizes, stages = PlannedSizes(planner, settings, trained), dict[str, Stage]()
    for name, job in AttackBattery(planner.benchmark, settings).jobs.items():
        stage = Stage(name, "to do")
        try:
            for work, disk in job.cost(sizes):
                stage = replace(stage, work=stage.work + work, disk=stage.disk + disk)
        except InputError as error:
            stage = replace(stage, note=f"{name} is not counted: {error}")
        except Exception as error:
            # A plug-in may read values of weights, which a plan has not.
            reason = f"{type(error).__name__}: {first_line(error, 80)}"
            stage = replace(stage, note=f"{name} is not counted: {reason}")
        stages[name] = stage
    return stages


class PlannedModel(StateMeasurer):
    """A model of which only the questions are known; its weights are an empty mapping."""

    @contextmanager
    def changed(self) -> Iterator[Mapping[str, Any]]:
        yield {}


@dataclass(frozen=True)
class PlannedSizes:
    """Work of the parts of an attack on a planned model."""

    planner: Planner
    settings: AttackSettings
    trained: TrainSettings

    @property
    def trained_on(self) -> What:
        return self.trained.train_on

    def reading(
        self, records: Sequence[Record], *, model: str | None = None, backward: bool = False, bytes_a_token: int = 0
    ) -> Cost:
        planner = self.planner
        if model is not None:
            planner = Planner(planner.benchmark, blueprint_of(model), planner.rendering, "cpu")
        documents = document_sequences(records, planner.blueprint.tokenizer, self.trained.max_length)
        rehearsal = planner.rehearsal("all", self.settings.weights, "fp32")
        work = rehearsal.reading([*chain.from_iterable(documents)], self.settings.batch_size).times(planner.growth)
        if backward:
            memory = work.memory and replace(work.memory, gradients=work.memory.weights)
            work = replace(work, flops=(1 + BACKWARD) * work.flops, memory=memory)
        return work, bytes_a_token * work.tokens

    def answering(self, questions: Sequence[Question], settings: EvaluateSettings) -> Cost:
        return self.planner.answering(questions, settings), BYTES_AN_ANSWER * len(questions)

    def model(self, attack: RecoveryAttack) -> AttackedModel:
        missing: Any = None
        return PlannedModel(missing, self.planner.benchmark, attack, self.settings, missing, True)

    def measuring(self, model: AttackedModel, questions: Sequence[Question], times: int) -> Cost:
        share = len(questions) / len(model.questions)
        ranking = self.planner.ranking(model.evaluation)
        once = self.planner.answering(questions, model.evaluation)
        once += ranking.times(share)
        return _beside_a_copy(once.times(times)), BYTES_AN_ANSWER * len(questions) * times

    def sampling(self, model: AttackedModel, questions: Sequence[Question], samples: int) -> Cost:
        work = self.planner.answering(questions, model.evaluation)
        return work.times(samples), BYTES_AN_ANSWER * samples * len(questions)

    def training(
        self,
        records: list[Record],
        questions: list[Question],
        *,
        trainable: str,
        batch_size: int,
        steps: int,
        seed: int,
    ) -> Cost:
        planner = self.planner
        items = sequences(records, questions, planner.benchmark.record, planner.language_model, planner.rendering)
        epochs = math.ceil(steps / -(-len(items) // batch_size))
        plan = Plan({"train": items}, batch_size, epochs, seed, stop=steps)
        mark = lambda model: choose_trainable(model, trainable, seed=seed)  # noqa: E731
        rehearsal = planner.rehearsal(trainable, self.settings.weights, "bf16", mark)
        own = {field.name: field.default for field in fields(LoopSettings) if field.name not in ("lr", "seed")}
        loop = self.trained.model_copy(update={**own, "sharding": "none"})
        return _beside_a_copy(rehearsal.training(plan, loop, NextToken(), on_gpu=planner.on_gpu)), 0


def _beside_a_copy(work: Work) -> Work:
    """Work with an additional copy of the model's own weights in memory, to restore them at the end."""
    memory = work.memory and replace(work.memory, reference=work.memory.weights)
    return replace(work, memory=memory)
