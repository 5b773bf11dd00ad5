"""Values of a method's own that last over a run: updated after each step, kept by checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from medunlearn.data.storage import atomic_file
from medunlearn.methods.hooks import stateful_parts
from medunlearn.training.objectives import Objective, method_of

FILE = "method.safetensors"
"""File of these values in a checkpoint; only where a method has some."""


@dataclass(frozen=True)
class MethodState:
    """The values of an objective's method (:class:`medunlearn.methods.hooks.StatefulMethod`); often none."""

    objective: Objective

    def tensors(self) -> dict[str, Tensor]:
        return {
            f"{part}.{name}": value.detach().cpu().contiguous()
            for part, stateful in self._parts.items()
            for name, value in stateful.state_dict().items()
        }

    def restore(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        for part, stateful in self._parts.items():
            own = {name: value.to(device) for name, value in tensors.items() if name.startswith(f"{part}.")}
            stateful.load_state_dict({name.removeprefix(f"{part}."): value for name, value in own.items()})

    def after_step(self, row: Mapping[str, Any]) -> None:
        """Update the values after the step of a row of the history."""
        terms = {name.removeprefix("loss/"): value for name, value in row.items() if name.startswith("loss/")}
        for stateful in self._parts.values():
            stateful.after_step(terms)

    @property
    def _parts(self) -> Mapping[str, Any]:
        return stateful_parts(method_of(self.objective))


def write_method_state(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write the values of a method to a checkpoint; nothing without any."""
    if tensors:
        with atomic_file(folder / FILE) as part:
            save_file(dict(tensors), part)


def read_method_state(folder: Path) -> dict[str, Tensor]:
    """The values of a method in a checkpoint; empty without any. Raises SafetensorError: the file is broken."""
    return load_file(folder / FILE) if (folder / FILE).exists() else {}
