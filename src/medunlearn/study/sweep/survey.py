"""Survey of a sweep's folder: finished and pending cells, and their estimated time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from statistics import median
from typing import Any

import pandas as pd

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import read_frame
from medunlearn.errors import MedunlearnError
from medunlearn.models.folders import model_identity
from medunlearn.probes.material import training_data
from medunlearn.probes.question_selection import questions_to_ask
from medunlearn.results.evaluated import SUMMARY
from medunlearn.results.runs import RunRecord
from medunlearn.study.experiment import benchmark_folder
from medunlearn.study.sweep.cells import KINDS, SweepCell, mark_done
from medunlearn.study.sweep.rate_search import Trial, best_rate, trial_of
from medunlearn.study.sweep.sweep_cost import SweepCost, sweep_cost
from medunlearn.study.sweep.sweep_plan import Sweep


def is_done_in(sweep: Sweep, benchmark: Benchmark) -> Callable[[SweepCell], bool]:
    """Test for a cell with finished dependencies: True if its output is on disk, which is then set in the cell."""
    from medunlearn.study.sweep.jobs import job_of  # loads torch, which a sweep with nothing done does not need

    folder, identity = benchmark_folder(sweep.settings), cache(model_identity)

    def is_done(cell: SweepCell) -> bool:
        if cell.takes_process:
            output = job_of(cell, sweep, folder).output(benchmark, identity)
            if output:
                cell.folder, cell.evaluation, cell.seconds = output
            return output is not None
        if not all(sweep.cell[name].done for name in cell.after):
            return False
        try:
            cell.lr, cell.seconds = best_rate(trials(sweep, cell)), 0.0
        except MedunlearnError:
            return False
        return True

    return is_done


def trials(sweep: Sweep, cell: SweepCell) -> list[Trial]:
    """The candidate rates of a ``choose`` cell, with their numbers or reasons."""
    rows, method = [], str(cell.method)
    for search in (sweep.cell[name] for name in cell.after):
        rate = float(search.lr or 0.0)
        if search.evaluation is None:
            rows.append(Trial(method, rate, reason=search.reason or "not run"))
        else:
            problem = "; ".join(RunRecord.read(search.evaluation).problems)
            table = read_frame(search.evaluation / SUMMARY, ("measure", "value"))
            rows.append(trial_of(method, rate, table, problem))
    return rows


def costs(sweep: Sweep, benchmark: Benchmark) -> dict[str, float]:
    """Cost of each cell: number of sequences that it trains on or evaluates, times seconds per sequence if known.

    Seconds per sequence are the median of finished cells of the kind, or else the mean of other kinds; without any
    finished cell the unit is sequences.
    """
    sizes, rates = _sizes(sweep, benchmark), dict[str, list[float]]()
    for cell in sweep.cells:
        if cell.done and cell.seconds is not None and sizes[cell.name] > 0:
            rates.setdefault(cell.kind, []).append(cell.seconds / sizes[cell.name])
    usual = {kind: median(values) for kind, values in rates.items()}
    other = sum(usual.values()) / len(usual) if usual else 1.0
    return {cell.name: sizes[cell.name] * usual.get(cell.kind, other) for cell in sweep.cells}


def _sizes(sweep: Sweep, benchmark: Benchmark) -> dict[str, float]:
    """Number of sequences that each cell trains on (both sides in unlearning) or evaluates."""

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
        search_questions = questions(sweep.evaluating(cell)) if cell.kind == "search" else 0.0
        return 2.0 * (items(None) - items(settings.split)) * settings.epochs + search_questions

    return {cell.name: float(size(cell)) for cell in sweep.cells}


@dataclass(frozen=True)
class SweepPlan:
    """Cells of a sweep with measured or estimated seconds; None for kinds without a finished cell."""

    name: str
    cells: tuple[SweepCell, ...]
    seconds: Mapping[str, float]
    notes: tuple[str, ...]
    cost: SweepCost = field(default_factory=SweepCost)

    def counts(self) -> list[tuple[str, int, int]]:
        """Kind, number of finished cells, number of pending cells."""
        finished = {kind: [cell.done for cell in self.cells if cell.kind == kind] for kind in KINDS}
        return [(kind, sum(cells), len(cells) - sum(cells)) for kind, cells in finished.items() if cells]

    @property
    def done(self) -> set[str]:
        """Names of the finished cells."""
        return {cell.name for cell in self.cells if cell.done}

    @property
    def left(self) -> int:
        """Number of pending cells."""
        return len(self.cells) - len(self.done)

    def seconds_left(self) -> tuple[float, int]:
        """Estimated remaining seconds on one worker, and the number of pending cells without an estimate."""
        remaining = [cell.name for cell in self.cells if not cell.done]
        return sum(self.seconds.get(name, 0.0) for name in remaining), sum(
            name not in self.seconds for name in remaining
        )

    def table(self) -> pd.DataFrame:
        """One row per cell: name, kind, state, method, split, seed, context, lr, seconds."""
        return pd.DataFrame(self._rows())

    def facts(self) -> dict[str, Any]:
        """All numbers, for JSON."""
        seconds, unknown = self.seconds_left()
        return {
            "name": self.name,
            "cells": self._rows(),
            "counts": [{"kind": kind, "done": done, "left": left} for kind, done, left in self.counts()],
            "seconds_left": seconds,
            "cells_of_unknown_seconds": unknown,
            "notes": list(self.notes),
            "cost": self.cost.facts(),
        }

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "name": cell.name,
                "kind": cell.kind,
                "state": cell.status,
                **{key: getattr(cell, key) for key in ("method", "split", "seed", "context")},
                "lr": None if cell.kind == "choose" else cell.lr,
                "seconds": self.seconds.get(cell.name),
            }
            for cell in self.cells
        ]


def foresee(sweep: Sweep, *, device: str = "auto") -> SweepPlan:
    """Finished and pending cells of a sweep, and the cost of the pending ones. Runs and writes nothing.

    For a benchmark that is not built yet, costs are those of invented patients, scaled to its expected size;
    without an expected size, only cells and missing parts are known.
    """
    seconds = {cell.name: 0.0 for cell in sweep.cells if cell.kind == "choose"}
    if (benchmark := sweep.opened) is not None:
        if sweep.settings.out.exists():
            mark_done(sweep.cells, is_done_in(sweep, benchmark))
        seconds |= {cell.name: cell.seconds for cell in sweep.cells if cell.done and cell.seconds is not None}
        timed = {cell.kind for cell in sweep.cells if cell.name in seconds} - {"choose"}
        expected = costs(sweep, benchmark)
        pending = [cell.name for cell in sweep.cells if not cell.done and cell.kind in timed]
        seconds |= {name: round(expected[name], 1) for name in pending}
    cost = sweep_cost(sweep, device=device)
    return SweepPlan(sweep.settings.name, sweep.cells, seconds, sweep.notes, cost)
