"""Process pool of a sweep: one executor per worker, so that a crash only affects its own cell and the worker is
replaced.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from medunlearn.data.storage import make_folder
from medunlearn.errors import MedunlearnError
from medunlearn.metrics.workers import main_module_hidden

if TYPE_CHECKING:
    from medunlearn.probes.shared_work import SharedWork

# Seconds that an interrupted worker may take to end its step and write a checkpoint.
PATIENCE = 60.0
# Not forked: the caller may have torch's threads in it.
CONTEXT: BaseContext = multiprocessing.get_context("spawn")
_at_work = threading.Lock()


@dataclass(frozen=True)
class Slot:
    """A worker's device and processor cores.

    Attributes:
        device: of a cell in one process.
        threads: of each process.
        processes: that a training run is shared among.
        gpus: numbers of the GPUs that they have, of those that this process sees; none on a CPU.
        work: what the calls of a worker share, given to them there; None: nothing.
    """

    device: str = "cpu"
    threads: int = 1
    processes: int = 1
    gpus: tuple[int, ...] = ()
    work: SharedWork | None = None


class Call(NamedTuple):
    """``function(argument, slot)``; both are picklable, and the function is importable.

    Its output is appended to the file ``log``.
    """

    name: str
    function: Callable[[Any, Slot], Any]
    argument: Any
    log: Path


class CallResult(NamedTuple):
    """Result of a call; ``failure`` is "" if it succeeded, ``seconds`` include the start of a new process."""

    name: str
    value: Any
    failure: str
    seconds: float


class Pool:
    """Workers, one per slot; a context that leaves no process behind.

    On Ctrl-C each worker finishes its step and writes a checkpoint; a second Ctrl-C ends them at once.
    """

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._idle = [_Worker(slot) for slot in slots]
        self._workers = tuple(self._idle)
        self._running: dict[Future[tuple[Any, str]], tuple[_Worker, str, float]] = {}

    @property
    def free(self) -> int:
        """Number of idle workers."""
        return len(self._idle)

    def start(self, call: Call) -> None:
        """Assign a call to an idle worker."""
        worker, started = self._idle.pop(), time.perf_counter()
        self._running[worker.submit(call)] = worker, call.name, started

    def wait(self) -> CallResult:
        """Wait for the next call that ends."""
        # With a time limit, so that Ctrl-C is heard everywhere.
        while not (finished := wait(self._running, timeout=1.0, return_when=FIRST_COMPLETED).done):
            continue
        future = finished.pop()
        worker, name, started = self._running.pop(future)
        value, failure = worker.result(future)
        self._idle.append(worker)
        return CallResult(name, value, failure, time.perf_counter() - started)

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, KeyboardInterrupt):
                for worker, _, _ in self._running.values():
                    worker.interrupt()
                wait(self._running, timeout=PATIENCE)
        finally:
            for worker in self._workers:
                worker.kill()


class _Worker:
    """An executor of one process, created at the first call and again after the process died."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._executor: ProcessPoolExecutor | None = None
        self._process: BaseProcess | None = None

    def submit(self, call: Call) -> Future[tuple[Any, str]]:
        make_folder(call.log.parent)
        call.log.touch(mode=0o600)
        if self._executor is not None:
            try:
                return self._executor.submit(_answer, call, self._slot)
            except BrokenProcessPool:  # its process died idle
                self.kill()
        self._executor = ProcessPoolExecutor(1, CONTEXT, initializer=_begin, initargs=(os.getcwd(), call.log))
        earlier = set(multiprocessing.active_children())
        threads = {"OMP_NUM_THREADS": str(self._slot.threads)}
        # A process started inside hears no Ctrl-C before `_begin`.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with main_module_hidden(), mock.patch.dict(os.environ, threads):
                future = self._executor.submit(_answer, call, self._slot)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self._process = next(iter(set(multiprocessing.active_children()) - earlier), None)
        return future

    def result(self, future: Future[tuple[Any, str]]) -> tuple[Any, str]:
        """The value of a call, and the reason of its failure or ""."""
        error = future.exception()
        if error is None:
            return future.result()
        if not isinstance(error, BrokenProcessPool):
            return None, failure_reason(error)
        process = self._process
        self.kill()
        code = process.exitcode if process is not None else None
        if code is None:
            return None, "its process ended (out of memory?)"
        how = f"by signal {-code}; out of memory?" if code < 0 else f"with code {code}; the log says more"
        return None, f"its process ended ({how})"

    def interrupt(self) -> None:
        if self._process is not None and self._process.pid is not None:
            with suppress(OSError):
                os.kill(self._process.pid, signal.SIGINT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
        self._executor = self._process = None


def _begin(folder: str, log: Path) -> None:
    """Initializer of a worker: in a separate session, so that only its parent forwards Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Spawned processes begin in the folder where their parent began.
    os.chdir(folder)
    with _redirect_output(log):
        threading.Thread(target=_end_with_parent, daemon=True).start()


@cache
def _worker_work() -> SharedWork:
    """The state shared by this worker's calls."""
    from medunlearn.probes.shared_work import SharedWork  # loads torch, which a plan does without

    return SharedWork()


def _end_with_parent() -> None:
    """Stop a worker like Ctrl-C when its parent is killed, so that the next sweep does not find it in its
    folders.
    """
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGINT)
        _at_work.acquire(timeout=PATIENCE)
        os._exit(1)


def _answer(call: Call, slot: Slot) -> tuple[Any, str]:
    with _at_work, _redirect_output(call.log) as log:
        _note(log, f"{call.name}: starts on {slot.device} with {slot.threads} threads")
        try:
            value = call.function(call.argument, replace(slot, work=_worker_work()))
        except KeyboardInterrupt:
            _note(log, "interrupted; it goes on from its last checkpoint")
            raise
        except Exception as error:
            failure = failure_reason(error)
            _note(log, f"failed: {failure}")
            if not isinstance(error, MedunlearnError):
                # The lines of code without the values in them, which may be a patient's.
                log.writelines(traceback.format_tb(error.__traceback__))
            return None, failure
        _note(log, "done")
        return value, ""


@contextmanager
def _redirect_output(path: Path) -> Iterator[IO[str]]:
    """Redirect the process's output to an opened log, permanently."""
    with path.open("a", encoding="utf-8") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        yield log


def _note(log: IO[str], line: str) -> None:
    log.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {line}\n")
    log.flush()


def failure_reason(error: BaseException) -> str:
    """Reason of a call's failure in one line; for foreign errors only their first line."""
    text = str(error).strip()
    if isinstance(error, MedunlearnError):
        return text
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
