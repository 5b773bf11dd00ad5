"""AdamW with full, 8-bit, paged or host-offloaded moments; plain SGD.

The state of each is saved and restored bit for bit (:mod:`medunlearn.training.checkpoint`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from medunlearn.errors import ConfigError
from medunlearn.training.loop_settings import LoopSettings

DIVISIBLE = ("exp_avg", "exp_avg_sq", "momentum_buffer")
"""Moments that have rows as their parameters have."""
MOMENTS = (*DIVISIBLE, "state1", "state2")
"""Moments of the shape of their parameters."""
QUANTIZED = {"adamw_8bit": "AdamW8bit", "paged_adamw_8bit": "PagedAdamW8bit"}


def check_optimizer(settings: LoopSettings) -> None:
    """Refuse an unusable optimizer before anything is loaded.

    Raises:
        ConfigError: bitsandbytes is not installed, or the settings contradict each other.
    """
    problems = []
    if settings.optimizer in QUANTIZED:
        if find_spec("bitsandbytes") is None:
            problems.append(
                f"optimizer={settings.optimizer} needs bitsandbytes: pip install 'medunlearn[gpu]', or set "
                "optimizer=adamw."
            )
        if settings.offload == "optimizer":
            problems.append(
                f"offload=optimizer keeps whole moments on the host and cannot be combined with optimizer="
                f"{settings.optimizer}. Give --optimizer adamw, or --offload none (paged_adamw_8bit pages by "
                "itself)."
            )
    if problems:
        raise ConfigError(problems)


def make_optimizer(tensors: Iterable[Tensor], settings: LoopSettings) -> torch.optim.Optimizer:
    """Create the optimizer of the settings for these parameters.

    Raises:
        ConfigError: see :func:`check_optimizer`.
    """
    check_optimizer(settings)
    parameters = list(tensors)
    lr, decay = settings.lr, settings.weight_decay
    if settings.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=lr, weight_decay=decay)
    if settings.optimizer in QUANTIZED:
        import bitsandbytes

        # There is nothing to page on a CPU; bitsandbytes would say so in a warning and do the same.
        on_cpu = all(tensor.device.type == "cpu" for tensor in parameters)
        make = getattr(bitsandbytes.optim, QUANTIZED["adamw_8bit" if on_cpu else settings.optimizer])
        quantized: torch.optim.Optimizer = make(parameters, lr=lr, weight_decay=decay)
        return quantized
    if settings.offload == "optimizer" and any(tensor.device.type != "cpu" for tensor in parameters):
        return HostAdamW(parameters, lr=lr, weight_decay=decay)
    return torch.optim.AdamW(parameters, lr=lr, weight_decay=decay, fused=True)


class HostAdamW(torch.optim.AdamW):
    """AdamW with moments in host memory, where the step is computed too.

    A step copies weights and gradients to the host and the new weights back. The device stores neither moments nor,
    after the step, gradients; the host stores a copy of the weights and two moments.
    """

    def __init__(self, tensors: Iterable[Tensor], *, lr: float, weight_decay: float) -> None:
        self._there = list(tensors)
        self._here = [torch.empty_like(tensor, device="cpu").requires_grad_() for tensor in self._there]
        super().__init__(self._here, lr=lr, weight_decay=weight_decay, fused=True)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for tensor in (*self._there, *self._here):
            tensor.grad = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for there, here in zip(self._there, self._here, strict=True):
            # The weights are taken anew, since a checkpoint may have been put into them.
            here.copy_(there)
            here.grad = None if there.grad is None else there.grad.to("cpu")
            there.grad = None
        super().step(closure)
        for there, here in zip(self._there, self._here, strict=True):
            if here.grad is not None:
                there.copy_(here)
            here.grad = None


def moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer state as tensors, named ``<parameter number>.<name>``."""
    return {
        f"{number}.{name}": torch.as_tensor(value).detach().contiguous()
        for number, tensor in enumerate(_parameters(optimizer))
        for name, value in optimizer.state.get(tensor, {}).items()
        if not name.startswith("qmap")  # the same constant table for all
    }


def restore(optimizer: torch.optim.Optimizer, saved: Mapping[str, Tensor]) -> None:
    """Restore a state from :func:`moments`, on the optimizer's device or paged."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in saved.items():
        place, _, name = key.partition(".")
        state.setdefault(int(place), {})[name] = value
    if not hasattr(optimizer, "init_state"):
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        return
    # bitsandbytes: its own buffers are made first, so that paged ones stay paged.
    for number, tensor in enumerate(_parameters(optimizer)):
        if number in state:
            optimizer.init_state(optimizer.param_groups[0], tensor, 0, number)
            for name, value in state[number].items():
                now = optimizer.state[tensor][name]
                optimizer.state[tensor][name] = now.copy_(value) if isinstance(now, Tensor) else type(now)(value)


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [tensor for group in optimizer.param_groups for tensor in group["params"]]
