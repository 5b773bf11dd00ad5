"""Bounds for comparing two orders of computing the same numbers.

Derivation. Let u be the unit roundoff of a format (2**-53 in fp64, 2**-24 in fp32). Two orders of summing n terms
differ by about u * sqrt(n) times the size of the terms. A gradient is a chain of such sums; their errors add in
squares, so n is the number of terms along the chain: ``TERMS``. Where terms cancel, the sum is smaller than they
are, by the condition number of the computation, which is allowed to be ``CONDITION``.

AdamW divides by ``sqrt(v) + eps``: a gradient error d moves a weight by up to ``lr * d / eps``, or by ``2 * lr`` if
that is less. In fp32, d is about 1e-9 for the gradients of a tiny model and eps is 1e-8: near-zero gradients turn
rounding into whole steps, whatever the engine does, and their number depends on the processor's vector width. In
fp64, d is some 1e-17 and the bound is far below the size of any fault. So two orders of training are compared in
fp64 (:func:`in_fp64`), on the weights' movement, which hides nothing behind the size of the weights.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

TERMS = 2500
"""Terms along the chain of a gradient: forward and backward through 3 layers (7 products over 32 to 96 terms,
attention over up to 64 positions) and a vocabulary of 300, and a sum over some 200 scored tokens."""

CONDITION = 100.0
ADAM_EPS = 1e-8


def relative_bound(dtype: torch.dtype, *, terms: int = TERMS, condition: float = CONDITION) -> float:
    """Bound of the relative difference of two orders of one gradient or loss."""
    return condition * torch.finfo(dtype).eps / 2 * math.sqrt(terms)


def movement_bound(*, clip: float = 1.0) -> float:
    """Bound of the relative difference of the movement of weights under AdamW in fp64.

    A step moves a weight by about lr; a gradient of norm up to ``clip`` that is off by its relative bound moves it
    by up to ``lr * bound * clip / eps`` more or less.
    """
    return relative_bound(torch.float64) * clip / ADAM_EPS


def in_fp64(model: Any) -> Any:
    """The model in fp64 throughout: transformers' RMS norms would compute in fp32 on the way."""
    for name, module in list(model.named_modules()):
        if type(module).__name__.endswith("RMSNorm") and not isinstance(module, nn.RMSNorm):
            norm = nn.RMSNorm(module.weight.shape, module.variance_epsilon)
            norm.weight = module.weight
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, norm)
    return model.double()


@torch.no_grad()
def assert_same(ours: Mapping[str, Any], theirs: Mapping[str, Any], **more: Any) -> None:
    """Equal keys, and every tensor or number within :func:`relative_bound` by its norm.

    Numbers near 0 are differences of larger ones: they agree to the bound times 1.
    """
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        tensor = torch.as_tensor(value, dtype=None if isinstance(value, Tensor) else torch.float64)
        own = torch.as_tensor(ours[name], dtype=tensor.dtype)
        bound = relative_bound(tensor.dtype, **more)
        least = 0.0 if isinstance(value, Tensor) else 1.0
        error, size = float((own - tensor).norm()), max(float(tensor.norm()), least)
        _note(error / (size or 1.0), bound, name)
        assert error <= bound * size, (name, error / (size or 1.0), bound)


@torch.no_grad()
def assert_same_movement(
    ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], start: Mapping[str, Tensor]
) -> None:
    """Two runs of AdamW in fp64 moved the weights from ``start`` alike; what one left alone the other did."""
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert tensor.dtype == torch.float64
        error, movement = float((ours[name] - tensor).norm()), float((tensor - start[name]).norm())
        _note(error / (movement or 1.0), movement_bound(), name)
        assert error <= movement_bound() * movement, (name, error / (movement or 1.0))


def _note(error: float, bound: float, name: str) -> None:
    if path := os.environ.get("ROUNDING_LOG"):
        with open(path, "a") as log:
            log.write(f"{error:.3g}\t{bound:.3g}\t{name}\t{os.environ.get('PYTEST_CURRENT_TEST')}\n")
