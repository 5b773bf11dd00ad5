"""Commands that torchrun starts in several processes: only rank 0 prints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

from medunlearn.errors import InputError

TOGETHER = ("train", "unlearn", "evaluate", "attack", "run", "demo")


def several() -> bool:
    """True if this command runs in several processes; decided without importing torch."""
    return os.environ.get("WORLD_SIZE", "1") != "1" and "RANK" in os.environ and "MASTER_ADDR" in os.environ


def refuse_alone(verb: str) -> None:
    """Refuse a command that would do the same work in each of several processes.

    Raises:
        InputError: without a message in the other processes.
    """
    if several() and verb not in TOGETHER:
        if os.environ["RANK"] != "0":
            raise SystemExit(2)
        verbs = ", ".join(TOGETHER)
        raise InputError(f"`{verb}` runs in one process. Start it without torchrun, which is for {verbs}.")


@contextmanager
def rank_zero_output() -> Iterator[None]:
    """Join the other processes; only rank 0 prints."""
    if not several():
        yield
        return
    from medunlearn.training.processes import join

    if join().main:
        yield
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def end_together(error: BaseException | None, say: Callable[[BaseException], None]) -> None:
    """Print the error that ended the command; with several processes once, before any of them exits."""
    if several():
        from medunlearn.training.processes import leave

        leave(error, say)
    elif error is not None:
        say(error)
