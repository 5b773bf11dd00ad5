"""The state of a run that was cut off: trained tensors, optimizer, step, history; safetensors and JSON alone."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from medunlearn.data.storage import read_json, write_atomically, write_json
from medunlearn.training.optimizers import moments, restore
from medunlearn.training.trainable import trained

STATE = "state.json"


@dataclass(frozen=True)
class Resumed:
    """Where a run goes on.

    Attributes:
        step: steps that are done.
        history: one row a step so far.
    """

    step: int
    history: list[dict[str, Any]]


def save_checkpoint(folder: Path, model: Any, optimizer: torch.optim.Optimizer, state: Resumed) -> None:
    """Write the state after ``state.step`` steps; the older one is removed once this one is whole.

    Raises:
        StorageError: the disk refused; the older checkpoint is kept.
    """
    target = folder / f"step-{state.step:08d}"
    tensors = {name: tensor.detach().contiguous() for name, tensor in trained(model).items()}
    write_atomically(target / "model.safetensors", lambda path: save_file(tensors, path))
    state_of = moments(optimizer)
    write_atomically(target / "optimizer.safetensors", lambda path: save_file(state_of, path))
    write_json(target / STATE, asdict(state))
    for other in folder.glob("step-*"):
        if other != target:
            shutil.rmtree(other, ignore_errors=True)


def load_checkpoint(folder: Path, model: Any, optimizer: torch.optim.Optimizer) -> Resumed | None:
    """Put the newest whole checkpoint into model and optimizer; None where there is none."""
    whole = sorted(path.parent for path in folder.glob(f"step-*/{STATE}"))
    if not whole:
        return None
    tensors = load_file(whole[-1] / "model.safetensors")
    with torch.no_grad():
        for name, tensor in trained(model).items():
            tensor.copy_(tensors[name])
    restore(optimizer, load_file(whole[-1] / "optimizer.safetensors"))
    return Resumed(**read_json(whole[-1] / STATE))
