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
        schedule: after the warm-up, ``cosine`` and ``linear`` would reach ``schedule_end`` one step after the last;
            ``constant`` stays.
        schedule_end: share of ``lr``, 0-1.
        warmup_ratio: share of all steps in which the rate rises linearly from 0.
        weight_decay: weight decay of AdamW.
        clip: largest norm of the gradient; 0 for none.
        micro_batch_size: sequences per side in one pass; a step's gradient is accumulated over its passes.
        micro_batch_tokens: the most tokens per side in one pass, with shared text counted once; None for no bound.
            A longer sequence has its own pass.
        precision: ``bf16`` runs matrix products in bfloat16 by autocast without changing weights; ``auto`` uses it
            if the device is fast in it.
        checkpoint_seconds: least time between two checkpoints.
        optimizer: AdamW with full-precision moments, 8-bit moments (a quarter of the memory), or paged 8-bit
            moments that move to the host when the GPU is full (both bitsandbytes). ``sgd`` is plain gradient
            descent.
        offload: ``optimizer`` keeps AdamW's moments in host memory and steps there; no effect on a CPU.
        gradient_checkpointing: layers keep only their inputs and are recomputed in the backward pass.
        seed: seed of dropout.
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
    """The learning rate of step ``step`` (0 is the first) of ``steps``."""
    warmup = math.ceil(settings.warmup_ratio * steps)
    if step < warmup:
        return settings.lr * (step + 1) / warmup
    if settings.schedule == "constant" or steps == warmup:
        return settings.lr
    share = (step - warmup) / (steps - warmup)
    remaining = 1 - share if settings.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * share))
    return settings.lr * (settings.schedule_end + (1 - settings.schedule_end) * remaining)
