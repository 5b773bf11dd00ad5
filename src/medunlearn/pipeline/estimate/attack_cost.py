"""Cost of the attacks on one model: forward passes, decoded tokens and training steps of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any

from medunlearn.attacks import expand, make_attack
from medunlearn.attacks.membership.passes import document_sequences
from medunlearn.attacks.reconstruction.contexts import Cumulative, attacked_questions
from medunlearn.attacks.recovery.recovery_attacks import (
    Quantization,
    RecoveryAttack,
    Relearning,
    RepeatedSampling,
)
from medunlearn.config import AttackSettings, EvaluateSettings, TrainSettings, check
from medunlearn.data.records import SIDES, Question
from medunlearn.errors import InputError
from medunlearn.models.sequences import TokenSequence
from medunlearn.pipeline.attacking.attack_run import membership_candidates
from medunlearn.pipeline.attacking.measuring import StateMeasurer
from medunlearn.pipeline.attacking.relearning_run import relearned_data, relearning_subjects
from medunlearn.pipeline.estimate.blueprint import blueprint_of
from medunlearn.pipeline.estimate.stage_cost import BACKWARD, BYTES_AN_ANSWER, Planner, Stage
from medunlearn.pipeline.estimate.work import Work
from medunlearn.pipeline.material import sequences
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop_settings import LoopSettings
from medunlearn.training.objectives import NextToken
from medunlearn.training.trainable import choose_trainable

BYTES_A_TOKEN = 24  # Log-probability, mean and variance.


def attack_stage(name: str, planner: Planner, settings: AttackSettings, trained: TrainSettings) -> Stage:
    """Stage of a new `attack` run on a model trained by ``trained``, or derived from it.

    The note names attacks of unknown cost, with reasons.
    """
    costs, stage, notes = _AttackCosts(planner, settings, trained), Stage(name, "to do"), list[str]()
    attacks = {own: make_attack(own, settings.arguments.get(own, {})) for own in expand(settings.attacks)}
    parts: list[tuple[str, Any]] = [(own, one) for own, one in attacks.items() if one.kind != "membership"]
    members = [one for one in attacks.values() if one.kind == "membership"]
    for own, attack in [*([("membership", members)] if members else []), *parts]:
        try:
            for work, disk in costs.of(attack):
                stage = replace(stage, work=stage.work + work, disk=stage.disk + disk)
        except InputError as error:
            notes.append(f"{own} is not counted: {error}")
    return replace(stage, note="; ".join(notes))


@dataclass(frozen=True)
class _AttackCosts:
    planner: Planner
    settings: AttackSettings
    trained: TrainSettings

    def of(self, attack: Any) -> Iterator[tuple[Work, int]]:
        """Work, and bytes on disk, of each part of an attack; of all membership attacks if given a list."""
        if isinstance(attack, list):
            yield from self._membership(attack)
        elif isinstance(attack, Cumulative):
            yield from self._reconstruction(attack)
        elif isinstance(attack, Relearning):
            yield from self._relearning(attack)
        elif isinstance(attack, Quantization | RepeatedSampling):
            yield from self._recovery(attack)
        else:
            raise InputError(f"a {type(attack).__name__} is a plug-in of unknown cost.")

    def _membership(self, attacks: Sequence[Any]) -> Iterator[tuple[Work, int]]:
        """Work of membership attacks: one pass over the documents for all; the gradient norm needs another, forward
        and backward.
        """
        planner, settings = self.planner, self.settings
        who = [candidate.record for candidate in membership_candidates(planner.benchmark, settings)]
        needs = {need for attack in attacks for need in attack.needs}
        reading = self._reading(document_sequences(who, planner.blueprint.tokenizer, self.trained.max_length))
        yield reading, BYTES_A_TOKEN * reading.tokens
        if "gradient_norm" in needs and reading.memory is not None:
            memory = replace(reading.memory, gradients=reading.memory.weights)
            yield replace(reading, flops=(1 + BACKWARD) * reading.flops, memory=memory), 0
        if "reference" in needs and settings.reference is not None:
            other = Planner(planner.benchmark, blueprint_of(settings.reference), planner.rendering, "cpu")
            documents = document_sequences(who, other.blueprint.tokenizer, self.trained.max_length)
            yield replace(self, planner=other)._reading(documents), 0

    def _reading(self, documents: Sequence[Sequence[TokenSequence]]) -> Work:
        rehearsal = self.planner.rehearsal("all", self.settings.weights, "fp32")
        reading = rehearsal.reading([*chain.from_iterable(documents)], self.settings.batch_size)
        return reading.times(self.planner.growth)

    def _reconstruction(self, attack: Cumulative) -> Iterator[tuple[Work, int]]:
        """Work of reconstruction: the questions are asked once at every context level."""
        benchmark = self.planner.benchmark
        sides = SIDES if attack.sides == "both" else (attack.sides,)
        names, plain, _ = attacked_questions(benchmark, benchmark.split(self.settings.split), sides)
        asked_like = check(
            EvaluateSettings,
            {
                "split": self.settings.split,
                "context": attack.context,
                "max_new_tokens": attack.max_new_tokens or None,
                "batch_size": self.settings.batch_size,
                "weights": self.settings.weights,
            },
        )
        for context in names.contexts():
            questions = [names.in_front(question, context) for question in plain]
            yield self.planner.answering(questions, asked_like), BYTES_AN_ANSWER * len(questions)

    def _measurer(self, attack: RecoveryAttack) -> StateMeasurer:
        """Measurer that only selects the questions, without a run."""
        missing: Any = None
        return StateMeasurer(missing, self.planner.benchmark, attack, self.settings, missing, True)

    def _measured(self, measurer: StateMeasurer, questions: Sequence[Question], times: int) -> tuple[Work, int]:
        """Work of answers and ranks of some questions in several states of the weights, with a copy of them in
        memory.
        """
        share = len(questions) / len(measurer.questions)
        ranking = self.planner.ranking(measurer.evaluation)
        once = self.planner.answering(questions, measurer.evaluation)
        once += ranking.times(share)
        return _beside_a_copy(once.times(times)), BYTES_AN_ANSWER * len(questions) * times

    def _recovery(self, attack: Quantization | RepeatedSampling) -> Iterator[tuple[Work, int]]:
        measurer = self._measurer(attack)
        if isinstance(attack, Quantization):
            yield self._measured(measurer, measurer.questions, 1 + len(attack.strengths))
            return
        attacked = measurer.attacked
        work = self.planner.answering(attacked, measurer.evaluation)
        yield work.times(attack.samples), BYTES_AN_ANSWER * attack.samples * len(attacked)

    def _relearning(self, attack: Relearning) -> Iterator[tuple[Work, int]]:
        """Work of relearning: the original model, some steps of each variant, and measurements in between."""
        measurer, planner, trained = self._measurer(attack), self.planner, self.trained
        split = planner.benchmark.split(self.settings.split)
        what = trained.train_on if attack.items == "trained" else attack.items
        for variant in attack.variants:
            learned, questions = relearning_subjects(measurer, attack, variant)
            if not learned:
                continue
            data = relearned_data(planner.benchmark, split, variant, learned, what)
            items = sequences(*data, planner.benchmark.record, planner.language_model, planner.rendering)
            epochs = math.ceil(attack.steps / -(-len(items) // attack.batch_size))
            plan = Plan({"relearn": items}, attack.batch_size, epochs, attack.seed, stop=attack.steps)
            mark = lambda model: choose_trainable(model, attack.trainable, seed=attack.seed)  # noqa: E731
            rehearsal = planner.rehearsal(attack.trainable, self.settings.weights, "bf16", mark)
            own = {field.name: field.default for field in fields(LoopSettings) if field.name not in ("lr", "seed")}
            loop = trained.model_copy(update={**own, "sharding": "none"})
            yield _beside_a_copy(rehearsal.training(plan, loop, NextToken(), on_gpu=planner.on_gpu)), 0
            yield self._measured(measurer, questions, 1)
            question_ids = {question.question_id for question in questions}
            after = [question for question in measurer.attacked if question.question_id in question_ids]
            yield self._measured(measurer, after, len(attack.points))


def _beside_a_copy(work: Work) -> Work:
    """Work with an additional copy of the model's own weights in memory, to restore them at the end."""
    memory = work.memory and replace(work.memory, reference=work.memory.weights)
    return replace(work, memory=memory)
