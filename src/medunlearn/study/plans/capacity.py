"""Memory and disk of the machine, whether an estimate fits, and what to change if it does not."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from medunlearn.models.pretrained import pick_device
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.memory import LIBRARIES, Memory
from medunlearn.study.cost.throughput import Device, device_named, this_device, time_device
from medunlearn.terminal import size

GPUS = (Path("/dev/nvidiactl"), Path("/dev/kfd"), Path("/dev/dxg"))
"""Of NVIDIA, of AMD, and of either below Windows."""
_OF_PROCESS = ("retained", "libraries")
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@dataclass(frozen=True)
class Capacity:
    """Bytes of memory or GPU memory, total and free, and free bytes of the output disk.

    Attributes:
        device: device of the table of data sheets that the numbers are of; None: this machine's.
    """

    kind: Literal["memory", "GPU memory"]
    total: int
    available: int
    disk: int
    device: str | None = None

    @property
    def on_gpu(self) -> bool:
        return self.kind == "GPU memory"

    def parts(self, memory: Memory) -> dict[str, float]:
        """Bytes that a peak takes of it, by part: tensors, and on a CPU the rest of the process."""
        parts = vars(memory) | {"libraries": LIBRARIES if memory.total else 0}
        return {name: part for name, part in parts.items() if not self.on_gpu or name not in _OF_PROCESS}

    def needed(self, memory: Memory) -> float:
        """Sum of the parts; 0 for no work."""
        return sum(self.parts(memory).values())

    def fit(self, memory: Memory) -> str:
        """Memory beside what is free, in words."""
        fits = "too much" if self.needed(memory) > self.available else "fits"
        free = f"{size(self.available)} of {size(self.total)} are free"
        return f"{size(self.needed(memory))} of {self.kind} at once ({fits}: {free})"

    def hours(self, cost: Cost) -> float | None:
        """Hours of a cost on the named device, or on this machine; None if this one was not timed yet."""
        if self.device is not None:
            return device_named(self.device).hours(cost)
        kind = "cuda" if self.on_gpu else "cpu"
        device = this_device(kind, "bf16") or this_device(kind, "fp32")
        return None if device is None else device.hours(cost)

    def advice(self, memory: Memory, disk: float, stage: str = "The run") -> Iterator[str]:
        """Exceeded resources (``memory`` is that of the largest stage), with the settings to change."""
        needed = self.needed(memory)
        takes, total = f"it takes about {size(needed)}, and", f"{size(self.total)} of {self.kind}"
        if needed > self.total:
            yield f"{stage} will not fit: {takes} there are {total}. Change {_savings(memory, self.on_gpu)}."
        elif needed > self.available:
            yield (
                f"{stage} may not fit: {takes} {size(self.available)} of {total} are free. Close other programs, "
                f"or change {_savings(memory, self.on_gpu)}."
            )
        if disk > self.disk:
            yield f"The disk is too small: the run writes {size(disk)}, and {size(self.disk)} are free."


def is_gpu(device: str) -> bool:
    """True if a device is a GPU; asks torch only on a machine that may have one.

    Raises:
        InputError: no such device on this machine.
    """
    if device == "auto" and sys.platform == "linux" and not any(path.exists() for path in GPUS):
        return False
    return device != "cpu" and pick_device(device).type != "cpu"


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


def capacity_of_named(name: str, out: Path) -> Capacity:
    """The capacity of a device by its data sheet, all of it free, beside this machine's disk.

    Raises:
        UnknownNameError: no such device.
    """
    memory = int(device_named(name).memory)
    return Capacity("GPU memory", memory, memory, capacity_of("cpu", out).disk, name)


def time_capacity(device: str) -> Device:
    """Time a device in the precision that ``auto`` means there, for :meth:`Capacity.hours`, unless that is stored.

    Raises:
        InputError: no such device on this machine.
    """
    import torch

    from medunlearn.models.precision import settled

    kind = "cuda" if is_gpu(device) and pick_device(device).type == "cuda" else "cpu"
    return time_device(kind, settled("auto", torch.device(kind)))


def _savings(memory: Memory, on_gpu: bool) -> str:
    """Settings that save memory, largest saving first; behind them those that make it another experiment."""
    trained = memory.gradients + memory.moments + memory.reference
    of_training = memory.activations * bool(trained)
    same = {
        "--micro-batch-size 1 or --gradient-checkpointing (a smaller pass)": of_training,
        "--offload optimizer (moments on the host)": memory.moments * on_gpu,
        "--sharding fsdp2 (several GPUs)": memory.weights * bool(trained) * on_gpu,
        "--evaluate.batch-size (fewer answers at a time)": memory.cache,
    }
    others = {
        "--trainable lora or --trainable layers:7 (less is trained)": trained,
        "--optimizer adamw_8bit (smaller moments)": memory.moments,
        "--context closed_book (shorter passes)": of_training,
        "--evaluate.max-new-tokens (shorter answers)": memory.cache,
        "--weights bf16 or the model, for a smaller one": memory.weights,
    }
    ways = ("; or ".join(sorted(filter(part.get, part), key=lambda way: -part[way])) for part in (same, others))
    return ", or, which makes it another experiment: ".join(filter(None, ways))
