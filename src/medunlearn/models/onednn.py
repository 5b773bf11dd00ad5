"""Linear layers by oneDNN on a CPU, with weights in its own order: faster for passes of few rows, as in decoding.

PyTorch multiplies fp32 matrices by MKL. On an AMD processor that took twice as long for 8 rows as oneDNN with a
weight reordered once (benchmarks_perf/generation.py times decoding with both). The operators are private to
PyTorch, where ``torch.compile`` uses them; without them, the layers' own products are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeGuard

import torch
from torch import Tensor, nn

SMALLEST = 2**16
"""Elements of the smallest weight to reorder: below it, oneDNN's fixed cost of a call is more than it spares."""

MOST_BYTES = 2**31
"""Reordered weights are a second copy; a model's first layers have it, up to this many bytes."""

ROWS = 8
"""Rows are padded to a multiple of this: a new number of rows costs oneDNN a millisecond, to prepare a kernel."""

MOST_ROWS = 64
"""Most rows of a pass that always uses oneDNN."""

LEAST_PRODUCTS = 2**29
"""Multiplications from which a larger pass, as over prompts, uses oneDNN too: each length needs its own kernel."""


class ReorderedLinears:
    """Linear layers of a model with their weights in oneDNN's order; valid as long as the weights do not change."""

    def __init__(self, model: nn.Module) -> None:
        self._weights: list[tuple[nn.Linear, Tensor]] = []
        left = MOST_BYTES
        for layer in filter(_can_reorder, model.modules()) if has_onednn() else ():
            weight = layer.weight.detach()
            if weight.nbytes <= left:
                left -= weight.nbytes
                self._weights.append((layer, torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)))

    @contextmanager
    def used(self) -> Iterator[None]:
        """Context in which the layers multiply by oneDNN; for inference only."""
        for layer, weight in self._weights:
            layer.forward = partial(_forward, layer, weight)  # type: ignore[method-assign]
        try:
            yield
        finally:
            for layer, _ in self._weights:
                del layer.forward


def has_onednn() -> bool:
    """True if this build of PyTorch has oneDNN and the operators used here, on an x86 processor with AVX."""
    operators = ("_reorder_linear_weight", "_linear_pointwise")
    there = torch._C._has_mkldnn and all(hasattr(torch.ops.mkldnn, name) for name in operators)
    return there and torch.backends.cpu.get_cpu_capability().startswith("AVX")


def _can_reorder(layer: nn.Module) -> TypeGuard[nn.Linear]:
    if type(layer) is not nn.Linear or "forward" in vars(layer):  # a subclass, or a forward that somebody replaced
        return False
    weight = layer.weight
    plain = type(weight) in (nn.Parameter, Tensor) and weight.device.type == "cpu" and weight.dtype == torch.float32
    return plain and weight.numel() >= SMALLEST


def _forward(layer: nn.Linear, weight: Tensor, inputs: Tensor) -> Tensor:
    rows = inputs.shape[:-1].numel()
    worth = 0 < rows <= MOST_ROWS or rows * layer.weight.numel() >= LEAST_PRODUCTS
    if not worth or inputs.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
        return nn.functional.linear(inputs, layer.weight, layer.bias)
    filled = nn.functional.pad(inputs.reshape(rows, -1), (0, 0, 0, -rows % ROWS))
    product: Tensor = torch.ops.mkldnn._linear_pointwise(filled, weight, layer.bias, "none", [], "")
    return product[:rows].view(*inputs.shape[:-1], -1)
