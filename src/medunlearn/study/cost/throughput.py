"""Hours of a cost, by a device's data sheet or by a matrix product that is timed once on this machine."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from medunlearn.data.storage import write_json
from medunlearn.errors import StorageError, UnknownNameError
from medunlearn.results.machine import hardware
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.memory import Precision

PASSES, DECODING, TIMED = 0.35, 0.5, 0.6
"""Shares of a data sheet's products in passes and of its bandwidth in decoding, and of timed products in passes."""
SIDE, TIMED_SECONDS = 1024, 0.2


class Device(NamedTuple):
    """A device: memory in bytes, bf16 products in FLOPs per second, and bandwidth in bytes per second."""

    memory: float
    products: float
    bandwidth: float
    share: float = PASSES

    def hours(self, cost: Cost, batch_size: int = 1) -> float:
        """Hours of passes, and of decoding ``batch_size`` answers together, which reads all weights per token."""
        read = cost.generated / max(batch_size, 1) * cost.memory.weights
        return (cost.flops / (self.share * self.products) + read / (DECODING * self.bandwidth)) / 3600


# NVIDIA: data sheets of A100 (2021), H100 and H200 (2023, 2024; SXM), L40S, RTX A6000, the Ada architecture's white
# paper (RTX 4090, fp32 sums), Blackwell (B200). AMD: data sheet of the MI300X (2023).
DEVICES: Mapping[str, Device] = {
    "A100-40GB": Device(40e9, 312e12, 1.555e12),
    "A100": Device(80e9, 312e12, 2.039e12),
    "H100": Device(80e9, 989e12, 3.35e12),
    "H200": Device(141e9, 989e12, 4.8e12),
    "B200": Device(180e9, 2250e12, 7.7e12),
    "L40S": Device(48e9, 362e12, 0.864e12),
    "A6000": Device(48e9, 155e12, 0.768e12),
    "RTX4090": Device(24e9, 165e12, 1.008e12),
    "MI300X": Device(192e9, 1307e12, 5.3e12),
}


def device_named(name: str) -> Device:
    """A device of the table. Raises UnknownNameError: names the closest one."""
    for device_name, device in DEVICES.items():
        if device_name.lower() == name.lower():
            return device
    raise UnknownNameError("device", name, DEVICES)


def this_device(kind: str, precision: Precision) -> Device | None:
    """This machine's ``cpu`` or ``cuda`` as it was timed; None if it has not been (:func:`time_device`)."""
    rates = _rates().get(_key(kind, precision))
    return Device(0, *rates, TIMED) if rates else None


def time_device(kind: str, precision: Precision) -> Device:
    """Time matrix products and copies on this machine for a fraction of a second, unless that is cached."""
    import torch
    from torch.utils.benchmark import Timer

    if (known := this_device(kind, precision)) is not None:
        return known
    matrix = torch.ones(SIDE, SIDE, device=kind, dtype=torch.bfloat16 if precision == "bf16" else torch.float32)
    large = torch.ones(1 << 26, device=kind, dtype=torch.uint8)
    values = {"matrix": matrix, "large": large, "other": large.clone()}
    product, copy = (
        Timer(line, globals=values, num_threads=torch.get_num_threads()).blocked_autorange(
            min_run_time=TIMED_SECONDS
        )
        for line in ("matrix @ matrix", "other.copy_(large)")
    )
    # A copy reads and writes.
    rates = 2 * SIDE**3 / product.median, 2 * large.nbytes / copy.median
    with suppress(OSError, StorageError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        write_json(_file(), {**_rates(), _key(kind, precision): rates})
    return Device(0, *rates, TIMED)


def _rates() -> dict[str, tuple[float, float]]:
    """Timed devices -> products and bandwidth; those that cannot be read are timed again."""
    try:
        rates = json.loads(_file().read_text())
        return {name: (float(products), float(bandwidth)) for name, (products, bandwidth) in rates.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _file() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "medunlearn" / "throughput.json"


def _key(kind: str, precision: Precision) -> str:
    facts = hardware()
    # Without torch the name of a GPU is unknown, and a home folder may be that of several machines.
    name = facts["processor"] if kind == "cpu" else platform.node()
    return f"{kind}, {name}, {os.environ.get('OMP_NUM_THREADS') or facts['cores']} cores, {precision}"
