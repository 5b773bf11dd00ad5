"""Every loss method in each of its variants, as tests of the engine go through them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from medunlearn.methods import LOSSES, make_method, method_class
from medunlearn.registry import choices_of

VARIANTS = [
    f"{name}.{variant}" if variant else name
    for name in LOSSES
    for variant in choices_of(method_class(name)).get("variant", ("",))
]
"""``npo``, ``rmu.wmdp``, ...: a method's name, and its variant where it has several."""


def make_variant(label: str, **arguments: Any) -> Any:
    """A method by its label in :data:`VARIANTS`; RMU steers layer 1, for models of three layers."""
    name, _, variant = label.partition(".")
    own = {"variant": variant} if variant else {}
    return make_method(name, {**({"layer": 1} if "rmu" in name else {}), **own, **arguments})


def gradients(model: Any, terms: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Gradients of the sum of a method's terms, by the parameter's name."""
    model.zero_grad(set_to_none=True)
    torch.stack(list(terms.values())).sum().backward()
    return {name: tensor.grad for name, tensor in model.named_parameters() if tensor.grad is not None}
