"""Merge of a LoRA adapter into its weights, and the rounding error of the merge."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from medunlearn.errors import FrozenParametersError, first_few
from medunlearn.models.adapters import refuse_other_model, sample_logits
from medunlearn.models.four_bit import as_linear, is_four_bit


@contextmanager
def merged(model: Any) -> Iterator[None]:
    """Context in which a LoRA adapter is merged into the weights; afterwards they are restored bit by bit."""
    if not hasattr(model, "merge_adapter"):
        yield
        return
    adapted = [module for module in model.modules() if hasattr(module, "lora_A")]
    if any(is_four_bit(module.base_layer) for module in adapted):
        # Merged into 4 bits it would be rounded; beside them it says the same as once it is saved.
        yield
        return
    weights = list(map(adapted_weight, adapted))
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


def adapted_weight(module: Any) -> torch.Tensor:
    """The weight that an adapter is on: that of a layer, or a parameter with the matrices of several experts."""
    weight: torch.Tensor = module.get_param() if hasattr(module, "parameter_name") else module.base_layer.weight
    return weight


@torch.no_grad()
def merge(model: Any) -> tuple[Any, float]:
    """Merge a LoRA adapter into the weights, and remove the adapter.

    An fp32 adapter may change weights by less than bf16 resolves. With W a matrix before, W' after, and D the
    adapter's update (B times A, times alpha over rank), the rounding error is the share

        sqrt(sum ||(W' - W) - D||^2) / sqrt(sum ||D||^2)

    in Frobenius norms over all matrices of the adapter: 0 if nothing was lost, 1 if all was. It is at most 1, since
    W is representable in its type, and W' is the nearest representable value. For 4-bit weights, W is the rounded
    matrix in its compute type, as in the resulting model.

    Args:
        model: a PEFT model; its matrices are changed in place.

    Returns:
        The merged model, and that share; 0 for a zero adapter.

    Raises:
        FrozenParametersError: a non-zero update changed no value of a matrix.
        ModelError: the merged model is not the unmerged one.
    """
    sums, unmerged = MergeSums(), sample_logits(model)
    for name, module in model.named_modules():
        if hasattr(module, "lora_A"):
            sums.merge(name, module)
    merged = model.unload()
    rounding = sums.rounding()
    refuse_other_model(unmerged, merged, "The LoRA adapter")
    return merged, rounding


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
        """Merge an adapter into its matrix."""
        (adapter,) = module.active_adapters
        if is_four_bit(module.base_layer):
            added = module.get_delta_weight(adapter)
            plain = as_linear(module.base_layer)
            weight, before = plain.weight, plain.weight.detach().clone()
            weight.add_(added.to(weight.dtype))
            module.base_layer, added = plain, added.float()
        else:
            weight = adapted_weight(module)
            before, added = weight.detach().clone(), module.get_delta_weight(adapter).float()
            module.merge()
            weight = adapted_weight(module)
        self.learned += float(added.norm()) ** 2
        self.lost += float(((weight.float() - before.float()) - added).norm()) ** 2
        if added.any() and torch.equal(weight, before):
            self.unchanged.append(name)
        self.kind, self.count = str(weight.dtype).removeprefix("torch."), self.count + 1

    def rounding(self) -> float:
        """The share of the update changed by rounding.

        Raises:
            FrozenParametersError: a non-zero update changed no value of a matrix.
        """
        if self.unchanged:
            raise FrozenParametersError(
                f"{len(self.unchanged)} of {self.count} matrices did not change in the merge of the LoRA adapter: "
                f"{first_few(self.unchanged)}. Rounding to {self.kind} removed all of its update. Set "
                "--weights fp32, or a larger --lr."
            )
        return math.sqrt(self.lost / self.learned) if self.learned else 0.0
