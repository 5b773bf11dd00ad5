"""What is done of a sweep, what is left, and how long that may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

import pandas as pd

from medunlearn.config import EvaluateSettings, TrainSettings, UnlearnSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import MedunlearnError
from medunlearn.pipeline.experiment import benchmark_folder
from medunlearn.pipeline.material import identity, training_data
from medunlearn.pipeline.questioning import asked
from medunlearn.pipeline.sweep.cells import KINDS, Cell, Made
from medunlearn.pipeline.sweep.plan import Sweep
from medunlearn.pipeline.sweep.search import Tried, choose, tried
from medunlearn.pipeline.sweep.work import job_of, look
from medunlearn.results.evaluated import SUMMARY, as_metrics


def survey(sweep: Sweep, benchmark: Benchmark) -> dict[str, Made]:
    """What is there already, by cell. A cell counts as done only if what it stands on is."""
    made: dict[str, Made] = {}
    folder, known = benchmark_folder(sweep.settings), cache(identity)
    for cell in sweep.cells:
        if any(name not in made for name in cell.needs):
            continue
        if cell.kind == "choose":
            if all(name in made for name in cell.after):
                try:
                    made[cell.name] = Made(lr=choose(tries(sweep, cell, made, {})), seconds=0.0)
                except MedunlearnError:
                    continue
        elif found := look(job_of(cell, sweep, folder, made), benchmark, known):
            made[cell.name] = found
    return made


def tries(sweep: Sweep, cell: Cell, made: Mapping[str, Made], reasons: Mapping[str, str]) -> list[Tried]:
    """The rates that a ``choose`` cell chooses from, with their numbers or why there are none."""
    by_name = {other.name: other for other in sweep.cells}
    found = []
    for name in cell.after:
        method, rate = str(cell.method), float(by_name[name].lr or 0.0)
        evaluation = made[name].evaluation if name in made else None
        if evaluation is None:
            found.append(Tried(method, rate, reason=reasons.get(name, "not run")))
        else:
            found.append(tried(method, rate, as_metrics(pd.read_parquet(evaluation / SUMMARY))))
    return found


def costs(sweep: Sweep, benchmark: Benchmark, made: Mapping[str, Made]) -> dict[str, float]:
    """What each cell takes: sequences that it trains on or asks, times the seconds a sequence where known.

    Seconds a sequence are the median of the done cells of the kind; a kind of which none is done takes the mean of
    the others', and without any done cell the unit is sequences.
    """
    amounts = _Amounts(sweep, benchmark)
    sizes = {cell.name: amounts.of(cell) for cell in sweep.cells}
    rates = _rates(sweep.cells, sizes, made)
    usual = sum(rates.values()) / len(rates) if rates else 1.0
    return {cell.name: sizes[cell.name] * rates.get(cell.kind, usual) for cell in sweep.cells}


def _rates(cells: Sequence[Cell], sizes: Mapping[str, float], made: Mapping[str, Made]) -> dict[str, float]:
    """Seconds a sequence by kind, from cells that are done."""
    found: dict[str, list[float]] = {}
    for cell in cells:
        seconds = made[cell.name].seconds if cell.name in made else None
        if seconds is not None and sizes[cell.name] > 0:
            found.setdefault(cell.kind, []).append(seconds / sizes[cell.name])
    return {kind: median(rates) for kind, rates in found.items()}


class _Amounts:
    """Sequences that a cell trains on (both sides of an unlearning run) or asks."""

    def __init__(self, sweep: Sweep, benchmark: Benchmark) -> None:
        self.sweep, self.benchmark = sweep, benchmark
        self._items = cache(self._count)
        self._questions = cache(lambda settings: len(asked(benchmark, benchmark.split(settings.split), settings)))

    def of(self, cell: Cell) -> float:
        if cell.kind in ("target", "retrained"):
            train = self.sweep.training(cell.seed, cell.split)
            return self._trained(train)
        if cell.kind == "evaluate":
            return self._asked(self.sweep.evaluating(cell))
        if cell.kind == "attack":
            return float(
                len(self.benchmark.questions_of(self.benchmark.split(str(cell.split)), "forget", ("train",)))
            )
        if cell.kind == "choose":
            return 0.0
        unlearn = self.sweep.unlearning(cell, cell.lr)
        questions = self._asked(self.sweep.evaluating(cell)) if cell.kind == "search" else 0.0
        return self._unlearned(unlearn) + questions

    def _trained(self, settings: TrainSettings) -> float:
        return float(self._items(settings.without) * (settings.epochs + settings.pretrain_epochs))

    def _unlearned(self, settings: UnlearnSettings) -> float:
        forget = self._items(None) - self._items(settings.split)
        return 2.0 * forget * settings.epochs

    def _asked(self, settings: EvaluateSettings) -> float:
        return float(self._questions(settings))

    def _count(self, without: str | None) -> int:
        records, questions = training_data(self.benchmark, without)
        return len(records) + len(questions)


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep would still do.

    Attributes:
        name: of the sweep.
        cells: all of them.
        done: names of those that are done.
        seconds: of a cell, as it took or may take; nothing where no cell of its kind is done.
        notes: what a reader of the results should know.
    """

    name: str
    cells: tuple[Cell, ...]
    done: frozenset[str]
    seconds: Mapping[str, float]
    notes: tuple[str, ...]

    def counts(self) -> list[tuple[str, int, int]]:
        """Kind, cells done, cells left."""
        rows: list[tuple[str, int, int]] = []
        for kind in KINDS:
            names = [cell.name for cell in self.cells if cell.kind == kind]
            done = sum(name in self.done for name in names)
            if names:
                rows.append((kind, done, len(names) - done))
        return rows

    @property
    def left(self) -> int:
        """Cells to do."""
        return len(self.cells) - len(self.done)

    def seconds_left(self) -> tuple[float, int]:
        """Seconds of work left, by one worker, and how many cells left are not in it for want of a done one."""
        left = [cell.name for cell in self.cells if cell.name not in self.done]
        return sum(self.seconds.get(name, 0.0) for name in left), sum(name not in self.seconds for name in left)

    def table(self) -> pd.DataFrame:
        """One row a cell: name, kind, state, method, split, seed, context, lr, seconds."""
        return pd.DataFrame(self._rows())

    def facts(self) -> dict[str, Any]:
        """Everything, for JSON."""
        seconds, unknown = self.seconds_left()
        return {
            "name": self.name,
            "cells": self._rows(),
            "counts": [{"kind": kind, "done": done, "left": left} for kind, done, left in self.counts()],
            "seconds_left": seconds,
            "cells_of_unknown_seconds": unknown,
            "notes": list(self.notes),
        }

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "name": cell.name,
                "kind": cell.kind,
                "state": "done" if cell.name in self.done else "to do",
                "method": cell.method,
                "split": cell.split,
                "seed": cell.seed,
                "context": cell.context,
                "lr": cell.lr,
                "seconds": self.seconds.get(cell.name),
            }
            for cell in self.cells
        ]


def foresee(sweep: Sweep) -> SweepPlan:
    """What is done of a sweep and what is left. Runs and writes nothing.

    Of a benchmark that a language model has yet to build, nothing is known but the cells.
    """
    benchmark = sweep.opened
    made = survey(sweep, benchmark) if benchmark is not None else {}
    seconds = {cell.name: 0.0 for cell in sweep.cells if cell.kind == "choose"}
    seconds |= {name: found.seconds for name, found in made.items() if found.seconds is not None}
    if benchmark is not None:
        timed = {cell.kind for cell in sweep.cells if cell.name in seconds}
        expected = costs(sweep, benchmark, made)
        seconds |= {
            cell.name: round(expected[cell.name], 1)
            for cell in sweep.cells
            if cell.name not in made and cell.kind in timed - {"choose"}
        }
    return SweepPlan(sweep.settings.name, sweep.cells, frozenset(made), seconds, sweep.notes)
