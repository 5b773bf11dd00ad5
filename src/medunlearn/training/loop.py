"""The loop. Everything that trains goes through it; only the objective and the sequences differ."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from medunlearn.errors import NonFiniteLossError
from medunlearn.models.feeding import make_batch
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence
from medunlearn.seeds import stable_seed
from medunlearn.training.checkpoint import Resumed, load_checkpoint, save_checkpoint
from medunlearn.training.interrupt import Interruption
from medunlearn.training.objectives import Objective
from medunlearn.training.plan import Plan, micro_batches
from medunlearn.training.trainable import check_moved, checksums, trained
from medunlearn.training.views import ModelView, Totals

Precision = Literal["bf16", "fp32"]
Schedule = Literal["cosine", "constant"]
History = list[dict[str, Any]]


@dataclass(frozen=True)
class LoopSettings:
    """How to optimise.

    Attributes:
        lr: peak learning rate of AdamW.
        schedule: after the warm-up, ``cosine`` falls to what would be 0 one step after the last; ``constant``
            stays.
        warmup_ratio: share of all steps in which the rate rises linearly from 0.
        weight_decay: of AdamW.
        clip: largest norm of the gradient; 0 for none.
        micro_batch_size: sequences a side in one pass; a step's gradient is accumulated over its passes.
        precision: ``bf16`` runs matrix products in bfloat16 by autocast and keeps weights as they are.
        checkpoint_seconds: at least so long between two checkpoints.
        seed: of dropout, where the model has any.
    """

    lr: float
    schedule: Schedule = "cosine"
    warmup_ratio: float = 0.03
    weight_decay: float = 0.0
    clip: float = 1.0
    micro_batch_size: int = 8
    precision: Precision = "bf16"
    checkpoint_seconds: float = 60.0
    seed: int = 0


def train_loop(
    model: Any,
    pad: int,
    objective: Objective,
    plan: Plan,
    settings: LoopSettings,
    *,
    checkpoints: Path | None = None,
    keep_final: bool = False,
    reference: Reference | None = None,
    on_step: Callable[[dict[str, Any]], None] = lambda row: None,
) -> History:
    """Train the model's trainable parameters in place.

    Args:
        pad: any token id; fills the right of a batch.
        checkpoints: folder of the run's checkpoints; a run that was cut off goes on from the newest, bit for
            bit as if it had never stopped. None keeps none.
        keep_final: write a checkpoint after the last step too, for a run of several phases.
        reference: the model before training, for objectives that ask for it; made before this call.
        on_step: called with each new row of the history.

    Returns:
        One row a step: step, epoch, lr, every loss term, loss, gradient norm, tokens, seconds.

    Raises:
        NonFiniteLossError: a term is NaN or infinite, or the gradient is.
        FrozenParametersError: after two steps or more, a trained parameter did not move.
        KeyboardInterrupt: passed on, after a checkpoint.
    """
    tensors = trained(model)
    before = checksums(tensors)
    optimizer = torch.optim.AdamW(tensors.values(), lr=settings.lr, weight_decay=settings.weight_decay)
    resumed = load_checkpoint(checkpoints, model, optimizer) if checkpoints else None
    step, history = (resumed.step, resumed.history) if resumed else (0, [])
    likelihoods = reference.sequence_nll if reference else {}
    likelihoods.update(resumed.sequence_nll if resumed else {})
    for row in history:
        on_step(row)

    def save() -> None:
        if checkpoints:
            save_checkpoint(checkpoints, model, optimizer, Resumed(step, history, likelihoods))

    model.train()
    saved_at, kept = time.monotonic(), step
    with Interruption() as interruption:
        try:
            while step < plan.steps:
                interruption.check()
                history.append(_step(model, pad, objective, plan, settings, optimizer, reference, step))
                step += 1
                on_step(history[-1])
                if time.monotonic() - saved_at > settings.checkpoint_seconds:
                    save()
                    saved_at, kept = time.monotonic(), step
            interruption.check()
        except (KeyboardInterrupt, NonFiniteLossError):
            # A step changes weights only at its very end: what stands here is the state after `step` steps.
            if step > kept and not interruption.torn:
                save()
            raise
        finally:
            model.eval()
    if step >= 2:
        check_moved(before, tensors)
    if keep_final and step > kept:
        save()
    return history


def _step(
    model: Any,
    pad: int,
    objective: Objective,
    plan: Plan,
    settings: LoopSettings,
    optimizer: torch.optim.Optimizer,
    reference: Reference | None,
    number: int,
) -> dict[str, Any]:
    started = time.perf_counter()
    sequences = plan.step(number)
    optimizer.zero_grad(set_to_none=True)
    terms = _accumulate(model, pad, objective, sequences, settings, reference, number)
    norm = torch.nn.utils.clip_grad_norm_(trained(model).values(), settings.clip or math.inf)
    if not torch.isfinite(norm):
        raise NonFiniteLossError(
            f"The gradient is not finite at step {number} although the loss is ({_shown(terms)}). The model is "
            "kept as it was before this step. Lower lr, or use precision=fp32."
        )
    rate = learning_rate(number, plan.steps, settings)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return {
        "step": number + 1,
        "epoch": plan.epoch(number + 1),
        "lr": rate,
        "loss": sum(terms.values()),
        **{f"loss/{name}": value for name, value in terms.items()},
        "gradient_norm": float(norm),
        "tokens": sum(len(sequence.ids) for side in sequences.values() for sequence in side),
        "seconds": time.perf_counter() - started,
    }


def _accumulate(
    model: Any,
    pad: int,
    objective: Objective,
    sequences: Mapping[str, Sequence[TokenSequence]],
    settings: LoopSettings,
    reference: Reference | None,
    number: int,
) -> dict[str, float]:
    """Gradients and terms of one step, summed over its micro-batches."""
    device = next(model.parameters()).device
    totals = {side: Totals.of(chosen) for side, chosen in sequences.items()}
    summed: dict[str, float] = {}
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(stable_seed("dropout", settings.seed, number))
        for micro in micro_batches(sequences, settings.micro_batch_size):
            with _autocast(device, settings.precision):
                views = {
                    side: ModelView(model, make_batch(model, chosen, pad, device), totals[side], reference)
                    for side, chosen in micro.items()
                }
                terms = objective.terms(views)
                loss = torch.stack(list(terms.values())).sum()
            _check_finite(terms, number)
            torch.autograd.backward(loss)
            for name, value in terms.items():
                summed[name] = summed.get(name, 0.0) + float(value.detach())
    return summed


def _autocast(device: torch.device, precision: Precision) -> Any:
    if precision == "fp32":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


def _check_finite(terms: Mapping[str, Tensor], number: int) -> None:
    bad = [name for name, value in terms.items() if not torch.isfinite(value)]
    if bad:
        values = " and ".join(f"{name!r} became {float(terms[name].detach())}" for name in bad)
        raise NonFiniteLossError(
            f"The loss term {values} at step {number}. The model is kept as it was before this step. Lower lr, "
            "train fewer epochs, or give the term less weight."
        )


def _shown(terms: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in terms.items())


def learning_rate(step: int, steps: int, settings: LoopSettings) -> float:
    """The rate of step ``step`` (0 is the first) of ``steps``."""
    warmup = math.ceil(settings.warmup_ratio * steps)
    if step < warmup:
        return settings.lr * (step + 1) / warmup
    if settings.schedule == "constant" or steps == warmup:
        return settings.lr
    return settings.lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))
