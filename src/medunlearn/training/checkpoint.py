"""Checkpoints: trained tensors, optimizer, step and history as safetensors and JSON.

The last two are kept. One that is broken or of another model is set aside, and the one before it is taken.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from medunlearn.data.leftovers import set_aside
from medunlearn.data.storage import read_json, write_atomically, write_json
from medunlearn.errors import InputError
from medunlearn.training.optimizers import moments, refuse_foreign, restore
from medunlearn.training.processes import ALONE, Processes
from medunlearn.training.sharding import is_sharded, own_parts
from medunlearn.training.trainable import trained

STATE = "state.json"
_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@dataclass(frozen=True)
class Resumed:
    """Resumed state of a run.

    Attributes:
        step: steps done; ``history`` has a row for each.
        shards: shares that its tensors were divided into.
        micro_batch_size: what the settings asked for; 0 where an earlier version wrote it.
    """

    step: int
    history: list[dict[str, Any]]
    shards: int = 1
    micro_batch_size: int = 0


def save_checkpoint(
    folder: Path, model: Any, optimizer: torch.optim.Optimizer, state: Resumed, processes: Processes = ALONE
) -> None:
    """Write the state after ``state.step`` steps beside the newest checkpoint; older ones are removed before.

    Every process calls it. The main one writes, of a sharded model each its own share.

    Raises:
        StorageError: the disk refused; the newest checkpoint is kept.
    """
    target = folder / f"step-{state.step:08d}"
    processes.on_main(lambda: _make_room(folder, target))
    if state.shards > 1:
        processes.together(lambda: _write(target, model, optimizer, f"-{processes.rank}"))
    else:
        processes.on_main(lambda: _write(target, model, optimizer, ""))
    processes.on_main(lambda: write_json(target / STATE, asdict(state)))


def _make_room(folder: Path, target: Path) -> None:
    """Remove all but the newest checkpoint, so that the disk never holds more than two."""
    newest = [path for path in _whole(folder) if path != target][-1:]
    for other in folder.glob("step-*"):
        if other not in newest:
            shutil.rmtree(other, ignore_errors=True)


def _whole(folder: Path) -> list[Path]:
    """Folders of the checkpoints that were written to their end, the newest last."""
    return sorted(path.parent for path in folder.glob(f"step-{'[0-9]' * 8}/{STATE}"))


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


def problem_of_weights(folder: Path, model: Any, processes: Processes = ALONE) -> str | None:
    """Why what :func:`save_weights` wrote cannot be put back, in any of the processes; None if it can."""
    share = _share(model, processes)
    return next(filter(None, processes.each(lambda: _problem_of_weights(folder, model, share))), None)


def load_checkpoint(
    folder: Path, model: Any, optimizer: torch.optim.Optimizer, processes: Processes = ALONE
) -> Resumed | None:
    """Put the newest usable checkpoint into model and optimizer; None where there is none.

    Every process calls it. A checkpoint that one of them cannot use is set aside for all.

    Raises:
        InputError: it was divided among another number of processes, or the processes see different checkpoints.
    """
    names = processes.each(lambda: [path.name for path in _whole(folder)])
    if any(other != names[0] for other in names):
        newest = [int(own[-1].split("-")[1]) if own else 0 for own in names]
        raise InputError(
            f"The processes find different checkpoints in {folder} (after steps {newest}). Give them an --out "
            "that all of them see, on a shared file system."
        )
    shards = processes.world if any(is_sharded(tensor) for tensor in trained(model).values()) else 1
    share = f"-{processes.rank}" if shards > 1 else ""
    for name in reversed(names[0]):
        path = folder / name
        problems = processes.each(lambda: _problem(path, model, optimizer, shards, share))  # noqa: B023
        if not any(problems):
            return processes.together(lambda: _restore(path, model, optimizer, share))  # noqa: B023
        reason = next(filter(None, problems))
        processes.on_main(lambda: set_aside(path, reason))  # noqa: B023
    return None


def _restore(path: Path, model: Any, optimizer: torch.optim.Optimizer, share: str) -> Resumed:
    _read_weights(path, model, share)
    restore(optimizer, load_file(path / f"optimizer{share}.safetensors"))
    return _read_state(path)


def _read_state(path: Path) -> Resumed:
    """Raises InputError, TypeError or ValueError: it is cut off, or not what a checkpoint holds."""
    state = Resumed(**read_json(path / STATE))
    if path.name != f"step-{state.step:08d}" or len(state.history) != state.step:
        raise ValueError(f"{STATE} is of another step")
    return state


def _problem(path: Path, model: Any, optimizer: torch.optim.Optimizer, shards: int, share: str) -> str | None:
    """Why a checkpoint cannot be used here; None if it can. Nothing is put into model or optimizer.

    Raises:
        InputError: it was divided among another number of processes.
    """
    try:
        state = _read_state(path)
    except (InputError, TypeError, ValueError) as error:
        return f"{STATE}: {error}"
    if state.shards != shards:
        raise InputError(
            f"{path} was written by a model divided into {state.shards}, and this one is divided into "
            f"{shards}. Give the command with as many processes and the --sharding of before; or remove "
            f"{path.parent}, to train anew."
        )
    return _problem_of_weights(path, model, share) or _problem_of_moments(path, optimizer, share)


def _problem_of_weights(path: Path, model: Any, share: str) -> str | None:
    expected = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in own_parts(trained(model)).items()}
    try:
        stored = _shapes(path / f"model{share}.safetensors")
    except (OSError, SafetensorError) as error:
        return str(error)
    return None if stored == expected else "its weights are of another model"


def _problem_of_moments(path: Path, optimizer: torch.optim.Optimizer, share: str) -> str | None:
    try:
        refuse_foreign(optimizer, {n: s for n, (s, _) in _shapes(path / f"optimizer{share}.safetensors").items()})
    except (OSError, SafetensorError, ValueError) as error:
        return str(error)
    return None


def _shapes(file: Path) -> dict[str, tuple[tuple[int, ...], torch.dtype | None]]:
    """Shapes and types of a file's tensors, from its header; a file that is cut off is refused."""
    with safe_open(file, framework="pt") as opened:
        slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118
        return {name: (tuple(s.get_shape()), _DTYPES.get(s.get_dtype())) for name, s in slices.items()}
