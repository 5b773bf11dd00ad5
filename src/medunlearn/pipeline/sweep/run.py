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
from dataclasses import dataclass, field, replace
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
from medunlearn.pipeline.sweep.board import Board
from medunlearn.pipeline.sweep.cells import Cell, Made
from medunlearn.pipeline.sweep.plan import Sweep
from medunlearn.pipeline.sweep.record import SweepRecord, cell_facts
from medunlearn.pipeline.sweep.result import Swept, with_report
from medunlearn.pipeline.sweep.search import Tried, at_edge, choose, search_table
from medunlearn.pipeline.sweep.survey import costs, survey, tries
from medunlearn.pipeline.sweep.work import job_of, perform
from medunlearn.pipeline.sweep.workers import Call, Ended, Place, Pool
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
    state = _State.of(sweep, benchmark)
    # Choosing takes no process.
    left = [cell for cell in sweep.cells if cell.name not in state.made and cell.kind != "choose"]
    places = lend(jobs, device, max(1, len(left)))
    say(f"benchmark: {benchmark.name}, {len(benchmark.records)} records, {len(benchmark.questions)} questions")
    say(f"{len(sweep.cells)} cells, {len(state.made)} of them done; {len(places)} at a time")
    for note in sweep.notes:
        say(note)
    record = SweepRecord(sweep, len(places))
    try:
        ahead = len(sweep.cells) - len(state.made)
        with _terminable(), progress("cells", ahead, quiet=quiet) as advance, Pool(places) as pool:
            _run_cells(state, pool, record, advance, say)
    except BaseException as error:
        state.interrupt()
        with suppress(StorageError):
            status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            record.write(state.board, state.made, state.rows, status)
        raise
    swept = state.result()
    record.write(state.board, state.made, state.rows, "failed" if swept.failed else "complete")
    say("report: tables, figures and findings")
    return with_report(swept, sweep, benchmark)


@dataclass
class _State:
    """A sweep on its way: what was made, the rates tried, and the board."""

    sweep: Sweep
    board: Board
    made: dict[str, Made]
    rows: list[Tried] = field(default_factory=list)

    @staticmethod
    def of(sweep: Sweep, benchmark: Benchmark) -> _State:
        made = survey(sweep, benchmark)
        state = _State(sweep, Board(sweep.cells, costs(sweep, benchmark, made)), made)
        for cell in sweep.cells:
            if cell.name in made:
                state.board.settle(cell.name, "done")
                if cell.kind == "choose":
                    state.note_choice(cell)
        return state

    def note_choice(self, cell: Cell) -> None:
        """Add a method's rates to the search's table."""
        lr = self.made[cell.name].lr if cell.name in self.made else None
        rows = tries(self.sweep, cell, self.made, self.board.reason)
        self.rows += [replace(row, chosen=row.lr == lr) for row in rows]

    def interrupt(self) -> None:
        for name, state in self.board.state.items():
            if state == "running":
                self.board.state[name] = "interrupted"

    def result(self) -> Swept:
        """What there is of the sweep."""
        evaluated = {}
        for cell in self.sweep.cells:
            found = self.made.get(cell.name)
            if cell.kind == "evaluate" and found and found.folder and found.evaluation:
                evaluated[cell.name] = Evaluated(Run.open(found.folder), Run.open(found.evaluation))
        rows = [
            cell_facts(
                cell,
                self.board.state[cell.name],
                self.made.get(cell.name, Made()),
                self.board.reason.get(cell.name),
            )
            for cell in self.sweep.cells
        ]
        return Swept(self.sweep.settings.out, pd.DataFrame(rows), search_table(self.rows), evaluated)


def _run_cells(state: _State, pool: Pool, record: SweepRecord, advance: Advance, say: Say) -> None:
    """Until every cell has ended or cannot run."""
    folder = benchmark_folder(state.sweep.settings)
    if "folder" in state.sweep.settings.benchmark:
        folder = Path(state.sweep.settings.benchmark["folder"])
    board, logs = state.board, state.sweep.settings.out / LOGS
    record.write(board, state.made, state.rows)
    while board.open:
        for cell in board.ready():
            if cell.kind == "choose":
                board.start(cell.name)
                _settle(state, _choice(state, cell), record, advance, say)
            elif pool.free:
                board.start(cell.name)
                job = job_of(cell, state.sweep, folder, state.made)
                pool.start(Call(cell.name, perform, job, logs / f"{slug(cell.name)}.log"))
        if any(status == "running" for status in board.state.values()):
            _settle(state, pool.wait(), record, advance, say)


def _choice(state: _State, cell: Cell) -> Ended:
    """A method's rate; its failure, where no rate has a score, is one of a cell like any other."""
    rows = tries(state.sweep, cell, state.made, state.board.reason)
    try:
        return Ended(cell.name, Made(lr=choose(rows), seconds=0.0), "", 0.0)
    except MedunlearnError as error:
        return Ended(cell.name, None, str(error), 0.0)


def _settle(state: _State, ended: Ended, record: SweepRecord, advance: Advance, say: Say) -> None:
    """Note how a cell ended, and say it."""
    name, board = ended.name, state.board
    lost = []
    if ended.failure:
        lost = board.settle(name, "failed", ended.failure)
        say(f"{name}: failed after {ended.seconds:.1f} s: {ended.failure}")
        if lost:
            say(f"{len(lost)} cells that need {name} will not run")
    else:
        state.made[name] = ended.value
        board.settle(name, "done")
        lr = ended.value.lr
        if lr is None:
            say(f"{name}: {ended.seconds:.1f} s")
    cell = board.cells[name]
    if cell.kind == "choose":
        state.note_choice(cell)
        if not ended.failure:
            edge = at_edge([row for row in state.rows if row.method == cell.method], ended.value.lr)
            say(f"{name}: {ended.value.lr:g}" + (f" ({edge})" if edge else ""))
    advance(1 + len(lost))
    record.write(board, state.made, state.rows)


def lend(jobs: int | None, device: str, most: int) -> list[Place]:
    """A place for each worker: GPUs in turn, processor cores shared out evenly.

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
    return [Place(devices[place % len(devices)], threads) for place in range(wanted)]


def _devices(device: str) -> list[str]:
    count = torch.cuda.device_count()
    if device in ("auto", "cuda") and count:
        return [f"cuda:{place}" for place in range(count)]
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
