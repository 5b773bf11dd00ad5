"""The training loop, shared by all training; only the objective and the sequences differ."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from medunlearn.errors import ConfigError, NonFiniteLossError, OutOfMemoryError, ProcessError
from medunlearn.methods.hooks import gradient_rule_of, is_minimised, perturbation_of
from medunlearn.models.reference import Reference
from medunlearn.training.batch_plan import Plan
from medunlearn.training.checkpoint import Resumed, checkpoint_of, load_checkpoint, save_checkpoint
from medunlearn.training.gradients import Training, clip, gradients
from medunlearn.training.interrupt import Interruption
from medunlearn.training.loop_settings import LoopSettings
from medunlearn.training.method_state import MethodState, read_method_state
from medunlearn.training.micro_batch import MicroBatch, naming_step
from medunlearn.training.objectives import Objective, method_of
from medunlearn.training.optimizer_step import take_step
from medunlearn.training.optimizers import make_optimizer
from medunlearn.training.processes import ALONE, Processes
from medunlearn.training.sharding import is_sharded, own_parts
from medunlearn.training.trainable import check_moved, checksums, gradient_checkpointing, trained

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

    Several processes train copies of one model: each computes the gradient of its share of a step, normalised by
    the whole step, and all copies apply the sum. So results do not depend on their number.

    Args:
        pad: any token id, for right padding.
        checkpoints: folder of the run's last two checkpoints; an interrupted run resumes from the newest, or the
            previous one if that is broken, bit for bit. None: no checkpoints.
        keep_final: write a checkpoint after the last step too, for a run of several phases.
        reference: the model before training, for objectives that use it; created before this call.
        processes: the processes of the run; each makes this call with equal weights.
        on_step: called on rank 0 with each new row of the history.
        on_epoch: called in every process with the number of completed epochs: before the first step with 0, then
            after each epoch, once a checkpoint is written; an interrupted call is repeated. It must not change the
            weights; returning True (in all processes) ends the run. Long work in it must regularly call its second
            argument, which raises KeyboardInterrupt to stop the run.

    Returns:
        One row per step: step, epoch, lr, every loss term, loss, gradient norm, tokens, sequences per side in a
            pass (reduced after memory ran out), seconds.

    Raises:
        ConfigError: an optimizer that is not installed, or a model without layers to recompute.
        NonFiniteLossError: a term is NaN or infinite, or the gradient is.
        FrozenParametersError: a trained parameter did not change.
        OutOfMemoryError: memory runs out with a single sequence per side, or outside the passes.
        KeyboardInterrupt: re-raised after a checkpoint.
        ProcessError: another process failed or was lost.
    """
    sharded = any(is_sharded(tensor) for tensor in model.parameters())
    if sharded:
        _refuse_sharded(method_of(objective))
    parts = own_parts(trained(model))
    optimizer = make_optimizer(parts.values(), settings)
    micro_batch = MicroBatch(settings.micro_batch_size, max(plan.ratios.values(), default=1))
    training = Training(
        model, pad, objective, plan, settings, micro_batch, optimizer, parts, reference, processes, sharded
    )
    run = _Run(training, checkpoints, on_step, on_epoch)
    before = checksums(parts)
    run.resume()
    model.train()
    with Interruption() as interruption, gradient_checkpointing(model, settings.gradient_checkpointing):
        try:
            run.train(interruption)
        finally:
            model.eval()
    if run.step:
        # The first step leaves A of a LoRA adapter, as B is still 0.
        expected_changes = {name: bits for name, bits in before.items() if run.step > 1 or ".lora_A." not in name}
        check_moved(expected_changes, parts, processes)
        whole = {name: tensor for name, tensor in trained(model).items() if not is_sharded(tensor)}
        _check_same_weights(processes, whole)
    if keep_final:
        run.save()
    return run.history


class _Run:
    """Progress of a training run: step, history, and the newest checkpoint."""

    def __init__(
        self,
        training: Training,
        checkpoints: Path | None,
        on_step: Callable[[dict[str, Any]], None],
        on_epoch: OnEpoch | None,
    ) -> None:
        self.training, self.checkpoints = training, checkpoints
        self.on_step, self.on_epoch = on_step, on_epoch
        self.method = MethodState(training.objective)
        self.step = 0
        self.history: History = []
        self._saved_step, self._saved_at = 0, time.monotonic()

    def resume(self) -> None:
        """Restore the newest usable checkpoint, if there is one."""
        training, folder = self.training, self.checkpoints
        state = load_checkpoint(folder, training.model, training.optimizer, training.processes) if folder else None
        if state:
            self.step, self.history = state.step, state.history
        if state and folder:
            device = next(iter(training.parts.values())).device
            self.method.restore(read_method_state(checkpoint_of(folder, state.step)), device)
        if state and state.history:
            size = training.micro_batch.size
            last_size = state.history[-1].get("micro_batch_size", size)
            # What memory left room for is taken again, unless the settings ask for another size than they did.
            same = state.micro_batch_size in (0, size)
            training.micro_batch.size = min(last_size, size) if same else size
        self._saved_step = self.step

    def train(self, interruption: Interruption) -> None:
        """Train to the end of the plan, or until :attr:`on_epoch` ends the run.

        If interrupted, completed steps are saved in a checkpoint.
        """
        processes, plan = self.training.processes, self.training.plan
        self._saved_at = time.monotonic()
        try:
            with processes.barrier():
                self._end_step(self.history, interruption)
            has_ended = self._end_epoch(interruption)
            while self.step < plan.steps and not has_ended:
                with naming_step(self.step, self._saved_step if self.checkpoints else 0):
                    last_rate = self.history[-1]["lr"] if self.history else None
                    self.history.append(_step(self.training, self.step, last_rate))
                    if not plan.rests(self.step):
                        self.method.after_step(self.history[-1])
                self.step += 1
                with processes.barrier():
                    is_due = self._end_step(self.history[-1:], interruption)
                if processes.broadcast(is_due) or (self.on_epoch and plan.ends_epoch(self.step)):
                    self.save()
                has_ended = self._end_epoch(interruption)
        except (KeyboardInterrupt, NonFiniteLossError, OutOfMemoryError) as error:
            # A step changes weights only at its very end: the state in memory is that after `step` steps.
            if not interruption.torn and not getattr(error, "torn", False):
                self.save()
            raise

    def save(self) -> None:
        """Write a checkpoint, unless the newest one is of this step."""
        if self.checkpoints and self.step > self._saved_step:
            training = self.training
            shards = training.processes.world if training.sharded else 1
            state = Resumed(self.step, self.history, shards, training.settings.micro_batch_size)
            how = training.optimizer, state, training.processes, self.method.tensors()
            save_checkpoint(self.checkpoints, training.model, *how)
        self._saved_at, self._saved_step = time.monotonic(), self.step

    def _end_step(self, rows: History, interruption: Interruption) -> bool:
        """Report rows and stop if requested; returns whether a checkpoint is due, by rank 0's clock."""
        for row in rows if self.training.processes.main else []:
            self.on_step(row)
        interruption.check()
        return time.monotonic() - self._saved_at > self.training.settings.checkpoint_seconds

    def _end_epoch(self, interruption: Interruption) -> bool:
        """Evaluate the epoch; True if the run ends here."""
        plan = self.training.plan
        if self.on_epoch is None or not plan.ends_epoch(self.step):
            return False
        self.training.optimizer.zero_grad(set_to_none=True)
        epochs = -(-self.step // plan.steps_an_epoch)
        if self.training.processes.world > 1:
            # One that broke off by itself would leave the others waiting for it.
            return self.on_epoch(epochs, interruption.check)
        with interruption.at_once():
            return self.on_epoch(epochs, interruption.check)


def _step(training: Training, number: int, last_rate: float | None) -> dict[str, Any]:
    started = time.perf_counter()
    settings, plan, optimizer = training.settings, training.plan, training.optimizer
    sequences = plan.step(number)
    optimizer.zero_grad(set_to_none=True)
    result = gradients(training, sequences, number)
    # A method that weighs the gradients itself has given their sum the length it is to have.
    norm = clip(training, math.inf if result.lengths else settings.clip or math.inf)
    if not torch.isfinite(norm):
        raise NonFiniteLossError(
            f"The gradient is not finite at step {number} although the loss is ({_terms_text(result.terms)}). The "
            "model is kept in its state before this step. Lower --lr, or use --precision fp32."
        )
    rate = take_step(training, sequences, number, result.terms, last_rate)
    return {
        "step": number + 1,
        "epoch": plan.epoch(number + 1),
        "lr": rate,
        "loss": sum(value for name, value in result.terms.items() if is_minimised(name)),
        **{f"loss/{name}": value for name, value in result.terms.items()},
        **{f"gradient_norm/{name}": length for name, length in result.lengths.items()},
        "gradient_norm": float(norm),
        "tokens": sum(len(sequence.ids) for side in sequences.values() for sequence in side),
        "micro_batch_size": training.micro_batch.size,
        "seconds": time.perf_counter() - started,
    }


def _refuse_sharded(method: Any) -> None:
    """Refuse sharded layers for a method whose parts read whole matrices."""
    for part in (gradient_rule_of(method), perturbation_of(method)):
        if part is not None and part.needs_whole:
            name = getattr(part, "title", type(part).__name__)
            raise ConfigError([f"{name} reads whole matrices, which --sharding divides: leave --sharding out"])


def _check_same_weights(processes: Processes, tensors: Mapping[str, Tensor]) -> None:
    if processes.world == 1:
        return
    with processes.barrier():
        own = checksums(tensors)
    first, *others = processes.gather(own)
    if any(other != first for other in others):
        raise ProcessError(
            "The processes ended with different weights, although all saw the same gradients. Their devices or "
            "versions of torch differ; use machines of one kind."
        )


def _terms_text(terms: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in terms.items())
