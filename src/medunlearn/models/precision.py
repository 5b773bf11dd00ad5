"""Precision of matrix products: from the settings, or the fastest for the device."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Literal

import torch
from torch import Tensor

Precision = Literal["auto", "bf16", "fp32"]


def settled(precision: Precision, device: torch.device) -> Literal["bf16", "fp32"]:
    """Resolve ``auto`` to bf16 if the device has instructions for it, else fp32."""
    if precision != "auto":
        return precision
    return "bf16" if has_bf16(device) else "fp32"


def at_least_fp32(tensor: Tensor) -> Tensor:
    """Half precisions widened to fp32; fp32 and fp64 unchanged."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def has_bf16(device: torch.device) -> bool:
    """True if a device multiplies matrices faster in bfloat16 than in fp32.

    A CPU without instructions for bfloat16 takes three times as long with it; one with them, a third.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        return any(bool(getattr(torch.cpu, name, bool)()) for name in names)
    return device.type == "xpu"


def autocast(device: torch.device, precision: Precision) -> Any:
    """Context for matrix products in a run's precision; weights are unchanged."""
    if settled(precision, device) == "fp32":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)
