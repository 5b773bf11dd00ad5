"""Survey of a sweep's folder: cells that are done, pending cells, and the time that they may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

import pandas as pd

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import MedunlearnError
from medunlearn.pipeline.experiment import benchmark_folder
from medunlearn.pipeline.material import identity, training_data
from medunlearn.pipeline.questioning import questions_to_ask
from medunlearn.pipeline.sweep.cells import KINDS, CellOutput, SweepCell
from medunlearn.pipeline.sweep.jobs import Outputs, job_of
from medunlearn.pipeline.sweep.plan import Sweep
from medunlearn.pipeline.sweep.search import Trial, best_rate, trial_of
from medunlearn.results.evaluated import SUMMARY, as_metrics


def survey(sweep: Sweep, benchmark: Benchmark) -> dict[str, CellOutput]:
    """Outputs on disk, by cell. A cell counts as done only if what it stands on is."""
    outputs: dict[str, CellOutput] = {}
    folder, known = benchmark_folder(sweep.settings), cache(identity)
    for cell in sweep.cells:
        if any(name not in outputs for name in cell.needs):
            continue
        if cell.kind == "choose":
            if all(name in outputs for name in cell.after):
                try:
                    rate = best_rate(trials(sweep, cell, outputs, {}))
                except MedunlearnError:
                    continue
                outputs[cell.name] = CellOutput(lr=rate, seconds=0.0)
        elif output := job_of(cell, sweep, folder, outputs).output(benchmark, known):
            outputs[cell.name] = output
    return outputs


def trials(sweep: Sweep, cell: SweepCell, outputs: Outputs, reasons: Mapping[str, str]) -> list[Trial]:
    """The rates that a ``choose`` cell chooses from, with their numbers or why there are none."""
    rates = {other.name: float(other.lr or 0.0) for other in sweep.cells}
    rows = []
    for name in cell.after:
        evaluation = outputs[name].evaluation if name in outputs else None
        if evaluation is None:
            rows.append(Trial(str(cell.method), rates[name], reason=reasons.get(name, "not run")))
        else:
            rows.append(trial_of(str(cell.method), rates[name], as_metrics(pd.read_parquet(evaluation / SUMMARY))))
    return rows


def costs(sweep: Sweep, benchmark: Benchmark, outputs: Outputs) -> dict[str, float]:
    """Cost of each cell: sequences that it trains on or asks, times the seconds a sequence where known.

    Seconds a sequence are the median of the done cells of the kind; a kind of which none is done takes the mean of
    the others', and without any done cell the unit is sequences.
    """
    sizes = _sizes(sweep, benchmark)
    rates = _rates(sweep.cells, sizes, outputs)
    usual = sum(rates.values()) / len(rates) if rates else 1.0
    return {cell.name: sizes[cell.name] * rates.get(cell.kind, usual) for cell in sweep.cells}


def _rates(cells: Sequence[SweepCell], sizes: Mapping[str, float], outputs: Outputs) -> dict[str, float]:
    """Seconds a sequence by kind, from cells that are done."""
    rates: dict[str, list[float]] = {}
    for cell in cells:
        seconds = outputs[cell.name].seconds if cell.name in outputs else None
        if seconds is not None and sizes[cell.name] > 0:
            rates.setdefault(cell.kind, []).append(seconds / sizes[cell.name])
    return {kind: median(values) for kind, values in rates.items()}


def _sizes(sweep: Sweep, benchmark: Benchmark) -> dict[str, float]:
    """Sequences that each cell trains on (both sides of an unlearning run) or asks."""

    @cache
    def items(without: str | None) -> int:
        records, questions = training_data(benchmark, without)
        return len(records) + len(questions)

    @cache
    def questions(settings: EvaluateSettings) -> int:
        return len(questions_to_ask(benchmark, benchmark.split(settings.split), settings))

    def size(cell: SweepCell) -> float:
        match cell.kind:
            case "target" | "retrained":
                training = sweep.training(cell.seed, cell.split)
                return items(training.without) * (training.epochs + training.pretrain_epochs)
            case "evaluate":
                return questions(sweep.evaluating(cell))
            case "attack":
                return len(benchmark.questions_of(benchmark.split(str(cell.split)), "forget", ("train",)))
            case "choose":
                return 0.0
        settings = sweep.unlearning(cell, cell.lr)
        forget = items(None) - items(settings.split)
        return 2.0 * forget * settings.epochs + (
            questions(sweep.evaluating(cell)) if cell.kind == "search" else 0.0
        )

    return {cell.name: float(size(cell)) for cell in sweep.cells}


@dataclass(frozen=True)
class SweepPlan:
    """Cells of a sweep, which of them are done, and the time that the others may take.

    Attributes:
        name: of the sweep.
        cells: all of them.
        done: names of those that are done.
        seconds: of a cell, as it took or may take; nothing where no cell of its kind is done.
        notes: warnings for a reader of the results.
    """

    name: str
    cells: tuple[SweepCell, ...]
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
        """Number of pending cells."""
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
                **{key: getattr(cell, key) for key in ("method", "split", "seed", "context", "lr")},
                "seconds": self.seconds.get(cell.name),
            }
            for cell in self.cells
        ]


def foresee(sweep: Sweep) -> SweepPlan:
    """Done and pending cells of a sweep. Runs and writes nothing.

    Of a benchmark that a language model has yet to build, nothing is known but the cells.
    """
    benchmark = sweep.opened
    outputs = survey(sweep, benchmark) if benchmark is not None else {}
    seconds = {cell.name: 0.0 for cell in sweep.cells if cell.kind == "choose"}
    seconds |= {name: output.seconds for name, output in outputs.items() if output.seconds is not None}
    if benchmark is not None:
        timed = {cell.kind for cell in sweep.cells if cell.name in seconds} - {"choose"}
        expected = costs(sweep, benchmark, outputs)
        pending = [cell for cell in sweep.cells if cell.name not in outputs and cell.kind in timed]
        seconds |= {cell.name: round(expected[cell.name], 1) for cell in pending}
    return SweepPlan(sweep.settings.name, sweep.cells, frozenset(outputs), seconds, sweep.notes)
