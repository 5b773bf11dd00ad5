"""Merge of a LoRA adapter into its base weights, with the share lost to rounding."""

from __future__ import annotations

import math
from typing import Any

import torch

from medunlearn.errors import FrozenParametersError


@torch.no_grad()
def merge(model: Any) -> tuple[Any, float]:
    """Add what a LoRA adapter learned to the weights under it, and take the adapter off.

    An adapter of fp32 may move by less than weights of bf16 can hold. With W a matrix before, W' after, and D what
    the adapter adds to it (its B times its A, times alpha over rank), the share that rounding changed is

        sqrt(sum ||(W' - W) - D||^2) / sqrt(sum ||D||^2)

    in Frobenius norms over all matrices of the adapter: 0 where nothing was lost, 1 where all was. It is not more,
    since the value before is one that W's type holds, and W' is the nearest of those.

    Args:
        model: a PEFT model; its matrices are changed in place.

    Returns:
        The plain model, and that share; 0 for an adapter that adds nothing.

    Raises:
        FrozenParametersError: the adapter adds something to a matrix of which no value changed.
    """
    lost, learned, unchanged, count = 0.0, 0.0, list[str](), 0
    for name, module in model.named_modules():
        if not hasattr(module, "lora_A"):
            continue
        weight, (adapter,) = module.base_layer.weight, module.active_adapters
        before, added = weight.detach().clone(), module.get_delta_weight(adapter).float()
        module.merge()
        learned += float(added.norm()) ** 2
        lost += float(((weight.float() - before.float()) - added).norm()) ** 2
        if added.any() and torch.equal(weight, before):
            unchanged.append(name)
        count += 1
    if unchanged:
        shown = ", ".join(unchanged[:3]) + (", ..." if len(unchanged) > 3 else "")
        kind = str(weight.dtype).removeprefix("torch.")
        raise FrozenParametersError(
            f"{len(unchanged)} of {count} matrices are what they were before the LoRA adapter was merged: {shown}. "
            f"Rounding to {kind} took away all that it learned. Set weights=fp32, or a larger lr."
        )
    return model.unload(), math.sqrt(lost / learned) if learned else 0.0
