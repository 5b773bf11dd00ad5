"""Relearning: fine-tune a run's model for some steps in memory, and measure it in between."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import torch

from medunlearn.attacks.recovery.attacked_model import AttackedModel
from medunlearn.attacks.recovery.recovery_attacks import VariantScores
from medunlearn.attacks.recovery.relearning_attack import FORGET_HALF, RETAIN, Relearning
from medunlearn.attacks.recovery.restored_weights import restored
from medunlearn.config import TrainSettings, What
from medunlearn.data.records import Question, Record
from medunlearn.data.splits import Split, shuffled
from medunlearn.models.sequences import TokenSequence
from medunlearn.progress import progress
from medunlearn.results.runs import Run
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import train_loop
from medunlearn.training.loop_settings import LoopSettings
from medunlearn.training.merging import merged
from medunlearn.training.objectives import NextToken
from medunlearn.training.trainable import choose_trainable

SHARE_OF_PEAK = 0.1
"""Of the learning rate of a model's training, for its relearning."""
NOT_FINITE = "its weights are not finite, so nothing can be learned"
ALONE = "the forget set has a single subject: no other half is left to ask about"
NOTHING = "there is no item of the train fold to learn from"


@dataclass
class PausingPlan(Plan):
    """A training plan that pauses after given steps instead of epochs."""

    pauses: tuple[int, ...] = ()

    def ends_epoch(self, step: int) -> bool:
        """True if the run pauses after ``step`` steps."""
        return step in self.pauses


def relearn(model: AttackedModel, attack: Relearning) -> Iterator[VariantScores]:
    """For each variant: label, score table, and the reason for missing measurements."""
    for variant in attack.variants:
        learned, questions = relearning_subjects(model, attack, variant)
        if not learned:
            yield VariantScores(variant, None, ALONE if variant == FORGET_HALF else NOTHING)
        elif model.live.problems:
            yield VariantScores(variant, model.measure(questions, variant, attack.before), NOT_FINITE)
        else:
            yield VariantScores(variant, _variant(model, attack, variant, learned, questions))


def relearning_subjects(
    model: AttackedModel, attack: Relearning, variant: str
) -> tuple[frozenset[str], list[Question]]:
    """Subjects whose items are trained on, and the questions asked before and after."""
    benchmark, split = model.benchmark, _split_of(model)
    items = [
        *(record for record in benchmark.records if record.fold == "train"),
        *(benchmark.record[question.record_id] for question in benchmark.questions if question.fold == "train"),
    ]
    sides = benchmark.sides(split)
    subjects = {
        side: {benchmark.subject(item.record_id) for item in items if sides[item.record_id] == side}
        for side in ("retain", "forget")
    }
    if variant == RETAIN:
        return frozenset(subjects["retain"]), model.questions
    forgotten = shuffled(subjects["forget"], "relearning", attack.seed)
    learned = frozenset(forgotten[: len(forgotten) // 2])
    rest = [q for q in model.of_side("forget") if benchmark.subject(q.record_id) not in learned]
    return (learned if rest else frozenset()), rest


def _variant(
    model: AttackedModel, attack: Relearning, variant: str, learned: frozenset[str], questions: list[Question]
) -> pd.DataFrame:
    tables = [model.measure(questions, variant, attack.before)]
    question_ids = {question.question_id for question in questions}
    attacked = [question for question in model.attacked if question.question_id in question_ids]
    live = model.live
    # An adapter is taken off again: the weights under it stay.
    adapter = attack.trainable.partition(":")[0] == "lora"
    with restored(live, copied=not adapter), torch.random.fork_rng(devices=[]):
        whole = choose_trainable(live.model, attack.trainable, seed=attack.seed)
        changed = replace(live, model=whole)
        plan = plan_of(model, attack, variant, learned)
        points = iter(plan.pauses)

        def measure(epoch: int, check: Any) -> bool:
            check()
            with merged(whole):
                tables.append(model.measure(attacked, variant, str(next(points)), changed))
            whole.train()
            return False

        name = f"{model.run.label}: {variant}"
        try:
            with progress(name, plan.steps, quiet=model.quiet) as advance:
                train_loop(
                    whole,
                    live.tokenizer.pad_token_id,
                    NextToken(),
                    plan,
                    _loop(attack, rate_of(model.run, attack)),
                    on_step=lambda row: advance(1, note=f"loss {row['loss']:.3f}"),
                    on_epoch=measure,
                )
        finally:
            if whole is not live.model:
                whole.unload()
    return pd.concat(tables, ignore_index=True)


def plan_of(model: AttackedModel, attack: Relearning, variant: str, learned: frozenset[str]) -> PausingPlan:
    """The order of training on some subjects' items, in the form of the model's training."""
    items = relearned_items(model, attack, variant, learned)
    an_epoch = -(-len(items) // attack.batch_size)
    return PausingPlan(
        {"relearn": items},
        attack.batch_size,
        math.ceil(attack.steps / an_epoch),
        attack.seed,
        stop=attack.steps,
        pauses=attack.points,
    )


def relearned_items(
    model: AttackedModel, attack: Relearning, variant: str, learned: frozenset[str]
) -> Sequence[TokenSequence]:
    """Sequences of :func:`relearned_data`, in the form of the model's training."""
    data = relearned_data(model, variant, learned, items_of(model.run, attack))
    return model.sequences(*data, model.run.rendering(max_length=model.run.info.rendering["max_length"]))


def relearned_data(
    model: AttackedModel, variant: str, learned: frozenset[str], what: What
) -> tuple[list[Record], list[Question]]:
    """Records and questions of the train fold about these subjects; from the retain set, none that is forgotten."""
    benchmark = model.benchmark
    side, sides = ("retain" if variant == RETAIN else "forget"), benchmark.sides(_split_of(model))
    records, questions = model.training_data(what)

    def is_learned(item: Record | Question) -> bool:
        return sides[item.record_id] == side and benchmark.subject(item.record_id) in learned

    return [*filter(is_learned, records)], [*filter(is_learned, questions)]


def _split_of(model: AttackedModel) -> Split:
    return model.benchmark.split(model.settings.split)


def trained_settings(run: Run) -> Mapping[str, Any]:
    """Settings of the training run of a run's model; empty if not recorded."""
    return {} if run.training is None else run.training.info.config


def rate_of(run: Run, attack: Relearning) -> float:
    """The learning rate: the attack's own, else a fraction of the peak of the model's training.

    AdamW's first steps move every weight by the rate itself. At the peak rate, five steps destroy a small model's
    knowledge of everybody, even the target's, and reveal nothing about forgetting.
    """
    if attack.lr is not None:
        return attack.lr
    trained = trained_settings(run).get("lr")
    return float(TrainSettings.model_fields["lr"].default) if trained is None else SHARE_OF_PEAK * float(trained)


def items_of(run: Run, attack: Relearning) -> What:
    """Training data: the attack's setting, else that of the model's training, else records and questions."""
    if attack.items != "trained":
        return attack.items
    own: What = trained_settings(run).get("train_on", "both")
    return own


def _loop(attack: Relearning, lr: float) -> LoopSettings:
    return LoopSettings(lr=lr, schedule="constant", warmup_ratio=0.0, seed=attack.seed)
