"""What a machine has, whether an estimate fits in it, and what to change where it does not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil
import torch

from medunlearn.config import LoopFields
from medunlearn.errors import OutOfMemoryError
from medunlearn.models.batching import is_out_of_memory
from medunlearn.models.load import pick_device
from medunlearn.pipeline.estimate.amounts import Memory

GIB = 2**30
# Measured (benchmarks_perf/memory_estimate.py): on a CPU the C library keeps up to so many times what tensors hold.
ALLOCATOR = 1.8
LIBRARIES = GIB
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@dataclass(frozen=True)
class Room:
    """What a stage may take.

    Attributes:
        kind: ``memory`` of the machine, or ``GPU memory``.
        total, available: its bytes, all and free now.
        disk: free bytes where the run will be.
    """

    kind: Literal["memory", "GPU memory"]
    total: int
    available: int
    disk: int


def shown_bytes(size: float) -> str:
    """``1.5 GiB``, below one ``312 MiB``, below one ``7 KiB``."""
    if size >= GIB:
        return f"{size / GIB:.1f} GiB"
    return f"{size / 2**20:.0f} MiB" if size >= 2**20 else f"{size / 2**10:.0f} KiB"


def room_on(device: str, out: Path) -> Room:
    """The room on a device and on the disk of a folder that may not exist yet."""
    there = next((folder for folder in (out, *out.absolute().parents) if folder.exists()), Path())
    disk = shutil.disk_usage(there).free
    where = pick_device(device)
    if where.type == "cuda":
        free, total = torch.cuda.mem_get_info(where)
        return Room("GPU memory", total, free, disk)
    memory = psutil.virtual_memory()
    total = min([memory.total, *_limits()])
    return Room("memory", total, min(memory.available, total), disk)


def _limits() -> Iterator[int]:
    """What a container allows."""
    for path in LIMITS:
        try:
            yield int(path.read_text())
        except (OSError, ValueError):
            continue


def advice(memory: Memory | None, disk: int, room: Room, stage: str = "The run") -> Iterator[str]:
    """Sentences on what will not fit, each with what to change.

    Args:
        memory: of the largest stage, whose name is ``stage``.
    """
    if memory is not None:
        own = 0 if room.kind == "GPU memory" else LIBRARIES
        needed, have = memory.total + own, f"{shown_bytes(room.total)} of {room.kind}"
        if needed > room.total:
            yield (
                f"{stage} will not fit: it takes about {shown_bytes(needed)}, and there are {have}. "
                f"Change {_changes(memory, not own)}."
            )
        elif memory.total * (ALLOCATOR if own else 1.0) + own > room.available:
            yield (
                f"{stage} may not fit: it takes about {shown_bytes(needed)} and some more for what the allocator "
                f"keeps, and {shown_bytes(room.available)} of {have} are free. Close other programs, or change "
                f"{_changes(memory, not own)}."
            )
    if disk > room.disk:
        yield f"The disk is too small: the run writes {shown_bytes(disk)}, and {shown_bytes(room.disk)} are free."


def _changes(memory: Memory, on_gpu: bool) -> str:
    """What saves most, first."""
    trained = memory.gradients + memory.moments + memory.reference
    pass_ways = "micro_batch_size=1 or gradient_checkpointing=true or context=closed_book (a smaller pass)"
    ways = [
        (trained, "trainable=lora or trainable=layers:7 (less is trained)"),
        (memory.moments, f"optimizer=adamw_8bit{' or offload=optimizer' * on_gpu} (smaller moments)"),
        (memory.activations, pass_ways if trained else ""),
        (memory.cache, "evaluate.batch_size or evaluate.max_new_tokens (fewer answers at a time)"),
        (memory.weights, "weights=bf16 or the model, for a smaller one"),
    ]
    return "; or ".join(way for size, way in sorted(ways, key=lambda one: -one[0]) if size and way)


@contextmanager
def saying_what_helps(settings: LoopFields, device: str) -> Iterator[None]:
    """Around a training: where memory runs out for good, the error says what to change.

    Raises:
        OutOfMemoryError: memory ran out.
    """
    try:
        yield
    except (OutOfMemoryError, RuntimeError, MemoryError) as error:
        ours = isinstance(error, OutOfMemoryError)
        if not ours and not is_out_of_memory(error):
            raise
        on_gpu = pick_device(device).type == "cuda"
        said = str(error) if ours else "Memory runs out."
        raise OutOfMemoryError(
            f"{said} Where more is free, the same command goes on from what is kept. Or begin anew, "
            f"with another --out and {_left(settings, on_gpu)}; or a smaller model."
        ) from error


def _left(settings: LoopFields, on_gpu: bool) -> str:
    """What a training can still change to take less, the cheapest first."""
    context = getattr(settings, "context", None)
    ways = [
        # Without sharding it has been tried.
        ("micro_batch_size=1", settings.sharding != "none" and settings.micro_batch_size > 1),
        ("gradient_checkpointing=true", not settings.gradient_checkpointing),
        ("offload=optimizer", on_gpu and settings.optimizer == "adamw" and settings.offload == "none"),
        ("optimizer=adamw_8bit", settings.optimizer == "adamw"),
        ("context=closed_book", context == "note"),
        ("weights=bf16", settings.weights == "fp32"),
        ("trainable=lora or trainable=layers:7", getattr(settings, "trainable", "") in ("all", "default")),
        ("a smaller max_length", True),
    ]
    return "; or ".join(way for way, helps in ways if helps)
