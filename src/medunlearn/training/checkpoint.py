"""Checkpoints: trained tensors, optimizer, step and history as safetensors and JSON."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from medunlearn.data.storage import read_json, write_atomically, write_json
from medunlearn.errors import InputError
from medunlearn.training.optimizers import moments, restore
from medunlearn.training.processes import ALONE, Processes
from medunlearn.training.sharding import is_sharded, own_parts
from medunlearn.training.trainable import trained

STATE = "state.json"


@dataclass(frozen=True)
class Resumed:
    """Resumed state of a run: steps done, one row a step, and into how many shares its tensors were divided."""

    step: int
    history: list[dict[str, Any]]
    shards: int = 1


def save_checkpoint(
    folder: Path, model: Any, optimizer: torch.optim.Optimizer, state: Resumed, processes: Processes = ALONE
) -> None:
    """Write the state after ``state.step`` steps; the older one is removed once this one is whole.

    Every process calls it. The main one writes, of a sharded model each its own share.

    Raises:
        StorageError: the disk refused; the older checkpoint is kept.
    """
    target = folder / f"step-{state.step:08d}"
    if state.shards > 1:
        processes.together(lambda: _write(target, model, optimizer, f"-{processes.rank}"))
    else:
        processes.on_main(lambda: _write(target, model, optimizer, ""))
    processes.on_main(lambda: _finish(folder, target, state))


def _write(target: Path, model: Any, optimizer: torch.optim.Optimizer, share: str) -> None:
    _write_weights(target, model, share)
    state = moments(optimizer)
    write_atomically(target / f"optimizer{share}.safetensors", lambda path: save_file(state, path))


def _write_weights(folder: Path, model: Any, share: str) -> None:
    tensors = {name: tensor.detach().contiguous() for name, tensor in own_parts(trained(model)).items()}
    write_atomically(folder / f"model{share}.safetensors", lambda path: save_file(tensors, path))


@torch.no_grad()
def _read_weights(folder: Path, model: Any, share: str) -> None:
    tensors = load_file(folder / f"model{share}.safetensors")
    for name, tensor in own_parts(trained(model)).items():
        tensor.copy_(tensors[name])


def _share(model: Any, processes: Processes) -> str:
    """Suffix of this process's files; empty where the main process writes for all."""
    return f"-{processes.rank}" if any(is_sharded(tensor) for tensor in trained(model).values()) else ""


def _finish(folder: Path, target: Path, state: Resumed) -> None:
    write_json(target / STATE, asdict(state))
    for other in folder.glob("step-*"):
        if other != target:
            shutil.rmtree(other, ignore_errors=True)


def save_weights(folder: Path, model: Any, processes: Processes = ALONE) -> None:
    """Write the trained tensors alone. Every process calls it; of a sharded model each writes its own share.

    Raises:
        StorageError: the disk refused.
    """
    share = _share(model, processes)
    with_others = processes.together if share else processes.on_main
    with_others(lambda: _write_weights(folder, model, share))


def load_weights(folder: Path, model: Any, processes: Processes = ALONE) -> None:
    """Put what :func:`save_weights` wrote back into the model."""
    processes.together(lambda: _read_weights(folder, model, _share(model, processes)))


def load_checkpoint(
    folder: Path, model: Any, optimizer: torch.optim.Optimizer, processes: Processes = ALONE
) -> Resumed | None:
    """Put the newest whole checkpoint into model and optimizer; None where there is none.

    Raises:
        InputError: it was divided among another number of processes.
    """
    whole = sorted(path.parent for path in folder.glob(f"step-*/{STATE}"))
    if not whole:
        return None
    state = Resumed(**read_json(whole[-1] / STATE))
    parts = trained(model)
    shards = processes.world if any(is_sharded(tensor) for tensor in parts.values()) else 1
    if state.shards != shards:
        raise InputError(
            f"{whole[-1]} was written by a model divided into {state.shards}, and this one is divided into "
            f"{shards}. Give the command with as many processes as before, or another --out."
        )
    share = f"-{processes.rank}" if shards > 1 else ""
    _read_weights(whole[-1], model, share)
    restore(optimizer, load_file(whole[-1] / f"optimizer{share}.safetensors"))
    return state
