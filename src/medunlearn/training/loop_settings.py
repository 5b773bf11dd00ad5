"""Optimisation settings and the learning-rate schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from medunlearn.models.precision import Precision

Schedule = Literal["cosine", "linear", "constant"]
OptimizerName = Literal["adamw", "adamw_8bit", "paged_adamw_8bit", "sgd"]
Offload = Literal["none", "optimizer"]


@dataclass(frozen=True)
class LoopSettings:
    """Optimisation settings.

    Attributes:
        lr: peak learning rate of AdamW.
        schedule: after the warm-up, ``cosine`` and ``linear`` fall to what would be ``schedule_end`` one step after
            the last; ``constant`` stays.
        schedule_end: share of ``lr``, 0-1.
        warmup_ratio: share of all steps in which the rate rises linearly from 0.
        weight_decay: of AdamW.
        clip: largest norm of the gradient; 0 for none.
        micro_batch_size: sequences a side in one pass; a step's gradient is accumulated over its passes.
        micro_batch_tokens: the most tokens per side in one pass, shared text counted once; None for no bound. A
            longer sequence is alone.
        precision: ``bf16`` runs matrix products in bfloat16 by autocast and keeps weights as they are; ``auto``
            does where the device is fast in it.
        checkpoint_seconds: at least so long between two checkpoints.
        optimizer: AdamW with whole moments, with moments in 8 bits (a quarter of the memory), or with such moments
            that move to the host when the GPU is full; the latter two by bitsandbytes. ``sgd`` steps along the
            gradient itself, without moments.
        offload: ``optimizer`` keeps AdamW's moments in the host's memory and steps there; on a CPU nothing changes.
        gradient_checkpointing: layers keep their inputs alone and run again in the backward pass.
        seed: of dropout, where the model has any.
    """

    lr: float
    schedule: Schedule = "cosine"
    schedule_end: float = 0.0
    warmup_ratio: float = 0.03
    weight_decay: float = 0.0
    clip: float = 1.0
    micro_batch_size: int = 8
    micro_batch_tokens: int | None = None
    precision: Precision = "auto"
    checkpoint_seconds: float = 60.0
    optimizer: OptimizerName = "adamw"
    offload: Offload = "none"
    gradient_checkpointing: bool = False
    seed: int = 0


def learning_rate(step: int, steps: int, settings: LoopSettings) -> float:
    """The rate of step ``step`` (0 is the first) of ``steps``."""
    warmup = math.ceil(settings.warmup_ratio * steps)
    if step < warmup:
        return settings.lr * (step + 1) / warmup
    if settings.schedule == "constant" or steps == warmup:
        return settings.lr
    share = (step - warmup) / (steps - warmup)
    remaining = 1 - share if settings.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * share))
    return settings.lr * (settings.schedule_end + (1 - settings.schedule_end) * remaining)
