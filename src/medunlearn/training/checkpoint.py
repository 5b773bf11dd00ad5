"""Checkpoints: trained tensors, optimizer, step and history as safetensors and JSON.

The last two are kept. One that is broken or of another model is set aside, and the previous one is used.

For a sharded model each process writes its rows of the decoder layers' tensors, and rank 0 also the unsharded
tensors. Another number of processes reads the rows that it needs from these files. ``torch.distributed.checkpoint``
does the same, but its files need unpickling.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from medunlearn.data.leftovers import set_aside
from medunlearn.data.storage import atomic_file, read_json, write_json
from medunlearn.errors import InputError
from medunlearn.models.decoder import base_model, decoder_layers
from medunlearn.training.method_state import read_method_state, write_method_state
from medunlearn.training.optimizers import DIVISIBLE, MOMENTS, moments, restore
from medunlearn.training.processes import ALONE, Processes
from medunlearn.training.sharding import is_sharded, own_parts, rows_of
from medunlearn.training.trainable import trained

STATE = "state.json"
_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@dataclass(frozen=True)
class Resumed:
    """Resumed state of a run.

    Attributes:
        step: number of completed steps; ``history`` has a row for each.
        shards: number of shards of its tensors.
        micro_batch_size: value in the settings; 0 for checkpoints of an earlier version.
    """

    step: int
    history: list[dict[str, Any]]
    shards: int = 1
    micro_batch_size: int = 0


def save_checkpoint(
    folder: Path,
    model: Any,
    optimizer: torch.optim.Optimizer,
    state: Resumed,
    processes: Processes = ALONE,
    method: Mapping[str, Tensor] | None = None,
) -> None:
    """Write the state after ``state.step`` steps next to the newest checkpoint; older ones are deleted before.

    Args:
        method: the method's own values, equal in every process.

    Called by every process. Rank 0 writes; for a sharded model each process writes its shard.

    Raises:
        StorageError: the disk refused; the newest checkpoint is kept.
    """
    target = checkpoint_of(folder, state.step)
    with processes.barrier():
        if processes.main:
            _make_room(folder, target)
    with processes.barrier():
        if state.shards > 1 or processes.main:
            _write(target, model, optimizer, f"-{processes.rank}" if state.shards > 1 else "")
    with processes.barrier():
        if processes.main:
            write_method_state(target, method or {})
            write_json(target / STATE, asdict(state))


def checkpoint_of(folder: Path, step: int) -> Path:
    """Folder of the checkpoint after ``step`` steps."""
    return folder / f"step-{step:08d}"


def _make_room(folder: Path, target: Path) -> None:
    """Delete all but the newest checkpoint, so that the disk never has more than two."""
    newest = [path for path in _whole(folder) if path != target][-1:]
    for other in folder.glob("step-*"):
        if other not in newest:
            shutil.rmtree(other, ignore_errors=True)


def _whole(folder: Path) -> list[Path]:
    """Folders of complete checkpoints, the newest last."""
    return sorted(path.parent for path in folder.glob(f"step-{'[0-9]' * 8}/{STATE}"))


def _write(target: Path, model: Any, optimizer: torch.optim.Optimizer, share: str) -> None:
    left_out = _write_weights(target, model, share)
    state = {key: value for key, value in moments(optimizer).items() if int(key.partition(".")[0]) not in left_out}
    with atomic_file(target / f"optimizer{share}.safetensors") as part:
        save_file(state, part)


def _write_weights(folder: Path, model: Any, share: str) -> set[int]:
    """Write this process's tensors, unsharded ones only on rank 0; returns the indices of unsharded tensors."""
    tensors, parts = trained(model), own_parts(trained(model))
    left_out = {
        number for number, name in enumerate(parts) if share not in ("", "-0") and not is_sharded(tensors[name])
    }
    own_tensors = {n: t.detach().contiguous() for k, (n, t) in enumerate(parts.items()) if k not in left_out}
    with atomic_file(folder / f"model{share}.safetensors") as part:
        save_file(own_tensors, part)
    return left_out


class _Shares:
    """The files of a checkpoint, and their rows of each tensor.

    Attributes:
        count: number of processes that sharded the decoder layers; 1: not sharded.
    """

    def __init__(self, folder: Path, model: Any) -> None:
        self.folder, self.tensors = folder, trained(model)
        self.count = len(list(folder.glob("model-*.safetensors"))) or 1
        layers = decoder_layers(base_model(model)) if self.count > 1 else nn.ModuleList()
        inside = {id(tensor) for tensor in layers.parameters()}
        self.divided = {name for name, tensor in self.tensors.items() if id(tensor) in inside}

    def file(self, stem: str, rank: int) -> Path:
        return self.folder / f"{stem}{f'-{rank}' if self.count > 1 else ''}.safetensors"

    def names(self, rank: int) -> list[str]:
        """The tensors of which a process had a part, in optimizer order."""
        return [name for name in self.tensors if self.rows(name, rank) != range(0)]

    def rows(self, name: str, rank: int) -> range:
        """Rows of a process, all for an unsharded tensor; ``range(0)`` for none."""
        length = len(self.tensors[name]) if self.tensors[name].dim() else 1
        if name not in self.divided:
            return range(length)
        size = -(-length // self.count)
        start, stop = (min(place * size, length) for place in (rank, rank + 1))
        return range(start, stop) if start < stop else range(0)

    def parts(self, name: str) -> Iterator[tuple[int, slice]]:
        """Ranks with rows of a tensor that this process needs, and these rows."""
        tensor = self.tensors[name]
        needed_rows = self.rows(name, 0) if name not in self.divided else range(len(tensor))
        if isinstance(tensor, DTensor):
            rows = rows_of(tensor)
            needed_rows = range(rows.start, rows.stop)
        for rank in range(self.count if name in self.divided else 1):
            rank_rows = self.rows(name, rank)
            start, stop = max(needed_rows.start, rank_rows.start), min(needed_rows.stop, rank_rows.stop)
            if start < stop:
                yield rank, slice(start - rank_rows.start, stop - rank_rows.start)

    def read(self, stem: str, keys: Mapping[str, Mapping[int, str]]) -> dict[str, Tensor]:
        """Read this process's part of tensors.

        Args:
            keys: name of a parameter -> rank -> name of the tensor in that rank's file.
        """
        with ExitStack() as until:
            files = [until.enter_context(safe_open(self.file(stem, n), framework="pt")) for n in range(self.count)]
            return {
                name: torch.cat([files[rank].get_slice(ranks[rank])[rows] for rank, rows in self.parts(name)])
                if self.tensors[name].dim()
                else files[0].get_tensor(ranks[0])
                for name, ranks in keys.items()
            }

    def problem_of_weights(self) -> str | None:
        for rank in range(self.count):
            required, allowed = dict[str, Any](), dict[str, Any]()
            for name in self.names(rank):
                tensor = self.tensors[name]
                shape = (len(self.rows(name, rank)), *tensor.shape[1:]) if tensor.dim() else ()
                allowed[name] = (shape, tensor.dtype)
                if rank == 0 or name in self.divided:
                    required[name] = allowed[name]
            try:
                stored = _shapes(self.file("model", rank))
            except (OSError, SafetensorError) as error:
                return str(error)
            if not required.items() <= stored.items() or not stored.items() <= allowed.items():
                return "its weights are of another model"
        return None


def _share(model: Any, processes: Processes) -> str:
    """Suffix of this process's files; empty if rank 0 writes for all."""
    return f"-{processes.rank}" if any(is_sharded(tensor) for tensor in trained(model).values()) else ""


def save_weights(folder: Path, model: Any, processes: Processes = ALONE) -> None:
    """Write only the trained tensors. Called by every process; for a sharded model each writes its shard.

    Raises:
        StorageError: the disk refused.
    """
    share = _share(model, processes)
    with processes.barrier():
        if share or processes.main:
            _write_weights(folder, model, share)


def load_weights(folder: Path, model: Any, processes: Processes = ALONE) -> None:
    """Restore the weights written by :func:`save_weights`."""
    with processes.barrier():
        _read_weights(_Shares(folder, model), model)


def problem_of_weights(folder: Path, model: Any, processes: Processes = ALONE) -> str | None:
    """Reason, in any process, why weights of :func:`save_weights` cannot be restored; None if they can."""
    with processes.barrier():
        problem = _Shares(folder, model).problem_of_weights()
    return next(filter(None, processes.gather(problem)), None)


def load_checkpoint(
    folder: Path, model: Any, optimizer: torch.optim.Optimizer, processes: Processes = ALONE
) -> Resumed | None:
    """Restore the newest usable checkpoint into model and optimizer; None without one.

    Called by every process. A checkpoint that one of them cannot use is set aside for all.

    Raises:
        InputError: 8-bit moments of another number of processes, or the processes see different checkpoints.
    """
    with processes.barrier():
        own_names = [path.name for path in _whole(folder)]
    names = processes.gather(own_names)
    if any(other != names[0] for other in names):
        newest = [int(own[-1].split("-")[1]) if own else 0 for own in names]
        raise InputError(
            f"The processes find different checkpoints in {folder} (after steps {newest}). Use an --out on a "
            "shared file system that all of them see."
        )
    for name in reversed(names[0]):
        path = folder / name
        with processes.barrier():
            problem = _problem(path, model, optimizer, processes)
        reason = next(filter(None, processes.gather(problem)), None)
        with processes.barrier():
            if reason is None:
                return _restore(path, model, optimizer, processes)
            if processes.main:
                set_aside(path, reason)
    return None


@torch.no_grad()
def _read_weights(shares: _Shares, model: Any) -> None:
    parts = own_parts(trained(model))
    values = shares.read("model", {name: dict.fromkeys(range(shares.count), name) for name in parts})
    for name, part in parts.items():
        part.copy_(values[name])


def _restore(path: Path, model: Any, optimizer: torch.optim.Optimizer, processes: Processes) -> Resumed:
    shares = _Shares(path, model)
    _read_weights(shares, model)
    restore(optimizer, _read_moments(shares, list(own_parts(trained(model))), processes.rank))
    return _read_state(path)


def _read_moments(shares: _Shares, own: list[str], own_rank: int) -> dict[str, Tensor]:
    """The optimizer state of this process's parts, named in optimizer order."""
    stored = [_shapes(shares.file("optimizer", rank)) for rank in range(shares.count)]
    keys: dict[str, dict[str, dict[int, str]]] = {}
    for rank, shapes in enumerate(stored):
        places = dict(enumerate(shares.names(rank)))
        for key in shapes:
            number, _, kind = key.partition(".")
            keys.setdefault(kind, {}).setdefault(places[int(number)], {})[rank] = key
    state: dict[str, Tensor] = {}
    for kind, ranks in keys.items():
        divided = kind in DIVISIBLE
        mine = {name: ranks[name] for name in own if name in ranks}
        values = shares.read("optimizer", mine) if divided else {}
        for name, by_rank in mine.items():
            if not divided:
                rank, key = (own_rank, by_rank[own_rank]) if own_rank in by_rank else next(iter(by_rank.items()))
                with safe_open(shares.file("optimizer", rank), framework="pt") as opened:
                    values[name] = opened.get_tensor(key)
            state[f"{own.index(name)}.{kind}"] = values[name]
    return state


def _read_state(path: Path) -> Resumed:
    """Read the state. Raises InputError, TypeError or ValueError: it is truncated, or not a checkpoint."""
    state = Resumed(**read_json(path / STATE))
    if path.name != f"step-{state.step:08d}" or len(state.history) != state.step:
        raise ValueError(f"{STATE} is of another step")
    return state


def _problem(path: Path, model: Any, optimizer: torch.optim.Optimizer, processes: Processes) -> str | None:
    """Reason why a checkpoint is unusable here; None if it is usable. Model and optimizer are unchanged.

    Raises:
        InputError: its 8-bit moments were sharded over another number of processes.
    """
    try:
        state = _read_state(path)
    except (InputError, TypeError, ValueError) as error:
        return f"{STATE}: {error}"
    shares = _Shares(path, model)
    if shares.count != state.shards:
        return f"it was written in {state.shards} shares, and {shares.count} are there"
    if problem := shares.problem_of_weights():
        return problem
    try:
        read_method_state(path)
        return _problem_of_moments(shares, optimizer, processes)
    except (OSError, SafetensorError, ValueError, KeyError, IndexError) as error:
        return str(error)


def _problem_of_moments(shares: _Shares, optimizer: torch.optim.Optimizer, processes: Processes) -> str | None:
    """Validate the optimizer state. Raises OSError, SafetensorError or ValueError: a file is broken, or of another
    model; InputError as above.
    """
    for rank in range(shares.count):
        names = shares.names(rank)
        for key, (shape, _) in _shapes(shares.file("optimizer", rank)).items():
            place, _, kind = key.partition(".")
            number = int(place) if place.isdecimal() else len(names)
            if number >= len(names):
                raise ValueError("its optimizer's state is of another model")
            tensor = shares.tensors[names[number]]
            rows = (len(shares.rows(names[number], rank)), *tensor.shape[1:]) if tensor.dim() else ()
            if kind in MOMENTS and shape != rows:
                raise ValueError("its optimizer's state is of another model")
            if kind not in (*DIVISIBLE, "step") and shares.count != _shards(shares.tensors, processes):
                raise InputError(
                    f"{shares.folder} has 8-bit moments of a model in {shares.count} shards, rounded in blocks of "
                    "a shard. Use the same number of processes and --sharding as before; or remove "
                    f"{shares.folder.parent} to train anew."
                )
    return None


def _shards(tensors: Mapping[str, Tensor], processes: Processes) -> int:
    return processes.world if any(map(is_sharded, tensors.values())) else 1


def _shapes(file: Path) -> dict[str, tuple[tuple[int, ...], torch.dtype | None]]:
    """Shapes and types of a file's tensors, from its header; refuses a truncated file."""
    with safe_open(file, framework="pt") as opened:
        slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118
        return {name: (tuple(s.get_shape()), _DTYPES.get(s.get_dtype())) for name, s in slices.items()}
