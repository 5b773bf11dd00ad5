"""Process pool for scoring: the first part in this process, each other one in a worker."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar
from unittest import mock

from medunlearn.errors import MedunlearnError

Part = TypeVar("Part")
Result = TypeVar("Result")


def usable_cores() -> int:
    """Processor cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1


def in_processes(function: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """``[function(part) for part in parts]``, the first part in this process and each other one in a worker.

    No worker outlives the call, whether it ends well, by an error, or by Ctrl-C.

    Args:
        function: can be pickled, as its results can: it stands in a module that can be imported, not in the script
            that was started.

    Raises:
        MedunlearnError: a worker died.
        Exception: raised by the function; the first by order of parts.
    """
    if len(parts) < 2:
        return [function(part) for part in parts]
    try:
        with _pool(len(parts) - 1) as pool:
            with main_module_hidden():
                pending = [pool.submit(function, part) for part in parts[1:]]
            return [function(parts[0]), *(future.result() for future in pending)]
    except BrokenProcessPool as error:
        raise MedunlearnError(
            "A scoring process ended without an answer. Was it killed for memory? processes=1 scores in this "
            "process alone."
        ) from error


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Workers that are killed when the block is left by an error: shutting down would wait for their work."""
    earlier = {child.pid for child in multiprocessing.active_children()}
    # Not forked: this process may have torch's threads in it.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_leave_ctrl_c_to_the_caller) as pool:
        try:
            yield pool
        except BaseException:
            for child in multiprocessing.active_children():
                if child.pid not in earlier:
                    child.kill()
            raise


def _leave_ctrl_c_to_the_caller() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def main_module_hidden() -> Iterator[None]:
    """Spawned workers would run the caller's script again, which is rarely written for it."""
    with mock.patch.dict(vars(sys.modules["__main__"]), {"__file__": None, "__spec__": None}):
        yield
