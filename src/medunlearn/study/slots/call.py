"""Calls that an engine runs, and their results."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from medunlearn.data.folder_lock import patient
from medunlearn.errors import MedunlearnError
from medunlearn.study.slots.slot import Slot

PATIENCE = 60.0
"""Seconds that an interrupted process may take to end its step and write a checkpoint."""
T = TypeVar("T")
J = TypeVar("J")


class Call(NamedTuple):
    """``function(argument, slot)``; both are picklable, and the function is importable.

    Its output is appended to the file ``log``. ``processes`` share its work; None: all of a slot.
    """

    name: str
    function: Callable[[Any, Slot], Any]
    argument: Any
    log: Path
    processes: int | None = None

    def processes_in(self, slot: Slot) -> int:
        """Number of processes that it takes of a slot."""
        return min(self.processes or slot.processes, slot.processes)


class CallResult(NamedTuple):
    """Result of a call; ``failure`` is "" if it succeeded, ``seconds`` include the start of a new process."""

    name: str
    value: Any
    failure: str
    seconds: float


def run_here(function: Callable[[J, Slot], T], argument: J, slot: Slot) -> T:
    """Run a call in this process with the slot's threads, and free its memory.

    One model may stay in memory: the next call overwrites its weights, or releases it before loading another.
    """
    import torch

    torch.set_num_threads(slot.threads)
    try:
        # A worker that was killed may still be writing its last checkpoint.
        with patient(PATIENCE):
            return function(argument, slot)
    except BaseException:
        if slot.work is not None:
            slot.work.base.drop()
        raise
    finally:
        gc.collect()
        if slot.work is not None:
            slot.work.keep_aside()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def failure_reason(error: BaseException) -> str:
    """Reason of a call's failure in one line; for foreign errors only their first line."""
    text = str(error).strip()
    if isinstance(error, MedunlearnError):
        return text
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
