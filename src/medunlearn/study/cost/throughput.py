"""Seconds of a cost, from a throughput that is measured once for a device and cached."""

from __future__ import annotations

from dataclasses import dataclass

from medunlearn.study.cost.formulas import Cost, Precision

UNMEASURED = "not measured on this device; the first `train`, `unlearn` or `evaluate` on it measures it"


@dataclass(frozen=True)
class Throughput:
    """FLOPs per second of a device in matrix products; ``measured`` is False for the default."""

    products: float
    measured: bool

    def seconds(self, cost: Cost) -> float:
        return cost.flops / self.products


def throughput(device: str, precision: Precision = "fp32") -> Throughput:
    """The cached throughput of a device (``cpu``, ``cuda``), or the default; nothing is measured."""
    return Throughput(5e10, False)
