"""A sweep: every cell that is not done, in several processes; then the report of what there is."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pandas as pd
import torch

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import sha256_of_json
from medunlearn.errors import InputError, MedunlearnError, StorageError
from medunlearn.metrics.workers import usable_cores
from medunlearn.models.load import pick_device
from medunlearn.pipeline.experiment import benchmark_folder
from medunlearn.pipeline.sweep.cells import Board, CellOutput, SweepCell
from medunlearn.pipeline.sweep.jobs import job_of, perform
from medunlearn.pipeline.sweep.plan import Sweep
from medunlearn.pipeline.sweep.pool import Call, CallResult, Pool, Slot
from medunlearn.pipeline.sweep.result import SweepRecord, Swept, cell_rows, with_report
from medunlearn.pipeline.sweep.search import Trial, at_edge, best_rate, search_table
from medunlearn.pipeline.sweep.survey import costs, survey, trials
from medunlearn.progress import Advance, progress
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run

Say = Callable[[str], None]
LOGS = "logs"
LOCK = ".sweep.lock"


def run_sweep(
    sweep: Sweep,
    *,
    jobs: int | None = None,
    device: str = "auto",
    quiet: bool = False,
    say: Say = lambda line: None,
) -> Swept:
    """Run the cells that are not done. One that fails does not stop the rest: see :attr:`Swept.failed`.

    Args:
        jobs: cells that run at the same time, each in a process of its own; None for one a GPU, or one a core.
        say: told one line at the start, and one at the end of each cell.

    Raises:
        InputError: a device or number of jobs that cannot be used; another sweep runs in this folder.
        KeyboardInterrupt: interrupted; the same call goes on from there.
    """
    with _alone(sweep.settings.out):
        return _run(sweep, jobs, device, quiet, say)


def _run(sweep: Sweep, jobs: int | None, device: str, quiet: bool, say: Say) -> Swept:
    benchmark = sweep.benchmark()
    outputs = survey(sweep, benchmark)
    # Choosing takes no process.
    pending = [cell for cell in sweep.cells if cell.name not in outputs and cell.kind != "choose"]
    slots = lend(jobs, device, max(1, len(pending)))
    say(f"benchmark: {benchmark.name}, {len(benchmark.records)} records, {len(benchmark.questions)} questions")
    say(f"{len(sweep.cells)} cells, {len(outputs)} of them done; {len(slots)} at a time")
    for note in sweep.notes:
        say(note)
    work = _SweepWork(sweep, benchmark, outputs, SweepRecord(sweep, len(slots)), say)
    try:
        total = len(sweep.cells) - len(outputs)
        with _terminable(), progress("cells", total, quiet=quiet) as advance, Pool(slots) as pool:
            work.run(pool, advance)
    except BaseException as error:
        work.interrupt()
        with suppress(StorageError):
            work.write("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    swept = work.result()
    work.write("failed" if swept.failed else "complete")
    say("report: tables, figures and findings")
    return with_report(swept, sweep, benchmark)


class _SweepWork:
    """A running sweep: outputs so far, the rates tried, and the board."""

    def __init__(
        self, sweep: Sweep, benchmark: Benchmark, outputs: dict[str, CellOutput], record: SweepRecord, say: Say
    ) -> None:
        self.sweep, self.outputs, self.record, self.say = sweep, outputs, record, say
        self.board = Board(sweep.cells, costs(sweep, benchmark, outputs))
        self.trials: list[Trial] = []
        for cell in sweep.cells:
            if cell.name in outputs:
                self.board.settle(cell.name, "done")
                if cell.kind == "choose":
                    self._add_trials(cell)

    def run(self, pool: Pool, advance: Advance) -> None:
        """Until every cell has ended or cannot run."""
        folder = benchmark_folder(self.sweep.settings)
        if "folder" in self.sweep.settings.benchmark:
            folder = Path(self.sweep.settings.benchmark["folder"])
        logs = self.sweep.settings.out / LOGS
        self.write()
        while self.board.open:
            for cell in self.board.ready():
                if cell.kind == "choose":
                    self.board.start(cell.name)
                    self._settle(self._choice(cell), advance)
                elif pool.free:
                    self.board.start(cell.name)
                    job = job_of(cell, self.sweep, folder, self.outputs)
                    pool.start(Call(cell.name, perform, job, logs / f"{slug(cell.name)}.log"))
            if self.board.running():
                self._settle(pool.wait(), advance)

    def write(self, status: str = "running") -> None:
        self.record.write(self.board, self.outputs, self.trials, status)

    def interrupt(self) -> None:
        for name in self.board.running():
            self.board.state[name] = "interrupted"

    def result(self) -> Swept:
        """Results of the cells that are done."""
        evaluated = {}
        for cell in self.sweep.cells:
            output = self.outputs.get(cell.name)
            if cell.kind == "evaluate" and output and output.folder and output.evaluation:
                evaluated[cell.name] = Evaluated(Run.open(output.folder), Run.open(output.evaluation))
        cells = pd.DataFrame(cell_rows(self.board, self.outputs))
        return Swept(self.sweep.settings.out, cells, search_table(self.trials), evaluated)

    def _choice(self, cell: SweepCell) -> CallResult:
        """A method's rate; its failure, where no rate has a score, is one of a cell like any other."""
        try:
            rate = best_rate(trials(self.sweep, cell, self.outputs, self.board.reason))
        except MedunlearnError as error:
            return CallResult(cell.name, None, str(error), 0.0)
        return CallResult(cell.name, CellOutput(lr=rate, seconds=0.0), "", 0.0)

    def _add_trials(self, cell: SweepCell) -> None:
        lr = self.outputs[cell.name].lr if cell.name in self.outputs else None
        rows = trials(self.sweep, cell, self.outputs, self.board.reason)
        self.trials += [replace(row, chosen=row.lr == lr) for row in rows]

    def _settle(self, result: CallResult, advance: Advance) -> None:
        """Note the end of a cell, and say it."""
        name, cell, lost = result.name, self.board.cells[result.name], list[str]()
        if result.failure:
            lost = self.board.settle(name, "failed", result.failure)
            self.say(f"{name}: failed after {result.seconds:.1f} s: {result.failure}")
            if lost:
                self.say(f"{len(lost)} cells that need {name} will not run")
        else:
            self.outputs[name] = result.value
            self.board.settle(name, "done")
        if cell.kind == "choose":
            self._add_trials(cell)
            if not result.failure:
                edge = at_edge([row for row in self.trials if row.method == cell.method], result.value.lr)
                self.say(f"{name}: {result.value.lr:g}" + (f" ({edge})" if edge else ""))
        elif not result.failure:
            self.say(f"{name}: {result.seconds:.1f} s")
        advance(1 + len(lost))
        self.write()


def lend(jobs: int | None, device: str, most: int) -> list[Slot]:
    """A slot for each worker: GPUs in turn, processor cores shared out evenly.

    Args:
        jobs: None for one a GPU, on a CPU one a core.
        most: cells to do; more workers would have nothing to do.

    Raises:
        InputError: no such device, or fewer than one job.
    """
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs {jobs}: it is at least 1.")
    devices = _devices(device)
    on_gpu = devices[0].startswith("cuda")
    wanted = min(jobs or (len(devices) if on_gpu else usable_cores()), most)
    threads = max(1, usable_cores() // wanted)
    if limit := os.environ.get("OMP_NUM_THREADS", ""):
        threads = min(threads, int(limit)) if limit.isdecimal() and int(limit) > 0 else threads
    return [Slot(devices[index % len(devices)], threads) for index in range(wanted)]


def _devices(device: str) -> list[str]:
    count = torch.cuda.device_count()
    if device in ("auto", "cuda") and count:
        return [f"cuda:{index}" for index in range(count)]
    return [str(pick_device(device))]


def slug(name: str) -> str:
    """A cell's name as that of a file; a name that lost something to it gets a hash."""
    plain = re.sub(r"[^A-Za-z0-9._+-]+", "-", name)[:80]
    return plain if plain == name.replace(" ", "-").replace(",", "") else f"{plain}-{sha256_of_json(name)[:6]}"


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Two sweeps in one folder would write to each other's checkpoints; the lock goes with the process."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file, not a folder. Choose another --out.")
    out.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (out / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                # A file system without locks keeps nobody from sweeping.
                yield
                return
            raise InputError(f"Another sweep runs in {out}. Wait for it, or give another --out.") from None
        yield


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM, by which a cluster takes its machine back, ends a sweep as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
