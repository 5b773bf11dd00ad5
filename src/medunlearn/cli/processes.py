"""A command that torchrun starts in several processes: the main one speaks for all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout

import typer
from rich.console import Console

TOGETHER = ("train", "unlearn", "run", "demo")


def several() -> bool:
    """Whether this command runs in several processes; torch is not imported to know it."""
    return os.environ.get("WORLD_SIZE", "1") != "1" and "RANK" in os.environ and "MASTER_ADDR" in os.environ


def refuse_alone(verb: str) -> None:
    """End a command that would do the same work in each of several processes."""
    if several() and verb not in TOGETHER:
        if os.environ["RANK"] == "0":
            Console(stderr=True, soft_wrap=True).print(
                f"[bold red]error:[/] `{verb}` runs in one process. Start it without torchrun, which is for "
                f"{', '.join(TOGETHER)}.",
                highlight=False,
            )
        raise typer.Exit(2)


@contextmanager
def one_voice(err: Console) -> Iterator[None]:
    """Around a command: it joins the other processes, and is heard only in the main one."""
    if not several():
        yield
        return
    from medunlearn.training.processes import join

    if join().main:
        yield
        return
    err.quiet = True
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        yield


def end_together(error: BaseException | None, say: Callable[[BaseException], None]) -> None:
    """Say what ended the command; in several processes once, and before any of them goes."""
    if several():
        from medunlearn.training.processes import leave

        leave(error, say)
    elif error is not None:
        say(error)
