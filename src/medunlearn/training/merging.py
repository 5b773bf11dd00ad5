"""Merge of a LoRA adapter into the weights under it, and what rounding takes of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from medunlearn.errors import FrozenParametersError, first_few
from medunlearn.models.four_bit import as_linear, is_four_bit


@contextmanager
def merged(model: Any) -> Iterator[None]:
    """Inside, a LoRA adapter is part of the weights, as it is once it is saved; afterwards no bit has changed."""
    if not hasattr(model, "merge_adapter"):
        yield
        return
    adapted = [module.base_layer for module in model.modules() if hasattr(module, "lora_A")]
    if any(map(is_four_bit, adapted)):
        # Merged into 4 bits it would be rounded; beside them it says the same as once it is saved.
        yield
        return
    weights = [layer.weight for layer in adapted]
    before = [weight.detach().clone() for weight in weights]
    model.merge_adapter()
    try:
        yield
    finally:
        model.unmerge_adapter()
        # Taking the adapter off again rounds.
        with torch.no_grad():
            for weight, value in zip(weights, before, strict=True):
                weight.copy_(value)


@torch.no_grad()
def merge(model: Any) -> tuple[Any, float]:
    """Add what a LoRA adapter learned to the weights under it, and take the adapter off.

    An adapter of fp32 may move by less than weights of bf16 can hold. With W a matrix before, W' after, and D what
    the adapter adds to it (its B times its A, times alpha over rank), the share that rounding changed is

        sqrt(sum ||(W' - W) - D||^2) / sqrt(sum ||D||^2)

    in Frobenius norms over all matrices of the adapter: 0 if nothing was lost, 1 if all was. It is not more,
    since the value before is one that W's type holds, and W' is the nearest of those. Of weights in 4 bits, W is
    the rounded matrix in the type that it computes in, and the plain model has such matrices.

    Args:
        model: a PEFT model; its matrices are changed in place.

    Returns:
        The plain model, and that share; 0 for an adapter that adds nothing.

    Raises:
        FrozenParametersError: the adapter adds something to a matrix of which no value changed.
    """
    sums = MergeSums()
    for name, module in model.named_modules():
        if hasattr(module, "lora_A"):
            sums.merge(name, module)
    return model.unload(), sums.rounding()


@dataclass
class MergeSums:
    """Sizes of merged LoRA updates and of the rounding errors in them, matrix by matrix."""

    lost: float = 0.0
    learned: float = 0.0
    unchanged: list[str] = field(default_factory=list)
    count: int = 0
    kind: str = ""

    @torch.no_grad()
    def merge(self, name: str, module: Any) -> None:
        """Add an adapter to the matrix under it."""
        (adapter,) = module.active_adapters
        if is_four_bit(module.base_layer):
            added = module.get_delta_weight(adapter)
            plain = as_linear(module.base_layer)
            weight, before = plain.weight, plain.weight.detach().clone()
            weight.add_(added.to(weight.dtype))
            module.base_layer, added = plain, added.float()
        else:
            weight = module.base_layer.weight
            before, added = weight.detach().clone(), module.get_delta_weight(adapter).float()
            module.merge()
        self.learned += float(added.norm()) ** 2
        self.lost += float(((weight.float() - before.float()) - added).norm()) ** 2
        if added.any() and torch.equal(weight, before):
            self.unchanged.append(name)
        self.kind, self.count = str(weight.dtype).removeprefix("torch."), self.count + 1

    def rounding(self) -> float:
        """The share that rounding changed.

        Raises:
            FrozenParametersError: an adapter adds something to a matrix of which no value changed.
        """
        if self.unchanged:
            raise FrozenParametersError(
                f"{len(self.unchanged)} of {self.count} matrices are what they were before the LoRA adapter was "
                f"merged: {first_few(self.unchanged)}. Rounding to {self.kind} took away all that it learned. Set "
                "--weights fp32, or a larger --lr."
            )
        return math.sqrt(self.lost / self.learned) if self.learned else 0.0
