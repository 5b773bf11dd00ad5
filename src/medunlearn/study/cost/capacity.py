"""Memory and disk of the machine, whether an estimate fits, and what to change if it does not."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from medunlearn.models.pretrained import pick_device
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.memory import LIBRARIES, Memory
from medunlearn.study.cost.throughput import this_device

GIB = 2**30
GPUS = (Path("/dev/nvidiactl"), Path("/dev/kfd"), Path("/dev/dxg"))
"""Of NVIDIA, of AMD, and of either below Windows."""
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@dataclass(frozen=True)
class Capacity:
    """Bytes of memory or GPU memory, total and free, and free bytes of the output disk."""

    kind: Literal["memory", "GPU memory"]
    total: int
    available: int
    disk: int

    def parts(self, memory: Memory) -> dict[str, float]:
        """Bytes that a peak takes of it, by part: tensors, and on a CPU the rest of the process."""
        parts = vars(memory) | {"libraries": LIBRARIES if memory.total else 0}
        if self.kind == "GPU memory":
            del parts["retained"], parts["libraries"]
        return parts

    def needed(self, memory: Memory) -> float:
        """Sum of the parts; 0 for no work."""
        return sum(self.parts(memory).values())

    def fit(self, memory: Memory, warnings: Collection[str]) -> str:
        """Memory beside what is free, in words."""
        fits = "too much" if warnings else "fits"
        free = f"{shown_bytes(self.available)} of {shown_bytes(self.total)} are free"
        return f"{shown_bytes(self.needed(memory))} of {self.kind} at once ({fits}: {free})"

    def hours(self, cost: Cost) -> float | None:
        """Hours of a cost on this machine; None if it was not timed yet."""
        kind = "cuda" if self.kind == "GPU memory" else "cpu"
        device = this_device(kind, "bf16") or this_device(kind, "fp32")
        return None if device is None else device.hours(cost)


def shown_bytes(size: float) -> str:
    """``1.5 GiB``, for smaller ones ``312 MiB`` or ``7 KiB``."""
    if size >= GIB:
        return f"{size / GIB:.1f} GiB"
    return f"{size / 2**20:.0f} MiB" if size >= 2**20 else f"{size / 2**10:.0f} KiB"


def shown_number(number: float) -> str:
    """A number with three digits and a unit: 749k, 11.4T."""
    for unit in ("", "k", "M", "G", "T", "P"):
        if number < 999.5:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g}E"


def is_gpu(device: str) -> bool:
    """True if a device is a GPU; asks torch only on a machine that may have one.

    Raises:
        InputError: no such device on this machine.
    """
    if device == "cpu" or (
        device == "auto" and not any(path.exists() for path in GPUS) and sys.platform == "linux"
    ):
        return False
    return pick_device(device).type != "cpu"


def capacity_of(device: str, out: Path) -> Capacity:
    """The capacity of a device, and of the disk of a folder that may not exist yet."""
    folder = next((path for path in (out, *out.absolute().parents) if path.exists()), Path())
    disk = shutil.disk_usage(folder).free
    if is_gpu(device) and (where := pick_device(device)).type == "cuda":
        import torch

        free, total = torch.cuda.mem_get_info(where)
        return Capacity("GPU memory", total, free, disk)
    memory, limits = psutil.virtual_memory(), []
    for path in LIMITS:
        with suppress(OSError, ValueError):
            limits.append(int(path.read_text()))
    total = min([memory.total, *limits])
    return Capacity("memory", total, min(memory.available, total), disk)


def advice(memory: Memory, disk: float, capacity: Capacity, stage: str = "The run") -> Iterator[str]:
    """Exceeded resources (``memory`` is that of the largest stage), with the settings to change."""
    if needed := capacity.needed(memory):
        on_gpu, total = capacity.kind == "GPU memory", f"{shown_bytes(capacity.total)} of {capacity.kind}"
        if needed > capacity.total:
            yield (
                f"{stage} will not fit: it takes about {shown_bytes(needed)}, and there are {total}. "
                f"Change {_savings(memory, on_gpu)}."
            )
        elif needed > capacity.available:
            yield (
                f"{stage} may not fit: it takes about {shown_bytes(needed)}, and {shown_bytes(capacity.available)} "
                f"of {total} are free. Close other programs, or change {_savings(memory, on_gpu)}."
            )
    if disk > capacity.disk:
        free = shown_bytes(capacity.disk)
        yield f"The disk is too small: the run writes {shown_bytes(disk)}, and {free} are free."


def _savings(memory: Memory, on_gpu: bool) -> str:
    """Settings that save memory, largest saving first."""
    trained = memory.gradients + memory.moments + memory.reference
    same = [
        (
            memory.activations,
            "--micro-batch-size 1 or --gradient-checkpointing (a smaller pass)" if trained else "",
        ),
        (memory.moments, "--offload optimizer (moments on the host)" if on_gpu else ""),
        (memory.weights if trained else 0, "--sharding fsdp2 (several GPUs)" if on_gpu else ""),
        (memory.cache, "--evaluate.batch-size (fewer answers at a time)"),
    ]
    others = [
        (trained, "--trainable lora or --trainable layers:7 (less is trained)"),
        (memory.moments, "--optimizer adamw_8bit (smaller moments)"),
        (memory.activations if trained else 0, "--context closed_book (shorter passes)"),
        (memory.cache, "--evaluate.max-new-tokens (shorter answers)"),
        (memory.weights, "--weights bf16 or the model, for a smaller one"),
    ]
    ways = [
        "; or ".join(way for size, way in sorted(part, key=lambda pair: -pair[0]) if size and way)
        for part in (same, others)
    ]
    return ", or, which makes it another experiment: ".join(filter(None, ways))
