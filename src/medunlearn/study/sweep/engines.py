"""Engines of a sweep or a tuning, which run its cells. All take the same calls and give the same results.

| ``on`` | a cell runs |
|---|---|
| ``local`` | in a worker process, on one GPU |
| ``torchrun`` | on several GPUs of this machine, shared by processes that torchrun starts |
| ``slurm`` | as a Slurm job, by submitit; cells that become ready together are one array |
| ``ray`` | as a task of a Ray cluster |
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from types import FrameType, TracebackType
from typing import Any, Protocol, Self

from medunlearn.config import SweepSettings
from medunlearn.data.storage import make_folder, read_json, write_json
from medunlearn.errors import ConfigError
from medunlearn.study.sweep.cell_launch import Launch
from medunlearn.study.sweep.jobs import launch
from medunlearn.study.sweep.pool import Call, CallResult, Pool, Slot, failure_reason

FOLDER, JOBS = "slurm", "jobs.json"
CLUSTER = "slurm"
"""Of submitit; its ``local`` runs jobs on this machine, without a scheduler."""
POLL = 1.0
LOOK = 30.0
"""Seconds between two looks at Slurm's queue. A job absent from both that left no result was killed."""
GRACE = 600.0
"""Seconds that a job waits to be killed after SIGTERM."""
TIMEOUTS = 100
"""Most time-outs of a job; after each it resumes from its checkpoint."""
_DEFAULTS = {"timeout_min": 240, "signal_delay_s": 120, "name": "medunlearn"}
"""Of a Slurm job: submitit's names. It is told so many seconds before its end, to write a checkpoint."""


class Engine(Protocol):
    """Runs several calls concurrently; a context that leaves no process running."""

    @property
    def free(self) -> int:
        """Number of calls that may start now."""
        ...

    def start(self, call: Call) -> None: ...

    def wait(self) -> CallResult:
        """Wait for the next call that ends."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def make_engine(settings: SweepSettings, slots: Sequence[Slot]) -> Engine:
    """The engine named in a sweep's settings.

    Raises:
        ConfigError: its package is not installed.
    """
    if settings.on == "slurm":
        return SlurmEngine(settings, slots)
    return RayEngine(settings, slots) if settings.on == "ray" else Pool(slots)


class ClusterCell:
    """A cell on a cluster machine; its processes are children, so that they finish their step on a signal.

    Calling it returns its output and the reason of its failure, or "".
    """

    def __init__(self, call: Call, slot: Slot) -> None:
        self.call, self.slot = call, slot
        self._launch: Launch | None = None

    def __call__(self) -> tuple[Any, str]:
        self.call.log.touch(mode=0o600)
        with self.call.log.open("a", encoding="utf-8") as log:
            self._launch = launch(self.call.function, self.call.argument, self.slot, log)
            try:
                return self._launch.wait(), ""
            except Exception as error:
                return None, failure_reason(error)


class SlurmCell(ClusterCell):
    """A cell as a Slurm job, which may be preempted or time out.

    Before its time limit Slurm sends SIGUSR2: submitit then calls :meth:`checkpoint` and queues the job again. A
    preempted job gets SIGTERM; Slurm kills it soon afterwards and requeues it. A result file would mark the job as
    finished, so it writes none.
    """

    def __call__(self) -> tuple[Any, str]:
        self._leaving = False
        signal.signal(signal.SIGTERM, self._leave)
        output, failure = super().__call__()
        if failure and self._leaving:
            time.sleep(GRACE)
        return output, failure

    def _leave(self, number: int, frame: FrameType | None) -> None:
        self._leaving = True
        self._interrupt()

    def checkpoint(self) -> Any:
        """Write a checkpoint; returns the job for submitit to queue again."""
        self._interrupt()
        return import_module("submitit").helpers.DelayedSubmission(SlurmCell(self.call, self.slot))

    def _interrupt(self) -> None:
        if self._launch is not None:
            self._launch.interrupt()


class SlurmEngine:
    """Cells as Slurm jobs, one per call; jobs that start together form one array.

    A job that is preempted or times out is queued again and resumes from its checkpoint. If this process is killed,
    its jobs continue; the next process waits for them instead of submitting them again.
    """

    def __init__(self, settings: SweepSettings, slots: Sequence[Slot]) -> None:
        submitit = import_module("submitit")
        folder = settings.out / FOLDER
        make_folder(folder)
        self._slots, self._known = slots, folder / JOBS
        try:
            self._executor = submitit.AutoExecutor(folder / "%j", cluster=CLUSTER, slurm_max_num_timeout=TIMEOUTS)
        except RuntimeError as error:
            raise ConfigError([f"on=slurm: {error} Give the command where sbatch and srun are."]) from error
        self._job_class = submitit.SlurmJob if CLUSTER == "slurm" else submitit.LocalJob
        if CLUSTER == "slurm" and not has_accounting():
            # Submitit would ask it in vain every few seconds, and warn each time; the queue tells.
            self._job_class.watcher._make_command = lambda: None
        values = {**_DEFAULTS, "slurm_array_parallelism": len(slots), **settings.slurm}
        processes = settings.processes
        values.setdefault("gpus_per_node", processes if slots and slots[0].device != "cpu" else 0)
        values.setdefault("cpus_per_task", 2 * processes)
        try:
            self._executor.update_parameters(**_submitit_parameters(values))
        except (AssertionError, NameError, TypeError, ValueError) as error:
            raise ConfigError([f"slurm: {error}"]) from error
        stored = read_json(self._known) if self._known.exists() else {}
        self._ids: dict[str, str] = stored if isinstance(stored, dict) else {}
        self._waiting: list[Call] = []
        self._running: dict[str, tuple[Any, float]] = {}
        self._absent: set[str] = set()
        self._next_look = time.monotonic() + LOOK

    @property
    def free(self) -> int:
        return len(self._slots) - len(self._running) - len(self._waiting)

    def start(self, call: Call) -> None:
        """Queue a call; it is submitted together with others at the next :meth:`wait`."""
        make_folder(call.log.parent)
        self._waiting.append(call)

    def wait(self) -> CallResult:
        self._submit()
        while True:
            lost = self._lost_jobs()
            for name, (job, started) in self._running.items():
                if job.done():
                    return self._end(name, *_result(job), started)
                if name in lost:
                    reason = f"its job {job.job_id} left Slurm's queue without a result (killed? out of memory?)"
                    return self._end(name, None, reason, started)
            time.sleep(POLL)

    def _end(self, name: str, output: Any, failure: str, started: float) -> CallResult:
        del self._running[name]
        self._ids.pop(name, None)
        write_json(self._known, self._ids)
        return CallResult(name, output, failure, time.monotonic() - started)

    def _lost_jobs(self) -> set[str]:
        """Names of calls whose jobs were absent from Slurm's queue at two looks in a row.

        Submitit asks Slurm's accounting, which not every cluster has; without it a killed job is running for ever.
        """
        if time.monotonic() < self._next_look:
            return set()
        self._next_look = time.monotonic() + LOOK
        if (queued := queued_jobs()) is None:
            return set()
        absent = {name for name, (job, _) in self._running.items() if str(job.job_id) not in queued}
        lost, self._absent = absent & self._absent, absent
        return lost

    def _submit(self) -> None:
        new = [call for call in self._waiting if not self._is_there(call)]
        self._waiting = []
        jobs = list[Any]()
        try:
            if new:
                with self._executor.batch():
                    for call in new:
                        jobs.append(self._executor.submit(SlurmCell(call, self._slots[0])))
        except RuntimeError as error:
            hint = "Options of sbatch are set with --slurm.NAME VALUE; without GPUs: --slurm.gpus_per_node 0."
            raise ConfigError([f"on=slurm: no job was taken: {str(error).strip()}. {hint}"]) from error
        for call, job in zip(new, jobs, strict=True):
            self._running[call.name] = job, time.monotonic()
            self._ids[call.name] = str(job.job_id)
        write_json(self._known, self._ids)

    def _is_there(self, call: Call) -> bool:
        """True if a job of an earlier process is still running this call, which is then adopted."""
        if call.name not in self._ids:
            return False
        job = self._job_class(self._executor.folder, self._ids[call.name])
        if job.done():
            return False
        self._running[call.name] = job, time.monotonic()
        return True

    def __enter__(self) -> SlurmEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for job, _ in self._running.values():
            with suppress(Exception):
                job.cancel(check=False)
        if not self._running:
            self._known.unlink(missing_ok=True)


class RayEngine:
    """Cells as tasks of a Ray cluster; a task that loses its machine is rerun from its checkpoint."""

    def __init__(self, settings: SweepSettings, slots: Sequence[Slot]) -> None:
        self._ray: Any = import_module("ray")
        if not self._ray.is_initialized():
            self._ray.init(log_to_driver=False, include_dashboard=False)
        self._slots, self._running = slots, dict[Any, tuple[str, float]]()
        gpus = settings.processes if slots and slots[0].device != "cpu" and self._has_gpus() else 0
        options = {"num_cpus": settings.processes, "num_gpus": gpus, "max_retries": 10, "max_calls": 1}
        self._run = self._ray.remote(**options)(_on_ray)

    def _has_gpus(self) -> bool:
        return bool(self._ray.cluster_resources().get("GPU", 0))

    @property
    def free(self) -> int:
        return len(self._slots) - len(self._running)

    def start(self, call: Call) -> None:
        make_folder(call.log.parent)
        reference = self._run.remote(ClusterCell(call, self._slots[0]))
        self._running[reference] = call.name, time.monotonic()

    def wait(self) -> CallResult:
        while not (finished := self._ray.wait(list(self._running), num_returns=1, timeout=POLL)[0]):
            continue
        name, started = self._running.pop(finished[0])
        try:
            value, failure = self._ray.get(finished[0])
        except Exception as error:
            value, failure = None, failure_reason(error)
        return CallResult(name, value, failure, time.monotonic() - started)

    def __enter__(self) -> RayEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for reference in self._running:
            with suppress(Exception):
                self._ray.cancel(reference)


def _on_ray(cell: ClusterCell) -> tuple[Any, str]:
    return cell()


def queued_jobs() -> set[str] | None:
    """Ids of this user's jobs in Slurm's queue, each task of an array by itself; None if Slurm does not answer."""
    answer = _ask_slurm("squeue", "--noheader", "--array", "--format=%i", f"--user={os.getuid()}")
    return None if answer is None else set(answer.split())


def has_accounting() -> bool:
    """True if Slurm keeps the states of jobs that have ended."""
    return _ask_slurm("sacct", "--noheader", "--format=State") is not None


def _ask_slurm(*command: str) -> str | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=LOOK, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def _result(job: Any) -> tuple[Any, str]:
    """A job's output and the reason of its failure; for a killed job the scheduler's state."""
    try:
        value: tuple[Any, str] = job.result()
    except Exception as error:
        return None, f"its job {job.job_id} ended ({job.state}): {failure_reason(error)}"
    return value


def _submitit_parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with submitit's names: its own, or Slurm's with the prefix ``slurm_``."""
    own = {"name", "timeout_min", "mem_gb", "nodes", "cpus_per_task", "gpus_per_node", "tasks_per_node"}
    return {
        name if name in own or name.startswith("slurm_") else f"slurm_{name}": value
        for name, value in values.items()
    }
