"""The loop. Everything that trains goes through it; only the objective and the sequences differ."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from medunlearn.errors import InputError, NonFiniteLossError, OutOfMemoryError, ProcessError
from medunlearn.models.reference import Reference
from medunlearn.training.checkpoint import Resumed, load_checkpoint, save_checkpoint
from medunlearn.training.fitting import MicroBatch, naming_step
from medunlearn.training.gradients import Gradients, Training, clip, gradients
from medunlearn.training.interrupt import Interruption
from medunlearn.training.memory import recomputing
from medunlearn.training.objectives import Objective
from medunlearn.training.optimizers import make_optimizer
from medunlearn.training.plan import Plan
from medunlearn.training.processes import ALONE, Processes
from medunlearn.training.rate import step_by
from medunlearn.training.settings import LoopSettings
from medunlearn.training.sharding import is_sharded, own_parts
from medunlearn.training.trainable import check_moved, checksums, trained

History = list[dict[str, Any]]
OnEpoch = Callable[[int, Callable[[], None]], bool]


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
    on_epoch: OnEpoch | None = None,
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
        on_epoch: called in every process with the number of epochs done: before the first step with 0, then after
            each epoch, once a checkpoint is written; a run that was cut off there calls it again. It leaves the
            weights as they are, and ends the run there where it returns True, in all processes alike. Long work in
            it calls now and then what it is given besides, which raises KeyboardInterrupt where the run is to stop.

    Returns:
        One row a step: step, epoch, lr, every loss term, loss, gradient norm, tokens, sequences a side in one of
        its passes (fewer than the settings say once memory ran out), seconds.

    Raises:
        ConfigError: an optimizer that is not installed, or a model without layers to recompute.
        NonFiniteLossError: a term is NaN or infinite, or the gradient is.
        FrozenParametersError: a trained parameter did not move.
        OutOfMemoryError: memory runs out with a single sequence a side, or outside the passes.
        KeyboardInterrupt: passed on, after a checkpoint.
        ProcessError: another process failed or was lost.
    """
    tensors, sharded = trained(model), any(is_sharded(tensor) for tensor in model.parameters())
    parts = own_parts(tensors)
    before = checksums(parts)
    optimizer = make_optimizer(parts.values(), settings)
    micro_batch = MicroBatch(settings.micro_batch_size)
    training = Training(
        model, pad, objective, plan, settings, micro_batch, optimizer, parts, reference, processes, sharded
    )
    resumed = processes.together(
        lambda: load_checkpoint(checkpoints, model, optimizer, processes) if checkpoints else None
    )
    step, history = (resumed.step, resumed.history) if resumed else (0, [])
    _check_same_step(processes, step, checkpoints)
    if history:
        micro_batch.size = history[-1].get("micro_batch_size", micro_batch.size)

    def save() -> None:
        if checkpoints:
            state = Resumed(step, history, processes.world if sharded else 1)
            save_checkpoint(checkpoints, model, optimizer, state, processes)

    def end_step(rows: History) -> bool:
        """Say how it went, stop if asked to; whether a checkpoint is due, by the main process's clock."""
        for row in rows if processes.main else []:
            on_step(row)
        interruption.check()
        return time.monotonic() - saved_at > settings.checkpoint_seconds

    def end_epoch() -> bool:
        """Whether the run ends here."""
        if on_epoch is None or step % plan.steps_an_epoch:
            return False
        optimizer.zero_grad(set_to_none=True)
        done = step // plan.steps_an_epoch
        if processes.world > 1:
            # One that broke off by itself would leave the others waiting for it.
            return on_epoch(done, interruption.check)
        with interruption.at_once():
            return on_epoch(done, interruption.check)

    model.train()
    saved_at, kept = time.monotonic(), step
    with Interruption() as interruption, recomputing(model, settings.gradient_checkpointing):
        try:
            processes.each(lambda: end_step(history))
            ended = end_epoch()
            while step < plan.steps and not ended:
                with naming_step(step, kept if checkpoints else 0):
                    history.append(_step(training, step, history[-1]["lr"] if history else None))
                step += 1
                due = processes.each(lambda: end_step(history[-1:]))[0]
                if due or (on_epoch and step % plan.steps_an_epoch == 0):
                    save()
                    saved_at, kept = time.monotonic(), step
                ended = end_epoch()
        except (KeyboardInterrupt, NonFiniteLossError, OutOfMemoryError) as error:
            # A step changes weights only at its very end: what stands here is the state after `step` steps.
            if step > kept and not interruption.torn and not getattr(error, "torn", False):
                save()
            raise
        finally:
            model.eval()
    if step:
        check_moved(_due_to_move(before, step), parts, processes)
        _check_same_weights(processes, {name: tensor for name, tensor in tensors.items() if not is_sharded(tensor)})
    if keep_final and step > kept:
        save()
    return history


def _due_to_move(before: Mapping[str, int], steps: int) -> dict[str, int]:
    """What so many steps move: the first moves no A of a LoRA adapter, whose gradient is 0 as long as its B is."""
    return {name: bits for name, bits in before.items() if steps > 1 or ".lora_A." not in name}


def _step(training: Training, number: int, last_rate: float | None) -> dict[str, Any]:
    started = time.perf_counter()
    settings, plan, optimizer = training.settings, training.plan, training.optimizer
    sequences = plan.step(number)
    optimizer.zero_grad(set_to_none=True)
    found = gradients(training, sequences, number)
    # A method that weighs the gradients itself has given their sum the length it is to have.
    norm = clip(training, math.inf if found.lengths else settings.clip or math.inf)
    if not torch.isfinite(norm):
        raise NonFiniteLossError(
            f"The gradient is not finite at step {number} although the loss is ({_shown(found.terms)}). The model "
            "is kept as it was before this step. Lower lr, or use precision=fp32."
        )
    rate = step_by(training, sequences, number, found.terms, last_rate)
    return {
        "step": number + 1,
        "epoch": plan.epoch(number + 1),
        "lr": rate,
        **_losses(found),
        "gradient_norm": float(norm),
        "tokens": sum(len(sequence.ids) for side in sequences.values() for sequence in side),
        "micro_batch_size": training.micro_batch.size,
        "seconds": time.perf_counter() - started,
    }


def _losses(found: Gradients) -> dict[str, float]:
    return {
        "loss": sum(found.terms.values()),
        **{f"loss/{name}": value for name, value in found.terms.items()},
        **{f"gradient_norm/{name}": length for name, length in found.lengths.items()},
    }


def _check_same_step(processes: Processes, step: int, checkpoints: Path | None) -> None:
    steps = processes.each(lambda: step)
    if len(set(steps)) > 1:
        raise InputError(
            f"The processes find different checkpoints in {checkpoints} (after steps {steps}). Give them an --out "
            "that all of them see, on a shared file system."
        )


def _check_same_weights(processes: Processes, tensors: Mapping[str, Tensor]) -> None:
    if processes.world == 1:
        return
    first, *others = processes.each(lambda: checksums(tensors))
    if any(other != first for other in others):
        raise ProcessError(
            "The processes ended with different weights, although all saw the same gradients. Their devices or "
            "versions of torch differ; use machines of one kind."
        )


def _shown(terms: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in terms.items())
