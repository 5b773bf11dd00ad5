"""A short training of a model in memory, measured before it, at its pauses, and undone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import torch

from medunlearn.attacks.recovery.attacked_model import AttackedModel
from medunlearn.attacks.recovery.restored_weights import restored
from medunlearn.data.records import Question
from medunlearn.models.sequences import TokenSequence
from medunlearn.progress import progress
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import train_loop
from medunlearn.training.loop_settings import LoopSettings
from medunlearn.training.merging import merged
from medunlearn.training.objectives import NextToken
from medunlearn.training.trainable import choose_trainable


@dataclass
class PausingPlan(Plan):
    """A training plan that pauses after given steps instead of epochs."""

    pauses: tuple[int, ...] = ()

    @classmethod
    def of(cls, items: Sequence[TokenSequence], batch_size: int, seed: int, pauses: tuple[int, ...]) -> PausingPlan:
        """The order of training on items up to the last pause."""
        epochs = math.ceil(pauses[-1] / -(-len(items) // batch_size))
        return cls({"relearn": items}, batch_size, epochs, seed, stop=pauses[-1], pauses=pauses)

    def ends_epoch(self, step: int) -> bool:
        """True if the run pauses after ``step`` steps."""
        return step in self.pauses


def relearn(
    model: AttackedModel,
    variant: str,
    questions: Sequence[Question],
    plan: PausingPlan,
    *,
    trainable: str,
    lr: float,
    before: str,
) -> pd.DataFrame:
    """The score table of questions before the training and at each pause of it.

    Args:
        variant: label of the scores.
        before: strength of the model as it is.
    """
    tables = [model.measure(questions, variant, before)]
    question_ids = {question.question_id for question in questions}
    attacked = [question for question in model.attacked if question.question_id in question_ids]
    live = model.live
    # An adapter is taken off again: the weights under it stay.
    adapter = trainable.partition(":")[0] == "lora"
    with restored(live, copied=not adapter), torch.random.fork_rng(devices=[]):
        whole = choose_trainable(live.model, trainable, seed=plan.seed)
        changed = replace(live, model=whole)
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
                    LoopSettings(lr=lr, schedule="constant", warmup_ratio=0.0, seed=plan.seed),
                    on_step=lambda row: advance(1, note=f"loss {row['loss']:.3f}"),
                    on_epoch=measure,
                )
        finally:
            if whole is not live.model:
                whole.unload()
    return pd.concat(tables, ignore_index=True)
