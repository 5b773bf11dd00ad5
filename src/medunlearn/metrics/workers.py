"""Process pool for scoring: the first part runs in this process, each other part in a worker."""

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
    """Number of processor cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1


def shares(items: Sequence[Part], per_process: int, processes: int | None = None) -> list[Sequence[Part]]:
    """Parts of a sequence for :func:`in_processes`, in order and of equal length but for the last.

    Args:
        per_process: items that are worth a process.
        processes: number of parts; None: as many as there are cores, if there are items enough.
    """
    count = processes or max(1, min(usable_cores(), len(items) // per_process))
    size = max(1, -(-len(items) // count))
    return [items[start : start + size] for start in range(0, len(items), size)]


def in_processes(
    function: Callable[[Part], Result], parts: Sequence[Part], processes: int | None = None
) -> list[Result]:
    """``[function(part) for part in parts]``, the first part in this process and the others in turns.

    No worker outlives the call, even after an error or Ctrl-C. A worker holds one part at a time.

    Args:
        function: must be picklable, like its results: defined in an importable module, not in the main script.
        processes: this one and workers; None: one a part.

    Raises:
        MedunlearnError: a worker died.
        Exception: raised by the function; the first in order of parts.
    """
    processes = min(len(parts), processes or len(parts))
    if processes < 2:
        return [function(part) for part in parts]
    try:
        with _pool(processes - 1) as pool:
            with main_module_hidden():
                pending = {n: pool.submit(function, part) for n, part in enumerate(parts) if n % processes}
            own = {n: function(parts[n]) for n in range(0, len(parts), processes)}
            return [own[n] if n in own else pending[n].result() for n in range(len(parts))]
    except BrokenProcessPool as error:
        raise MedunlearnError(
            "A scoring process ended without an answer. Was it killed for memory? processes=1 scores in this "
            "process only."
        ) from error


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Pool whose workers are killed if the block is left by an error, since a shutdown would wait for them."""
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
    """Context that hides the main module, so that spawned workers do not run the caller's script again."""
    with mock.patch.dict(vars(sys.modules["__main__"]), {"__file__": None, "__spec__": None}):
        yield
