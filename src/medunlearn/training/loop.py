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

from medunlearn.errors import InputError, NonFiniteLossError, ProcessError
from medunlearn.models.packing import make_batch
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence
from medunlearn.seeds import stable_seed
from medunlearn.training.checkpoint import Resumed, load_checkpoint, save_checkpoint
from medunlearn.training.interrupt import Interruption
from medunlearn.training.objectives import Objective
from medunlearn.training.plan import Plan, micro_batches, share
from medunlearn.training.processes import ALONE, Processes
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
    processes: Processes = ALONE,
    on_step: Callable[[dict[str, Any]], None] = lambda row: None,
) -> History:
    """Train the model's trainable parameters in place.

    Several processes train copies of one model: each computes the gradient of its share of a step, over the
    means of the whole step, and the sum of the shares moves all copies alike. So their number changes no number.

    Args:
        pad: any token id; fills the right of a batch.
        checkpoints: folder of the run's checkpoints; a run that was cut off goes on from the newest, bit for
            bit as if it had never stopped. None keeps none.
        keep_final: write a checkpoint after the last step too, for a run of several phases.
        reference: the model before training, for objectives that ask for it; made before this call.
        processes: that this one works with; every one of them makes this call, with a model of equal weights.
        on_step: called in the main process with each new row of the history.

    Returns:
        One row a step: step, epoch, lr, every loss term, loss, gradient norm, tokens, seconds.

    Raises:
        NonFiniteLossError: a term is NaN or infinite, or the gradient is.
        FrozenParametersError: after two steps or more, a trained parameter did not move.
        KeyboardInterrupt: passed on, after a checkpoint.
        ProcessError: another process failed or was lost.
    """
    tensors = trained(model)
    before = checksums(tensors)
    optimizer = torch.optim.AdamW(tensors.values(), lr=settings.lr, weight_decay=settings.weight_decay)
    training = _Training(model, pad, objective, plan, settings, optimizer, reference, processes)
    resumed = processes.together(lambda: load_checkpoint(checkpoints, model, optimizer) if checkpoints else None)
    step, history = (resumed.step, resumed.history) if resumed else (0, [])
    _check_same_step(processes, step, checkpoints)
    likelihoods = reference.sequence_nll if reference else {}
    likelihoods.update(resumed.sequence_nll if resumed else {})

    def save() -> None:
        if checkpoints:
            state = Resumed(step, history, likelihoods)
            processes.on_main(lambda: save_checkpoint(checkpoints, model, optimizer, state))

    def end_step(rows: History) -> bool:
        """Say how it went, stop if asked to; whether a checkpoint is due, by the main process's clock."""
        for row in rows if processes.main else []:
            on_step(row)
        interruption.check()
        return time.monotonic() - saved_at > settings.checkpoint_seconds

    model.train()
    saved_at, kept = time.monotonic(), step
    with Interruption() as interruption:
        try:
            processes.each(lambda: end_step(history))
            while step < plan.steps:
                history.append(_step(training, step))
                step += 1
                if processes.each(lambda: end_step(history[-1:]))[0]:
                    save()
                    saved_at, kept = time.monotonic(), step
        except (KeyboardInterrupt, NonFiniteLossError):
            # A step changes weights only at its very end: what stands here is the state after `step` steps.
            if step > kept and not interruption.torn:
                save()
            raise
        finally:
            model.eval()
    if step >= 2:
        check_moved(before, tensors)
        _check_same_weights(processes, tensors)
    if keep_final and step > kept:
        save()
    return history


@dataclass(frozen=True)
class _Training:
    """What every step of a run works with."""

    model: Any
    pad: int
    objective: Objective
    plan: Plan
    settings: LoopSettings
    optimizer: torch.optim.Optimizer
    reference: Reference | None
    processes: Processes


def _step(training: _Training, number: int) -> dict[str, Any]:
    started = time.perf_counter()
    settings, plan, optimizer = training.settings, training.plan, training.optimizer
    sequences = plan.step(number)
    optimizer.zero_grad(set_to_none=True)
    terms = _gradients(training, sequences, number)
    norm = torch.nn.utils.clip_grad_norm_(trained(training.model).values(), settings.clip or math.inf)
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


@dataclass(frozen=True)
class _Share:
    """What one process made of its share of a step, besides the gradients.

    Attributes:
        terms: summed over its micro-batches; up to the first that is not finite.
        reached: places of the parameters that got a gradient.
        likelihoods: the reference's, of the sequences that it met for the first time.
    """

    terms: dict[str, float]
    reached: list[int]
    likelihoods: dict[str, float]


def _gradients(
    training: _Training, sequences: Mapping[str, Sequence[TokenSequence]], number: int
) -> dict[str, float]:
    """Gradients of a step, left in the parameters, and its terms; both summed over all processes."""
    tensors, processes = list(trained(training.model).values()), training.processes
    known = training.reference.sequence_nll if training.reference else {}

    def work() -> _Share:
        before = len(known)
        terms = _accumulate(training, sequences, number)
        reached = [place for place, tensor in enumerate(tensors) if tensor.grad is not None]
        return _Share(terms, reached, dict(list(known.items())[before:]))

    shares = processes.each(work)
    summed: dict[str, float] = {}
    for part in shares:
        for name, value in part.terms.items():
            summed[name] = summed.get(name, 0.0) + value
        for key, likelihood in part.likelihoods.items():
            known.setdefault(key, likelihood)
    _check_finite(summed, number)
    processes.sum_(_gradient(tensors[place]) for place in sorted({p for part in shares for p in part.reached}))
    return summed


def _gradient(tensor: Tensor) -> Tensor:
    """The gradient of a parameter; 0 where only other processes' shares reach it."""
    if tensor.grad is None:
        tensor.grad = torch.zeros_like(tensor)
    return tensor.grad


def _accumulate(
    training: _Training, sequences: Mapping[str, Sequence[TokenSequence]], number: int
) -> dict[str, float]:
    """Gradients and terms of this process's share of a step, summed over its micro-batches."""
    model, settings, processes = training.model, training.settings, training.processes
    device = next(model.parameters()).device
    totals = {side: Totals.of(chosen) for side, chosen in sequences.items()}
    summed: dict[str, float] = {}
    pieces = micro_batches(sequences, settings.micro_batch_size, processes.world)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for place, micro in share(pieces, processes.rank, processes.world):
            torch.manual_seed(stable_seed("dropout", settings.seed, number, place))
            with _autocast(device, settings.precision):
                views = {
                    side: ModelView(
                        model, make_batch(model, chosen, training.pad, device), totals[side], training.reference
                    )
                    for side, chosen in micro.items()
                }
                terms = training.objective.terms(views)
                loss = torch.stack(list(terms.values())).sum()
            for name, value in terms.items():
                summed[name] = summed.get(name, 0.0) + float(value.detach())
            if not all(math.isfinite(value) for value in summed.values()):
                break
            torch.autograd.backward(loss)
    return summed


def _autocast(device: torch.device, precision: Precision) -> Any:
    if precision == "fp32":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


def _check_finite(terms: Mapping[str, float], number: int) -> None:
    bad = [name for name, value in terms.items() if not math.isfinite(value)]
    if bad:
        values = " and ".join(f"{name!r} became {terms[name]}" for name in bad)
        raise NonFiniteLossError(
            f"The loss term {values} at step {number}. The model is kept as it was before this step. Lower lr, "
            "train fewer epochs, or give the term less weight."
        )


def _check_same_step(processes: Processes, step: int, checkpoints: Path | None) -> None:
    steps = processes.each(lambda: step)
    if len(set(steps)) > 1:
        raise InputError(
            f"The processes find different checkpoints in {checkpoints} (after steps {', '.join(map(str, steps))}). "
            "Give them an --out that all of them see, on a shared file system."
        )


def _check_same_weights(processes: Processes, tensors: Mapping[str, Tensor]) -> None:
    if processes.world > 1 and len({tuple(found.items()) for found in processes.each(lambda: checksums(tensors))}) > 1:
        raise ProcessError(
            "The processes ended with different weights, although all saw the same gradients. Their devices or "
            "versions of torch differ; use machines of one kind."
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
