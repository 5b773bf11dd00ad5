"""Processes that work through calls, one at a time each; one that dies takes only its own call with it.

Plain child processes and pipes, for the reasons that :mod:`medunlearn.metrics.workers` gives; here a child stays
for many calls, so that torch is imported once.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from medunlearn.errors import MedunlearnError

_CHILD = (
    "import pickle, sys\n"
    "sys.path[:] = pickle.load(sys.stdin.buffer)\n"
    "from medunlearn.pipeline.sweep.workers import serve\n"
    "serve()"
)
# How long an interrupted worker may take to end its step and write a checkpoint.
PATIENCE = 60.0


@dataclass(frozen=True)
class Place:
    """What a worker works with: a device, and how many processor cores."""

    device: str = "cpu"
    threads: int = 1


@dataclass(frozen=True)
class Call:
    """``function(argument, place)``; both can be pickled, and the function stands in a module.

    Attributes:
        log: file that what the call says is added to.
    """

    name: str
    function: Callable[[Any, Place], Any]
    argument: Any
    log: Path


@dataclass(frozen=True)
class Ended:
    """How a call ended.

    Attributes:
        value: what the function made; None where it failed.
        failure: why it failed; "" where it did not.
        seconds: from the call to its end, the start of a new process included.
    """

    name: str
    value: Any
    failure: str
    seconds: float


class Pool:
    """Workers, one a place; a context that leaves no process behind.

    Left by Ctrl-C, it lets each worker end its step and write a checkpoint; a second Ctrl-C ends them at once.
    """

    def __init__(self, places: Sequence[Place]) -> None:
        self._workers = [_Worker(place) for place in places]
        self._idle = list(self._workers)
        self._ended: queue.SimpleQueue[tuple[_Worker, Ended]] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    @property
    def free(self) -> int:
        """How many workers have nothing to do."""
        return len(self._idle)

    def start(self, call: Call) -> None:
        """Give a call to a free worker."""
        worker = self._idle.pop()

        def work() -> None:
            started = time.perf_counter()
            value, failure = worker.answer(call)
            self._ended.put((worker, Ended(call.name, value, failure, time.perf_counter() - started)))

        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(threading.Thread(target=work, daemon=True))
        self._threads[-1].start()

    def wait(self) -> Ended:
        """The next call that ends."""
        while True:
            # With a time limit, so that Ctrl-C is heard everywhere.
            with suppress(queue.Empty):
                worker, ended = self._ended.get(timeout=1.0)
                self._idle.append(worker)
                return ended

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, KeyboardInterrupt):
                for worker in self._workers:
                    worker.interrupt()
                limit = time.monotonic() + PATIENCE
                for worker in self._workers:
                    worker.wait(limit - time.monotonic())
        finally:
            for worker in self._workers:
                worker.kill()
            # A pipe is closed by the thread that reads it, or once there is none.
            for thread in self._threads:
                thread.join()
            for worker in self._workers:
                worker.close()


class _Worker:
    """A child process, started when there is something to do and again after it died."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._process: subprocess.Popen[bytes] | None = None

    def answer(self, call: Call) -> tuple[Any, str]:
        """What the call made, and why it failed or ""."""
        try:
            process = self._process = self._process or self._started(call.log)
            requests, answers = process.stdin, process.stdout
            if requests is None or answers is None:
                raise EOFError
            pickle.dump((call, self._place), requests)
            requests.flush()
            value, failure = pickle.load(answers)
        except (EOFError, OSError, pickle.UnpicklingError):
            return None, self._lost()
        return value, str(failure)

    def _started(self, log: Path) -> subprocess.Popen[bytes]:
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with log.open("ab") as errors:
            # A session of its own keeps Ctrl-C from it: this process tells it, and waits for it.
            process = subprocess.Popen(
                [sys.executable, "-c", _CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "OMP_NUM_THREADS": str(self._place.threads)},
                start_new_session=True,
            )
        if process.stdin is not None:
            pickle.dump(sys.path, process.stdin)
        return process

    def _lost(self) -> str:
        if self._process is None:
            return "its process could not be started"
        process, self._process = self._process, None
        process.kill()
        code = process.wait()
        _close(process)
        how = f"by signal {-code}; out of memory?" if code < 0 else f"with code {code}; the log says more"
        return f"its process ended ({how})"

    def interrupt(self) -> None:
        if process := self._process:
            with suppress(OSError):
                process.send_signal(signal.SIGINT)

    def wait(self, seconds: float) -> None:
        if process := self._process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, seconds))

    def kill(self) -> None:
        if process := self._process:
            process.kill()
            process.wait()

    def close(self) -> None:
        if process := self._process:
            _close(process)


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def serve() -> None:
    """What a child does: answer calls until there are no more, or until it is interrupted."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Not a second reader of the same pipe: this one may hold the next call already.
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # Whatever prints in here must not get between the bytes of an answer.
    os.dup2(2, 1)
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()
    try:
        while True:
            call, place = pickle.load(requests)
            pickle.dump(_answer(call, place), answers)
            answers.flush()
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return


def _watch(parent: int) -> None:
    """A child whose parent was killed stops as by Ctrl-C, or the next sweep would meet it in its folders."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(PATIENCE)
    os._exit(1)


def _answer(call: Call, place: Place) -> tuple[Any, str]:
    call.log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with call.log.open("a", encoding="utf-8") as log:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        _note(log, f"{call.name}: starts on {place.device} with {place.threads} threads")
        try:
            value = call.function(call.argument, place)
        except KeyboardInterrupt:
            _note(log, "interrupted; it goes on from its last checkpoint")
            raise
        except Exception as error:
            failure = _reason(error)
            _note(log, f"failed: {failure}")
            if not isinstance(error, MedunlearnError):
                # The lines of code without the values in them, which may be a patient's.
                log.writelines(traceback.format_tb(error.__traceback__))
            return None, failure
        _note(log, "done")
        return value, ""


def _note(log: IO[str], line: str) -> None:
    log.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {line}\n")
    log.flush()


def _reason(error: Exception) -> str:
    text = str(error).strip()
    if isinstance(error, MedunlearnError):
        return text
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
