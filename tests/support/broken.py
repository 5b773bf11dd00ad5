"""Models that are broken on purpose."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors.torch import load_file, save_file


def poison(model: Path, value: float = math.nan, tensor: str = "model.norm.weight") -> Path:
    """Write a value into one tensor of a model folder; the folder."""
    file = model / "model.safetensors"
    state = load_file(file)
    state[tensor][0] = value
    save_file(state, file, metadata={"format": "pt"})
    return model


def scramble(model: Path, seed: int = 0) -> Path:
    """Replace the weights of a model folder by random ones of the same size; the folder."""
    file, draw = model / "model.safetensors", torch.Generator().manual_seed(seed)
    state: Mapping[str, Any] = {
        name: torch.randn(tensor.shape, generator=draw) for name, tensor in load_file(file).items()
    }
    save_file(dict(state), file, metadata={"format": "pt"})
    return model


@dataclass(frozen=True)
class Poison:
    """An edit method that leaves NaN in the weights."""

    kind: ClassVar[str] = "edit"
    layers: str = "0"

    def edit(self, model: Any, forget: Any, retain: Any) -> dict[str, Any]:
        with torch.no_grad():
            next(iter(model.model.parameters())).view(-1)[0] = math.nan
        return {}

    def passes(self, images: bool) -> int:
        return 1


@dataclass(frozen=True)
class Silence:
    """An edit method after which the model answers every question with the same token."""

    kind: ClassVar[str] = "edit"
    layers: str = "0"

    def edit(self, model: Any, forget: Any, retain: Any) -> dict[str, Any]:
        with torch.no_grad():
            for tensor in model.model.parameters():
                tensor.zero_()
        return {}

    def passes(self, images: bool) -> int:
        return 1
