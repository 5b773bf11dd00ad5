"""Runs of the training loop that stop and go on, and what they end with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

Row = dict[str, Any]


def stop_at(step: int | None) -> Callable[[Row], None]:
    """An ``on_step`` that interrupts the run after this step; None lets it go on."""

    def stop(row: Row) -> None:
        if row["step"] == step:
            raise KeyboardInterrupt

    return stop


def without_seconds(history: Sequence[Row]) -> list[Row]:
    """The rows that two equal runs have in common."""
    return [{key: value for key, value in row.items() if key != "seconds"} for row in history]


def equal(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> bool:
    """True if two models' tensors are the same, bit for bit."""
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in theirs)


def copied(model: Any) -> dict[str, Tensor]:
    """The model's parameters as they are now."""
    return {name: tensor.detach().clone() for name, tensor in model.named_parameters()}


def fill_adapter(model: Any, scale: float = 0.1, seed: int = 0) -> Any:
    """The model, whose LoRA adapter has learned something: its B holds random numbers of this size."""
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if "lora_B" in name:
                tensor.copy_(scale * torch.randn(tensor.shape, generator=source))
    return model
