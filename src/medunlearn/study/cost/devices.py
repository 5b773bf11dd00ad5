"""Devices by name, with memory, compute and bandwidth from data sheets, and run times on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from medunlearn.errors import UnknownNameError
from medunlearn.study.cost.formulas import Cost

PASSES, DECODING = 0.35, 0.5
"""Shares of peak products in a pass, and of peak bandwidth in decoding, that a run is assumed to reach."""


class Device(NamedTuple):
    """One GPU.

    Attributes:
        memory: size in bytes.
        products: dense bf16 FLOPs per second, without sparsity.
        bandwidth: bytes per second between memory and processor.
    """

    memory: float
    products: float
    bandwidth: float

    def hours(self, cost: Cost, batch_size: int) -> float:
        """Estimated hours of some work on one device: its passes, then decoding, which reads all weights per step.

        Args:
            batch_size: answers decoded together.
        """
        steps = cost.generated / max(batch_size, 1)
        read = steps * cost.memory.weights / (DECODING * self.bandwidth)
        return (cost.flops / (PASSES * self.products) + read) / 3600


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
