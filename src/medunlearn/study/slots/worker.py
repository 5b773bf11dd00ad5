"""Workers: processes that run one call after another in a slot, and are replaced if they die."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from unittest import mock

from medunlearn.data.storage import make_folder
from medunlearn.errors import MedunlearnError
from medunlearn.metrics.workers import main_module_hidden
from medunlearn.study.slots.call import PATIENCE, Call, failure_reason, run_here
from medunlearn.study.slots.process_launch import Launch
from medunlearn.study.slots.slot import Slot

if TYPE_CHECKING:
    from medunlearn.probes.shared_work import SharedWork

# Not forked: the caller may have torch's threads in it.
CONTEXT: BaseContext = multiprocessing.get_context("spawn")
_at_work = threading.Lock()


class Worker:
    """An executor of one process, created at the first call and again after the process died.

    In a slot of several processes it starts them for each call.
    """

    def __init__(self, slot: Slot) -> None:
        self.slot, self.busy = slot, False
        self._executor: ProcessPoolExecutor | None = None
        self._process: BaseProcess | None = None

    def submit(self, call: Call) -> Future[tuple[Any, str]]:
        make_folder(call.log.parent)
        call.log.touch(mode=0o600)
        if self._executor is not None:
            try:
                return self._executor.submit(_answer, call, self.slot)
            except BrokenProcessPool:  # its process died idle
                self.kill()
        self._executor = ProcessPoolExecutor(1, CONTEXT, initializer=_begin, initargs=(os.getcwd(), call.log))
        earlier = set(multiprocessing.active_children())
        # A process started inside hears no Ctrl-C before `_begin`.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with main_module_hidden(), mock.patch.dict(os.environ, self.slot.environment()):
                future = self._executor.submit(_answer, call, self.slot)
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


def _run(call: Call, slot: Slot) -> Any:
    if slot.processes > 1:
        return Launch(call.function, call.argument, slot).wait()
    return run_here(call.function, call.argument, slot)


def _answer(call: Call, slot: Slot) -> tuple[Any, str]:
    with _at_work, _redirect_output(call.log) as log:
        gpus = f" {', '.join(map(str, slot.gpus))}" if slot.gpus else ""
        _note(log, f"{call.name}: starts on {slot.device}{gpus} with {slot.threads} threads")
        try:
            value = _run(call, replace(slot, work=_worker_work()))
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
