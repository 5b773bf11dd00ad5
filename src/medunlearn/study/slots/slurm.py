"""Engine of a Slurm cluster: calls as its jobs, by submitit."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from types import FrameType, TracebackType
from typing import Any

from medunlearn.data.storage import make_folder, read_json, write_json
from medunlearn.errors import ConfigError
from medunlearn.study.slots.call import Call, CallResult, failure_reason
from medunlearn.study.slots.process_launch import ClusterCall
from medunlearn.study.slots.slot import EngineSettings, Slot

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


class SlurmCall(ClusterCall):
    """A call as a Slurm job, which may be preempted or time out.

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
        self.interrupt()

    def checkpoint(self) -> Any:
        """Write a checkpoint; returns the job for submitit to queue again."""
        self.interrupt()
        return import_module("submitit").helpers.DelayedSubmission(SlurmCall(self.call, self.slot))


class SlurmEngine:
    """Calls as Slurm jobs with the resources of their own processes; alike ones that start together form an array.

    A job that is preempted or times out is queued again and resumes from its checkpoint. If this process is killed,
    its jobs continue; the next process waits for them instead of submitting them again.
    """

    def __init__(self, settings: EngineSettings, slots: Sequence[Slot]) -> None:
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
        self._options = settings.slurm
        self._set_resources(settings.processes)
        stored = read_json(self._known) if self._known.exists() else {}
        self._ids: dict[str, str] = stored if isinstance(stored, dict) else {}
        self._waiting: list[Call] = []
        self._running: dict[str, tuple[Any, float]] = {}
        self._absent: set[str] = set()
        self._next_look = time.monotonic() + LOOK

    def _set_resources(self, processes: int) -> None:
        """Set the parameters of the next jobs, by their processes where the user gives none."""
        values = {**_DEFAULTS, "slurm_array_parallelism": len(self._slots), **self._options}
        values.setdefault("gpus_per_node", processes if self._slots and self._slots[0].device != "cpu" else 0)
        values.setdefault("cpus_per_task", 2 * processes)
        try:
            self._executor.update_parameters(**_submitit_parameters(values))
        except (AssertionError, NameError, TypeError, ValueError) as error:
            raise ConfigError([f"slurm: {error}"]) from error

    @property
    def has_room(self) -> bool:
        return len(self._slots) > len(self._running) + len(self._waiting)

    def start(self, call: Call) -> bool:
        """Queue a call; it is submitted together with others at the next :meth:`wait`."""
        make_folder(call.log.parent)
        self._waiting.append(call)
        return True

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
        by_processes = defaultdict[int, list[Call]](list)
        for call in self._waiting:
            if not self._is_there(call):
                by_processes[call.processes_in(self._slots[0])].append(call)
        self._waiting = []
        for processes, calls in by_processes.items():
            self._submit_array(calls, processes)

    def _submit_array(self, calls: Sequence[Call], processes: int) -> None:
        slot, _ = self._slots[0].split(processes)
        self._set_resources(processes)
        try:
            with self._executor.batch():
                jobs = [self._executor.submit(SlurmCall(call, slot)) for call in calls]
        except RuntimeError as error:
            hint = "Options of sbatch are set with --slurm.NAME VALUE; without GPUs: --slurm.gpus_per_node 0."
            raise ConfigError([f"on=slurm: no job was taken: {str(error).strip()}. {hint}"]) from error
        for call, job in zip(calls, jobs, strict=True):
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
