"""Price of a sweep's pending cells before it starts, and required parts missing on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from medunlearn.config import ExpectedSettings, check
from medunlearn.errors import MedunlearnError
from medunlearn.reports.blocks import Block
from medunlearn.reports.view import plain_table
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.pricing import Pricing
from medunlearn.study.cost.throughput import DECODING, PASSES, device_named
from medunlearn.study.plans.capacity import Capacity, capacity_of, capacity_of_named, is_gpu
from medunlearn.study.plans.forecast import cost_cells
from medunlearn.study.plans.missing import NOT_BUILT, missing_parts
from medunlearn.study.sweep.expected_benchmark import expected_benchmark, lengthen
from medunlearn.study.sweep.sweep_graph import SweepGraph
from medunlearn.study.sweep.sweep_plan import Sweep
from medunlearn.terminal import short_number, size


@dataclass(frozen=True)
class KindCost:
    """Price of the pending cells of one kind.

    Attributes:
        label: kind, and method if it has one.
        cost: of all of them, with the memory of the largest.
        hours: hours on the named device, summed over processes; None without one.
        note: what the numbers exclude.
    """

    label: str
    cells: int = 0
    cost: Cost = field(default_factory=Cost)
    hours: float | None = None
    note: str = ""


@dataclass(frozen=True)
class SweepCost:
    """Price of all pending work; ``warnings`` lists what does not fit, ``missing`` the missing parts."""

    kinds: tuple[KindCost, ...] = ()
    device: str | None = None
    capacity: Capacity | None = None
    missing: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def total(self) -> Cost:
        return sum((kind.cost for kind in self.kinds), Cost())

    @property
    def hours(self) -> float | None:
        """Hours of one process on the named device, or on this one if it was measured."""
        if not self.kinds:
            return None
        if self.device is not None:
            return sum(kind.hours or 0.0 for kind in self.kinds)
        return None if self.capacity is None else self.capacity.hours(self.total)

    @property
    def disk(self) -> float:
        """Bytes of the sweep's results, and of its largest checkpoints."""
        return self.total.disk + max((kind.cost.scratch for kind in self.kinds), default=0.0)

    @property
    def warnings(self) -> tuple[str, ...]:
        if self.capacity is None or not self.kinds:
            return ()
        largest = max(self.kinds, key=lambda kind: kind.cost.memory.total)
        return tuple(self.capacity.advice(largest.cost.memory, self.disk, f"A cell ({largest.label})"))

    def summary(self) -> str:
        """The price in one line; empty without one."""
        if not self.kinds or self.capacity is None:
            return ""
        hours = "" if self.hours is None else f", about {self.hours:.3g} hours of one {self.device or 'process'}"
        memory = self.capacity.fit(self.total.memory)
        return f"{short_number(self.total.flops)} FLOPs{hours}, {memory}, {size(self.disk)} on the disk."

    def lines(self) -> Iterator[str]:
        """Lines on the numbers, and on what to prepare before the sweep starts."""
        if self.hours is not None and self.device is not None:
            yield (
                f"Hours of one {self.device}: taken to reach {PASSES:.0%} of its matrix products and in decoding "
                f"{DECODING:.0%} of its bandwidth; loading and scores are not counted."
            )
        yield from (*self.doubts, *self.warnings, *self.missing)

    def blocks(self) -> Iterator[Block | str]:
        """The price by kind, and what it excludes."""
        if not self.kinds or self.capacity is None:
            return
        rows = []
        for kind in self.kinds:
            flops, memory, disk = cost_cells(kind.cost, self.capacity, kind.cost.disk)
            hours = "" if kind.hours is None else f"{kind.hours:.2g}"
            rows.append((kind.label, kind.cells, flops, hours, memory, disk))
        yield plain_table(("Kind", "Cells", "FLOPs", "GPU-hours", "Memory", "Disk"), rows, "Left")
        yield from (f"{kind.label}: {kind.note}" for kind in self.kinds if kind.note)

    def facts(self) -> dict[str, Any]:
        kinds = [
            {"label": kind.label, "cells": kind.cells, "work": kind.cost.facts(), "hours": kind.hours}
            | {"disk": kind.cost.disk, "scratch": kind.cost.scratch, "note": kind.note}
            for kind in self.kinds
        ]
        lists = {name: list(getattr(self, name)) for name in ("warnings", "missing", "doubts")}
        return {"kinds": kinds, "device": self.device, **lists, "hours": self.hours, "disk_bytes": self.disk}


def sweep_cost(sweep: Sweep, stages: SweepGraph, *, device: str = "auto") -> SweepCost:
    """Price of the pending cells, on this machine or the sweep's ``device_name``.

    Raises:
        UnknownNameError: no such device.
    """
    name, settings = sweep.settings.device_name, sweep.settings
    missing = tuple(_missing(sweep, stages))
    if sweep.opened is None and not settings.expected:
        return SweepCost((), name, missing=missing, doubts=(NOT_BUILT,))
    try:
        pricing = sweep_pricing(sweep, on_gpu=name is not None or is_gpu(device))
    except MedunlearnError as error:
        return SweepCost((), name, missing=missing, doubts=(str(error),))
    capacity = capacity_of(device, settings.out) if name is None else capacity_of_named(name, settings.out)
    doubts = pricing.doubts
    if pricing.growth != 1.0:
        patients = settings.expected.get("synthetic", 40)
        doubts += (
            f"The benchmark is not built yet: numbers are those of {patients} invented patients, times "
            f"{pricing.growth:.4g}.",
        )
    return SweepCost(tuple(_kinds(stages, pricing, name)), name, capacity, missing, doubts)


def sweep_pricing(sweep: Sweep, *, on_gpu: bool) -> Pricing:
    """Prices of a sweep's stages; for a benchmark that is not built, of its expected size."""
    target = sweep.training(sweep.seeds[0])
    how: dict[str, Any] = {"on_gpu": on_gpu, "processes": sweep.settings.processes}
    if sweep.opened is not None:
        return Pricing.of(sweep.opened, target, **how)
    expected = check(ExpectedSettings, sweep.settings.expected)
    with expected_benchmark(sweep.settings) as (small, growth):
        pricing = Pricing.of(small, target, **how)
    sizes = replace(pricing.sizes, benchmark=lengthen(small, expected, pricing.sizes.tokenizer.count))
    if expected.image_pixels is not None and (tower := pricing.shape.tower) is not None:
        sizes = sizes.with_image_tokens(max(1, round(expected.image_pixels / tower.side**2)))
    return replace(pricing, sizes=sizes, growth=growth)


def _kinds(stages: SweepGraph, pricing: Pricing, device: str | None) -> Iterator[KindCost]:
    """Prices of the pending stages, summed by label."""
    kinds = dict[str, KindCost]()
    for stage in stages.cells:
        if stages.graph[stage].done or not stage.takes_slot:
            continue
        price, label = stage.price(pricing), stage.group
        own = kinds.get(label, KindCost(label))
        hours = None
        if device is not None:
            hours = (own.hours or 0.0) + device_named(device).hours(price.cost, price.batch_size)
        kinds[label] = KindCost(label, own.cells + 1, own.cost + price.cost, hours, price.note)
    return iter(kinds.values())


def _missing(sweep: Sweep, stages: SweepGraph) -> Iterator[str]:
    return missing_parts(
        sweep.opened,
        str(sweep.settings.train.get("model")),
        stages.evaluations[0].settings,
        judges=sweep.judges.judges if sweep.judges else (),
        extracts_here=sweep.settings.extractor_python is None,
    )
