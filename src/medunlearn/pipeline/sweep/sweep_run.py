"""A sweep: every cell that is not done, in several processes; then the report of what there is."""

from __future__ import annotations

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
from medunlearn.data.folder_lock import lock_folder, remove_leftovers
from medunlearn.data.storage import sha256_of_json
from medunlearn.errors import InputError, MedunlearnError, StorageError
from medunlearn.metrics.workers import usable_cores
from medunlearn.models.pretrained import pick_device
from medunlearn.pipeline.experiment import benchmark_folder
from medunlearn.pipeline.keyword_stage import find_keywords
from medunlearn.pipeline.sweep.cells import Board, SweepCell
from medunlearn.pipeline.sweep.engines import Engine, make_engine
from medunlearn.pipeline.sweep.jobs import job_of, perform
from medunlearn.pipeline.sweep.pool import Call, Slot
from medunlearn.pipeline.sweep.rate_search import Trial, at_edge, best_rate, search_table
from medunlearn.pipeline.sweep.result import Swept, sweep_facts, write_record
from medunlearn.pipeline.sweep.slots import cluster_slots
from medunlearn.pipeline.sweep.survey import costs, survey, trials
from medunlearn.pipeline.sweep.sweep_plan import Sweep
from medunlearn.progress import Advance, progress
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run, drop_checkpoints

Say = Callable[[str], None]
LOGS = "logs"


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
        InputError: a device or number of jobs that cannot be used; another command writes to this folder.
        KeyboardInterrupt: interrupted; the same call goes on from there.
    """
    if sweep.settings.out.exists() and not sweep.settings.out.is_dir():
        raise InputError(f"{sweep.settings.out} is a file, not a folder. Choose another --out.")
    with lock_folder(sweep.settings.out, "sweep"):
        remove_leftovers(sweep.settings.out)
        benchmark = sweep.benchmark()
        find_keywords(benchmark, sweep.evaluation, sweep.settings.extractor_python, say=say)
        survey(sweep, benchmark)
        for cell in sweep.cells:
            if cell.done and cell.folder:
                drop_checkpoints(cell.folder)  # of a process that was killed before it did
        pending = [cell for cell in sweep.cells if not cell.done]
        # Choosing takes no process.
        most, on = max(1, sum(cell.kind != "choose" for cell in pending)), sweep.settings.on
        if on in ("slurm", "ray"):
            slots = cluster_slots(sweep.settings, jobs, device, most)
        else:
            slots = lend(jobs, device, most, sweep.settings.processes)
        say(f"benchmark: {benchmark.name}, {len(benchmark.records)} records, {len(benchmark.questions)} questions")
        say(f"{len(sweep.cells)} cells, {len(sweep.cells) - len(pending)} of them done; {len(slots)} at a time")
        for note in sweep.notes:
            say(note)
        work = _SweepWork(sweep, benchmark, len(slots), say)
        try:
            with (
                terminable(),
                progress("cells", len(pending), quiet=quiet) as advance,
                make_engine(sweep.settings, slots) as engine,
            ):
                work.run(engine, advance)
        except BaseException as error:
            for cell in work.board.running():
                cell.status = "interrupted"
            with suppress(StorageError):
                work.write("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
            raise
        swept = work.result().judged(sweep, benchmark, quiet=quiet, say=say)
        work.write("failed" if swept.failed else "complete")
        say("report: tables, figures and findings")
        return swept.with_report(sweep, benchmark)


class _SweepWork:
    """A running sweep: its cells, and the rates tried."""

    def __init__(self, sweep: Sweep, benchmark: Benchmark, jobs: int, say: Say) -> None:
        self.sweep, self.facts, self.say = sweep, sweep_facts(sweep, benchmark, jobs), say
        self.board = Board(sweep.cells, costs(sweep, benchmark))
        self.trials: list[Trial] = []
        for cell in sweep.cells:
            if cell.done and cell.kind == "choose":
                self._add_trials(cell)

    def run(self, engine: Engine, advance: Advance) -> None:
        """Until every cell has ended or cannot run."""
        settings = self.sweep.settings
        folder = Path(settings.benchmark.get("folder") or benchmark_folder(settings))
        self.write()
        while self.board.open:
            for cell in self.board.ready():
                if cell.kind == "choose":
                    self._choose(cell, advance)
                elif engine.free:
                    cell.status = "running"
                    log = settings.out / LOGS / f"{slug(cell.name)}.log"
                    engine.start(Call(cell.name, perform, job_of(cell, self.sweep, folder), log))
            if self.board.running():
                name, output, failure, seconds = engine.wait()
                cell = self.board.cells[name]
                if not failure:
                    cell.folder, cell.evaluation, cell.seconds = output
                    self.say(f"{name}: {seconds:.1f} s")
                self._settle(cell, failure, seconds, advance)

    def write(self, status: str = "running") -> None:
        write_record(self.sweep, self.facts, self.trials, status)

    def result(self) -> Swept:
        """Results of the cells that are done."""
        evaluated = {
            cell.name: Evaluated(Run.open(cell.folder), Run.open(cell.evaluation))
            for cell in self.sweep.cells
            if cell.kind == "evaluate" and cell.done and cell.folder and cell.evaluation
        }
        cells = pd.DataFrame([cell.facts() for cell in self.sweep.cells])
        return Swept(self.sweep.settings.out, cells, search_table(self.trials), evaluated)

    def _choose(self, cell: SweepCell, advance: Advance) -> None:
        """A method's rate; its failure, where no rate has a score, is one of a cell like any other."""
        failure = ""
        try:
            cell.lr, cell.seconds = best_rate(trials(self.sweep, cell)), 0.0
        except MedunlearnError as error:
            failure = str(error)
        self._add_trials(cell)
        if cell.lr is not None:
            edge = at_edge([row for row in self.trials if row.method == cell.method], cell.lr)
            self.say(f"{cell.name}: {cell.lr:g}" + (f" ({edge})" if edge else ""))
        self._settle(cell, failure, 0.0, advance)

    def _add_trials(self, cell: SweepCell) -> None:
        self.trials += [replace(row, chosen=row.lr == cell.lr) for row in trials(self.sweep, cell)]

    def _settle(self, cell: SweepCell, failure: str, seconds: float, advance: Advance) -> None:
        """Note the end of a cell, and say why it failed."""
        lost = list[str]()
        if failure:
            lost = self.board.fail(cell, failure)
            self.say(f"{cell.name}: failed after {seconds:.1f} s: {failure}")
            if lost:
                self.say(f"{len(lost)} cells that need {cell.name} will not run")
        else:
            cell.status = "done"
        advance(1 + len(lost))
        self.write()


def lend(jobs: int | None, device: str, most: int, processes: int = 1) -> list[Slot]:
    """A slot for each worker: GPUs in turn, processor cores shared out evenly.

    Args:
        jobs: None for one a GPU, on a CPU one a core; never more than ``most``, the cells to do.
        processes: that share a cell; each has a GPU of its own.

    Raises:
        InputError: no such device, fewer than one job, or fewer GPUs than processes.
    """
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs {jobs}: it is at least 1.")
    gpus = torch.cuda.device_count() if device in ("auto", "cuda") else 0
    devices = [f"cuda:{index}" for index in range(gpus)] or [str(pick_device(device))]
    on_gpu = devices[0].startswith("cuda")
    if on_gpu and processes > max(1, gpus):
        raise InputError(f"processes={processes}: this machine has {gpus} GPUs, and each process needs one.")
    places = len(devices) // processes if on_gpu else max(1, usable_cores() // processes)
    count = min(jobs or places, most)
    threads = max(1, usable_cores() // (count * processes))
    if limit := os.environ.get("OMP_NUM_THREADS", ""):
        threads = min(threads, int(limit)) if limit.isdecimal() and int(limit) > 0 else threads
    if processes == 1:
        return [Slot(devices[index % len(devices)], threads) for index in range(count)]
    groups = [tuple(range(start, start + processes)) for start in range(0, places * processes, processes)]
    return [Slot(devices[0], threads, processes, groups[i % places] if on_gpu else ()) for i in range(count)]


def slug(name: str) -> str:
    """A cell's name as that of a file; a name that lost something to it gets a hash."""
    plain = re.sub(r"[^A-Za-z0-9._+-]+", "-", name)[:80]
    return plain if plain == name.replace(" ", "-").replace(",", "") else f"{plain}-{sha256_of_json(name)[:6]}"


@contextmanager
def terminable() -> Iterator[None]:
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
