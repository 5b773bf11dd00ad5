"""Run of a graph of stages on an engine, with its record on disk and its results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from medunlearn.config import SweepSettings, TuneSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import tightest
from medunlearn.data.folder_lock import lock_folder, remove_leftovers
from medunlearn.data.storage import sha256_of_json, write_json
from medunlearn.errors import InputError, MedunlearnError, StorageError, bullet_list
from medunlearn.models.ancestry import model_use
from medunlearn.progress import Advance, progress
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.machine import code, hardware, packages
from medunlearn.results.runs import Run, drop_checkpoints
from medunlearn.study.slots.call import Call
from medunlearn.study.slots.engine import Engine, make_engine
from medunlearn.study.slots.slot import Slot
from medunlearn.study.stages import LOST, Graph, Stage
from medunlearn.study.sweep.job_stages import JobStage
from medunlearn.training.interrupt import terminable

Say = Callable[[str], None]
LOGS = "logs"
_FACTS = ("name", "kind", "status", "method", "split", "seed", "context", "lr")
_OUTPUT = ("folder", "evaluation", "seconds", "reason")
COLUMNS: Mapping[str, Any] = dict.fromkeys((*_FACTS, *_OUTPUT))
"""Columns of the record's rows, one for each stage, with the values of those that a stage lacks."""


@contextmanager
def writing_to(out: Path, command: str) -> Iterator[None]:
    """Context with a lock on the folder against other commands. Raises InputError: it is locked, or is a file."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file, not a folder. Choose another --out.")
    with lock_folder(out, command):
        remove_leftovers(out)
        yield


class GraphRun:
    """Run of a graph's pending stages, each after those that it needs.

    Attributes:
        record: file in the folder with the state of every stage.
        columns: columns of its rows.
        unit: unit of the progress bar.
        facts: further content of the record.
    """

    record: ClassVar[str]
    columns: ClassVar[Mapping[str, Any]] = COLUMNS
    unit: ClassVar[str] = "cells"

    def __init__(
        self,
        graph: Graph,
        settings: SweepSettings | TuneSettings,
        benchmark: Benchmark,
        notes: Sequence[str],
        say: Say,
    ) -> None:
        self.graph, self.out, self.benchmark, self.say = graph, settings.out, benchmark, say
        self.facts: dict[str, Any] = {
            "name": settings.name,
            "status": "running",
            "settings": settings.model_dump(mode="json"),
            "data_use": tightest([benchmark.data_use, model_use(str(settings.train.get("model")))]),
            "notes": list(notes),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "code": code(),
            "packages": packages(),
            "hardware": hardware(),
        }

    def findings(self) -> dict[str, Any]:
        """Results so far, for the record."""
        return {}

    def rows(self) -> list[dict[str, Any]]:
        """Description, state and result of every stage."""
        rows = []
        for stage in self.graph.stages.values():
            state = self.graph[stage]
            ending = {"status": state.status, "seconds": state.seconds, "reason": state.reason}
            rows.append({**self.columns, **stage.facts(state.result), **ending})
        return rows

    def write(self, status: str = "running") -> None:
        """Write the record: the state of all stages, and the results so far."""
        self.facts |= {"status": status, "cells": self.rows(), **self.findings()}
        write_json(self.out / self.record, self.facts)

    def run(self, engine_settings: SweepSettings, slots: Sequence[Slot], steps: int, *, quiet: bool) -> None:
        """Run until every stage has ended or cannot run.

        Args:
            slots: none if no stage is pending.
            steps: total of the progress bar.

        Raises:
            KeyboardInterrupt: interrupted; running stages have written their checkpoints.
        """
        self._begin(len(slots))
        try:
            with (
                terminable(),
                progress(self.unit, steps, quiet=quiet) as advance,
                make_engine(engine_settings, slots) if slots else nullcontext() as engine,
            ):
                self.write()
                while engine is not None and self.graph.open:
                    self._turn(engine, advance)
        except BaseException as error:
            for stage in self.graph.running():
                self.graph[stage].status = "interrupted"
            with suppress(StorageError):
                self.write("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
            raise

    def _begin(self, jobs: int) -> None:
        """Report what there is to do, and drop checkpoints of stages that were killed before they did."""
        for row in self.rows():
            if row["status"] == "done" and row["folder"]:
                drop_checkpoints(Path(row["folder"]))
        self.facts["jobs"] = jobs
        benchmark, stages = self.benchmark, len(self.graph.stages)
        sizes = f"{len(benchmark.records)} records, {len(benchmark.questions)} questions"
        self.say(f"benchmark: {benchmark.name}, {sizes}")
        done = stages - len(self.graph.pending())
        self.say(f"{stages} cells, {done} of them done{f'; {jobs} at a time' if jobs else ''}")
        for note in self.facts["notes"]:
            self.say(note)

    def _turn(self, engine: Engine, advance: Advance) -> None:
        """Start ready stages; unless one was over at once, wait for the next one to end."""
        over = False
        for stage in self.graph.ready():
            if engine.has_room or not stage.takes_slot:
                over |= not self._start(stage, engine, advance)
        if over or not self.graph.running():
            return
        name, output, failure, seconds = engine.wait()
        stage = self.graph.stages[name]
        try:
            result = None if failure else stage.accept(output)
        except MedunlearnError as error:
            failure = str(error)
        if failure:
            self._fail(stage, failure, seconds, advance)
            return
        self._succeed(stage, result, stage.report(output, seconds), advance)

    def _start(self, stage: Stage[Any], engine: Engine, advance: Advance) -> bool:
        """Start a stage; False if it is over at once, without a process."""
        try:
            work = stage.work(self.graph.inputs)
            result = stage.run(self.graph.inputs) if work is None else None
        except MedunlearnError as error:
            self._fail(stage, str(error), 0.0, advance)
            return False
        if work is None:
            self._succeed(stage, result, stage.report(result, 0.0), advance)
            return False
        log = self.out / LOGS / f"{slug(stage.name)}.log"
        if engine.start(Call(stage.name, work.function, work.argument, log, work.processes)):
            self.graph[stage].status = "running"
        return True

    def _succeed(self, stage: Stage[Any], result: Any, line: str, advance: Advance) -> None:
        """Record a result; without one the stage has more work."""
        if line:
            self.say(line)
        if result is None:
            self.graph[stage].status = "to do"
        else:
            self.graph.succeed(stage, result)
        advance(1)
        self.write()

    def _fail(self, stage: Stage[Any], failure: str, seconds: float, advance: Advance) -> None:
        """Record and report a failure."""
        lost = self.graph.fail(stage, failure)
        self.say(f"{stage.name}: failed{f' after {seconds:.1f} s' if seconds else ''}: {failure}")
        if lost:
            self.say(f"{len(lost)} cells that need {stage.name} will not run")
        advance(1 + len(lost))
        self.write()


@dataclass(frozen=True)
class StudyResult:
    """Results of a sweep or a tuning.

    Attributes:
        folder: folder of all stages, with the record of their states.
        cells: one row per stage: name, kind, status, method, split, seed, context, lr, folder, evaluation, seconds,
            reason.
    """

    folder: Path
    cells: pd.DataFrame
    record: ClassVar[str]

    @property
    def failed(self) -> list[tuple[str, str]]:
        """Name and reason of every cell that failed, or did not run because of a failure."""
        return reasons(self.cells[self.cells["status"].isin(LOST)])

    def failures(self, most: int = 5) -> str:
        """Number of cells without a result, the first ones with reasons, and what to do; empty if all have one."""
        if not self.failed:
            return ""
        problems = [f"{name}: {reason}" for name, reason in self.failed]
        return (
            f"{len(problems)} of {len(self.cells)} cells have no result; the others are done."
            f"{bullet_list(problems, most)}\n"
            f"{self.folder / self.record} lists them, {self.folder / LOGS} says more. Mend the cause and give "
            "the command again: it does only these."
        )


def reasons(cells: pd.DataFrame) -> list[tuple[str, str]]:
    """Name and reason of each row."""
    return [(str(name), str(reason)) for name, reason in zip(cells["name"], cells["reason"], strict=True)]


def evaluated_models(graph: Graph, evaluations: Iterable[JobStage]) -> dict[str, Evaluated]:
    """Name of each finished evaluation -> its model and scores."""
    outputs = {stage.name: graph.inputs.get(stage) for stage in evaluations}
    return {
        name: Evaluated(Run.open(output.folder), Run.open(output.evaluation))
        for name, output in outputs.items()
        if output is not None and output.evaluation is not None
    }


def slug(name: str) -> str:
    """A stage's name as a file name; with a hash if characters were lost."""
    plain = re.sub(r"[^A-Za-z0-9._+-]+", "-", name)[:80]
    return plain if plain == name.replace(" ", "-").replace(",", "") else f"{plain}-{sha256_of_json(name)[:6]}"
