"""Runner of the cells of a sweep or a tuning on an engine, with their record on disk and their results."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import pandas as pd

from medunlearn.config import SweepSettings, TuneSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import tightest
from medunlearn.data.folder_lock import lock_folder, remove_leftovers
from medunlearn.data.storage import sha256_of_json, write_json
from medunlearn.errors import InputError, StorageError, bullet_list
from medunlearn.models.ancestry import model_use
from medunlearn.progress import Advance, progress
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.machine import code, hardware, packages
from medunlearn.results.runs import Run, drop_checkpoints
from medunlearn.study.experiment import benchmark_folder
from medunlearn.study.slots.call import Call
from medunlearn.study.slots.engine import Engine, make_engine
from medunlearn.study.slots.slot import Slot
from medunlearn.study.sweep.cells import LOST, Board, SweepCell, mark_done
from medunlearn.study.sweep.sweep_plan import Sweep
from medunlearn.training.interrupt import terminable

Say = Callable[[str], None]
LOGS = "logs"
C = TypeVar("C", bound=SweepCell)


@contextmanager
def writing_to(out: Path, command: str) -> Iterator[None]:
    """Context with a lock on the folder against other commands. Raises InputError: it is locked, or is a file."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file, not a folder. Choose another --out.")
    with lock_folder(out, command):
        remove_leftovers(out)
        yield


class CellRunner(ABC, Generic[C]):
    """Runs pending cells, each after its dependencies.

    Attributes:
        record: file in the folder with the state of every cell.
        unit: unit of the progress bar.
        base: the sweep with engine and benchmark.
        folder: folder of the benchmark.
        facts: further content of the record.
    """

    record: ClassVar[str]
    unit: ClassVar[str] = "cells"

    def __init__(
        self,
        settings: SweepSettings | TuneSettings,
        cells: Sequence[C],
        notes: Sequence[str],
        base: Sweep,
        benchmark: Benchmark,
        say: Say,
    ) -> None:
        self.out, self.notes, self.base, self.benchmark, self.say = settings.out, notes, base, benchmark, say
        self.folder = Path(settings.benchmark.get("folder") or benchmark_folder(base.settings))
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
        mark_done(cells, self.is_done)
        for cell in cells:
            if cell.done and cell.folder:
                drop_checkpoints(cell.folder)  # of a process that was killed before it did
        self.board = Board(cells, self.costs())
        self.pending = [cell for cell in cells if not cell.done]

    @abstractmethod
    def is_done(self, cell: C) -> bool:
        """True if the output of a cell with finished dependencies is on disk; it is then set in the cell."""

    @abstractmethod
    def costs(self) -> Mapping[str, float]:
        """Costs of the cells, in any unit."""

    @abstractmethod
    def call(self, cell: C) -> tuple[Callable[[Any, Slot], Any], Any] | str:
        """Function and argument of a cell's next process; else the reason why the cell failed, or "" if it is
        done.
        """

    def accept(self, cell: C, output: Any, seconds: float) -> str | None:
        """Record the output of a process; returns the reason of the cell's failure, "", or None if the cell
        continues.
        """
        cell.folder, cell.evaluation, cell.seconds = output
        self.say(f"{cell.name}: {seconds:.1f} s")
        return ""

    def findings(self) -> dict[str, Any]:
        """Results so far, for the record."""
        return {}

    def run(self, slots: Sequence[Slot], steps: int, *, quiet: bool) -> None:
        """Run until every cell has ended or cannot run.

        Args:
            steps: total of the progress bar.

        Raises:
            KeyboardInterrupt: interrupted; running cells have written their checkpoints.
        """
        self.facts["jobs"] = len(slots)
        benchmark, cells = self.benchmark, len(self.board.cells)
        sizes = f"{len(benchmark.records)} records, {len(benchmark.questions)} questions"
        self.say(f"benchmark: {benchmark.name}, {sizes}")
        self.say(f"{cells} cells, {cells - len(self.pending)} of them done; {len(slots)} at a time")
        for note in self.notes:
            self.say(note)
        try:
            with (
                terminable(),
                progress(self.unit, steps, quiet=quiet) as advance,
                make_engine(self.base.settings, slots) as engine,
            ):
                self.write()
                while self.board.open:
                    self._turn(engine, advance)
        except BaseException as error:
            for cell in self.board.running():
                cell.status = "interrupted"
            with suppress(StorageError):
                self.write("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
            raise

    def write(self, status: str = "running") -> None:
        """Write the record: the state of all cells, and the results so far."""
        cells = [cell.facts() for cell in self.board.cells.values()]
        self.facts |= {"status": status, "cells": cells, **self.findings()}
        write_json(self.out / self.record, self.facts)

    def _turn(self, engine: Engine, advance: Advance) -> None:
        """Start ready cells, and wait for the next one to end."""
        for cell in self.board.ready():
            if cell.takes_process and not engine.has_room:
                continue
            call = self.call(cell)
            if isinstance(call, str):
                self._settle(cell, call, 0.0, advance)
            else:
                processes = None if call[1].shared else 1
                if engine.start(Call(cell.name, *call, self.out / LOGS / f"{slug(cell.name)}.log", processes)):
                    cell.status = "running"
        if self.board.running():
            name, output, failure, seconds = engine.wait()
            cell = self.board.cells[name]
            ending = failure or self.accept(cell, output, seconds)
            if ending is None:
                cell.status = "to do"
                advance(1)
                self.write()
            else:
                self._settle(cell, ending, seconds, advance)

    def _settle(self, cell: C, failure: str, seconds: float, advance: Advance) -> None:
        """Record the end of a cell, and report a failure."""
        lost_cells = list[str]()
        if failure:
            lost_cells = self.board.fail(cell, failure)
            self.say(f"{cell.name}: failed{f' after {seconds:.1f} s' if seconds else ''}: {failure}")
            if lost_cells:
                self.say(f"{len(lost_cells)} cells that need {cell.name} will not run")
        else:
            cell.status = "done"
        advance(1 + len(lost_cells))
        self.write()


@dataclass(frozen=True)
class CellResults:
    """Results of cells.

    Attributes:
        folder: folder of all cells, with the record of their states.
        cells: one row per cell: name, kind, status, method, split, seed, context, lr, folder, evaluation, seconds,
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
        """Number of cells without a result, the first ones with reasons, and what to do."""
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


def evaluated_cells(cells: Iterable[SweepCell]) -> dict[str, Evaluated]:
    """Name of each finished ``evaluate`` cell -> its model and scores."""
    return {
        cell.name: Evaluated(Run.open(cell.folder), Run.open(cell.evaluation))
        for cell in cells
        if cell.kind == "evaluate" and cell.done and cell.folder and cell.evaluation
    }


def slug(name: str) -> str:
    """A cell's name as a file name; with a hash if characters were lost."""
    plain = re.sub(r"[^A-Za-z0-9._+-]+", "-", name)[:80]
    return plain if plain == name.replace(" ", "-").replace(",", "") else f"{plain}-{sha256_of_json(name)[:6]}"
