"""A scheduler in place of submitit's and Ray's: jobs are forked, preempted when a test asks, and queued again."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
from forking import PATIENCE, Forked, together

from medunlearn.study.slots import process_launch as launch
from medunlearn.study.slots.slot import Slot

REQUEUE = 144


class ForkedRanks(launch.RankProcesses):
    """The processes of a cell, forked from this one instead of started by Python and torchrun."""

    def __init__(self, task: Path, slot: Slot, log: Any) -> None:
        def work() -> None:
            launch._deaf()
            signal.signal(signal.SIGINT, signal.default_int_handler)  # as Python does where it starts
            launch.work(task)

        self.forked = [Forked(work)] if slot.processes == 1 else together(work, slot.processes)

    def poll(self) -> int | None:
        codes = [process.poll() for process in self.forked]
        return None if None in codes else max(map(abs, filter(None, codes)), default=0)

    def pids(self) -> list[int]:
        return [process.pid for process in self.forked if process.poll() is None]


class Job:
    """A submitted call.

    ``preempt`` has its machine taken back by the signal that submitit answers; ``evict`` by SIGTERM to all of its
    processes and, once the work in them has ended, SIGKILL. Either way it is queued again when it has left.
    """

    watcher = SimpleNamespace(_make_command=list)

    def __init__(self, folder: Path, job_id: str, function: Callable[[], Any] | None = None) -> None:
        self.job_id, self.starts, self.state = job_id, 0, "RUNNING"
        self._function, self._file = function, Path(str(folder).replace("%j", job_id)).with_suffix(".pkl")
        self._forked: Forked | None = None
        self._evicted = False
        if function is not None:
            self._start()

    def _start(self) -> None:
        self.starts += 1
        self._forked = Forked(self._work)

    def _work(self) -> None:
        assert self._function is not None

        def leave(*_: object) -> None:
            self._function.checkpoint()  # type: ignore[union-attr]
            os._exit(REQUEUE)

        signal.signal(signal.SIGUSR2, leave)
        self._file.write_bytes(pickle.dumps(self._function()))

    def done(self) -> bool:
        code = self._forked.poll() if self._forked else 0
        if code == REQUEUE or (self._evicted and code == -signal.SIGKILL):
            self._evicted = False
            self._start()
            return False
        self.state = "RUNNING" if code is None else "COMPLETED" if code == 0 else "FAILED"
        return code is not None

    def result(self) -> Any:
        return pickle.loads(self._file.read_bytes())

    def preempt(self) -> None:
        assert self._forked is not None
        self._forked.send_signal(signal.SIGUSR2)

    def evict(self) -> None:
        assert self._forked is not None
        self._evicted, job = True, psutil.Process(self._forked.pid)
        ranks = job.children(recursive=True)
        for process in (*ranks, job):
            process.terminate()
        psutil.wait_procs(ranks, timeout=PATIENCE)
        time.sleep(1.0)  # in which a job that does not wait would write what came of it
        with suppress(psutil.NoSuchProcess):
            job.kill()

    def cancel(self, check: bool = True) -> None:
        if self._forked is not None:
            self._forked.send_signal(signal.SIGTERM)


class Scheduler:
    """What is known of the jobs: ``arrays`` of jobs in order of submission, and the parameters of each array.

    ``refusal`` is what sbatch says instead of taking a job.
    """

    def __init__(self, refusal: str = "") -> None:
        self.refusal = refusal
        self.arrays: list[list[Job]] = []
        self.parameters: dict[str, Any] = {}
        self.parameters_of: list[dict[str, Any]] = []

    def module(self) -> SimpleNamespace:
        """What the sweep imports as ``submitit``."""
        scheduler = self

        class AutoExecutor:
            def __init__(self, folder: Path, cluster: str, slurm_max_num_timeout: int) -> None:
                assert cluster == "slurm"
                self.folder = folder

            def update_parameters(self, **values: Any) -> None:
                scheduler.parameters = values

            @contextmanager
            def batch(self) -> Iterator[None]:
                scheduler.arrays.append([])
                scheduler.parameters_of.append(scheduler.parameters)
                yield
                if scheduler.refusal:
                    raise RuntimeError(scheduler.refusal)

            def submit(self, function: Callable[[], Any]) -> Job:
                array = scheduler.arrays[-1]
                array.append(Job(self.folder, f"{len(scheduler.arrays)}_{len(array)}", function))
                return array[-1]

        helpers = SimpleNamespace(DelayedSubmission=lambda cell: cell)
        return SimpleNamespace(AutoExecutor=AutoExecutor, SlurmJob=Job, helpers=helpers)


def fake_ray(options: dict[str, Any]) -> SimpleNamespace:
    """What the sweep imports as ``ray``; tasks run at once. The options of a task are put into ``options``."""

    class Task:
        def __init__(self, function: Callable[..., Any]) -> None:
            self.function = function

        def options(self, **resources: Any) -> Task:
            options.update(resources)
            return self

        def remote(self, *arguments: Any) -> object:
            reference = object()
            values[reference] = self.function(*arguments)
            return reference

    def remote(**given: Any) -> Callable[..., Task]:
        options.update(given)
        return Task

    values: dict[object, Any] = {}
    return SimpleNamespace(
        is_initialized=lambda: False,
        init=lambda **_: None,
        cluster_resources=lambda: {"GPU": 8.0},
        remote=remote,
        wait=lambda references, **_: (references[:1], references[1:]),
        get=values.__getitem__,
        cancel=lambda reference: None,
    )
