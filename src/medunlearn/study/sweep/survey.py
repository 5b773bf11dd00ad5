"""Survey of a sweep's folder: finished and pending stages, and their estimated time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import pandas as pd

from medunlearn.reports.blocks import Block
from medunlearn.reports.view import ResultView, plain_table, records_table
from medunlearn.study.plans.forecast import untimed
from medunlearn.study.stages import Graph
from medunlearn.study.sweep.sequence_counts import SequenceCounts
from medunlearn.study.sweep.sweep_cost import SweepCost, sweep_cost
from medunlearn.study.sweep.sweep_graph import SweepGraph, sweep_graph
from medunlearn.study.sweep.sweep_plan import Sweep


def costs(stages: SweepGraph, counts: SequenceCounts) -> dict[str, float]:
    """Cost of each stage: number of sequences that it trains on or evaluates, times seconds per sequence if known.

    Seconds per sequence are the median of finished stages of the kind, or else the mean of other kinds; without any
    finished stage the unit is sequences.
    """
    sizes, rates = stages.sequences(counts), dict[str, list[float]]()
    for stage in stages.cells:
        state = stages.graph[stage]
        if state.done and state.seconds is not None and sizes[stage.name] > 0:
            rates.setdefault(stage.kind, []).append(state.seconds / sizes[stage.name])
    usual = {kind: median(values) for kind, values in rates.items()}
    other = sum(usual.values()) / len(usual) if usual else 1.0
    return {stage.name: sizes[stage.name] * usual.get(stage.kind, other) for stage in stages.cells}


@dataclass(frozen=True)
class SweepPlan:
    """Stages of a sweep with measured or estimated seconds; None for kinds without a finished stage."""

    name: str
    stages: SweepGraph
    seconds: Mapping[str, float]
    notes: tuple[str, ...]
    cost: SweepCost = field(default_factory=SweepCost)

    @property
    def graph(self) -> Graph:
        return self.stages.graph

    def view(self, *, every: bool = False) -> ResultView:
        """Pending stages and their price, for the terminal; with ``every`` each of them."""

        def blocks() -> Iterator[Block | str | None]:
            price = self.cost.summary() or "what they take is not known."
            yield f"{self.name}. " + (f"Left: {self.left} cells, {price}" if self.left else "Everything is done.")
            if every:
                columns: dict[str, Any] = {"Cell": "name", "State": "state", "Seconds": _seconds}
                yield records_table(self.rows(), columns, "Cells")
                yield plain_table(("Kind", "Done", "To do"), self.counts(), "Kinds")
                yield from self.cost.blocks()
            seconds, unknown = self.seconds_left()
            if seconds:
                yield f"By the cells that are done about {seconds:.0f} s for one process."
            if unknown and seconds:
                yield f"Seconds of the other {unknown} are not known: no cell of their kind is done."
            yield untimed(self.cost)
            yield from (*self.cost.lines(), *self.notes)

        return ResultView(self.facts, blocks())

    def counts(self) -> list[tuple[str, int, int]]:
        """Kind, number of finished stages, number of pending stages."""
        numbers: dict[str, list[int]] = {}
        for stage in self.stages.cells:
            numbers.setdefault(stage.kind, [0, 0])[not self.graph[stage].done] += 1
        return [(kind, done, left) for kind, (done, left) in numbers.items()]

    @property
    def left(self) -> int:
        """Number of pending stages."""
        return len(self.graph.pending())

    def seconds_left(self) -> tuple[float, int]:
        """Estimated remaining seconds on one worker, and the number of pending stages without an estimate."""
        remaining = [self.seconds.get(stage.name) for stage in self.graph.pending()]
        return sum(filter(None, remaining), 0.0), remaining.count(None)

    def table(self) -> pd.DataFrame:
        """One row per stage: name, kind, state, method, split, seed, context, lr, seconds."""
        return pd.DataFrame(self.rows())

    def facts(self) -> dict[str, Any]:
        """All numbers, for JSON."""
        seconds, unknown = self.seconds_left()
        return {
            "name": self.name,
            "cells": self.rows(),
            "counts": [{"kind": kind, "done": done, "left": left} for kind, done, left in self.counts()],
            "seconds_left": seconds,
            "cells_of_unknown_seconds": unknown,
            "notes": list(self.notes),
            "cost": self.cost.facts(),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Description of each stage, with its state and seconds."""
        return [
            {
                "name": stage.name,
                "kind": stage.kind,
                "state": self.graph[stage].status,
                **{key: getattr(stage, key) for key in ("method", "split", "seed", "context", "lr")},
                "seconds": self.seconds.get(stage.name),
            }
            for stage in self.stages.cells
        ]


def _seconds(row: Mapping[Any, Any]) -> str:
    return "" if row["seconds"] is None else f"{row['seconds']:.1f}"


def foresee(sweep: Sweep, *, device: str = "auto") -> SweepPlan:
    """Finished and pending stages of a sweep, and the cost of the pending ones. Runs and writes nothing.

    For a benchmark that is not built yet, costs are those of invented patients, scaled to its expected size;
    without an expected size, only stages and missing parts are known.
    """
    stages = sweep_graph(sweep, sweep.opened)
    seconds = {stage.name: 0.0 for stage in stages.choices}
    if sweep.opened is not None:
        if sweep.settings.out.exists():
            stages.graph.find_done()
        known = {name: state.seconds for name, state in stages.graph.states.items() if state.seconds is not None}
        expected, seconds = costs(stages, SequenceCounts.of(sweep.opened)), seconds | known
        timed = {stage.kind for stage in stages.cells if stage.name in known and stage.takes_slot}
        pending = [stage for stage in stages.cells if stage.kind in timed and not stages.graph[stage].done]
        seconds |= {stage.name: round(expected[stage.name], 1) for stage in pending}
    cost = sweep_cost(sweep, stages, device=device)
    return SweepPlan(sweep.settings.name, stages, seconds, sweep.notes, cost)
