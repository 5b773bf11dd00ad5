"""Progress: bars with rate and remaining time on a terminal, a line a minute elsewhere, as in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from medunlearn.terminal import printable, printable_line

Advance = Callable[..., None]
_open: list[Progress] = []


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f}/s", style="dim")


@contextmanager
def progress(
    what: str, total: int, *, quiet: bool = False, check: Callable[[], None] | None = None
) -> Iterator[Advance]:
    """Context with a bar on standard error; yields ``advance(n=1, note="")``, with the note after the bar.

    A nested bar is shown below the outer one, and removed at the end of its block. When standard error is not a
    terminal, work that takes longer prints a line a minute.

    Args:
        check: called after each advance; what it raises ends the work.
    """
    with _display(what, total, quiet) as show:

        def advance(steps: int = 1, note: str = "") -> None:
            show(steps, note)
            if check is not None:
                check()

        yield advance


@contextmanager
def _display(what: str, total: int, quiet: bool) -> Iterator[Advance]:
    console = Console(stderr=True)
    if quiet:
        yield lambda steps=1, note="": None
        return
    if not console.is_terminal:
        yield _Lines(printable_line(what), total)
        return
    if _open:  # two displays would write over each other
        with _bar(_open[-1], what, total) as advance:
            yield advance
        return
    columns = (
        TextColumn("{task.description:<26}", markup=False),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[note]}", style="dim", markup=False),
    )
    with Progress(*columns, console=console) as bars:
        _open.append(bars)
        try:
            with _bar(bars, what, total, stays=True) as advance:
                yield advance
        finally:
            _open.remove(bars)


def remark(line: str, *, quiet: bool = False) -> None:
    """Print one line on standard error, above open bars."""
    if not quiet:
        console = _open[-1].console if _open else Console(stderr=True, soft_wrap=True)
        console.print(Text.assemble((">", "dim"), f" {printable(line)}"))


MINUTE = 60.0


class _Lines:
    """Progress as lines for a log: ``fine-tuning: 40% (120 of 300), 5 minutes left``, at most one a minute."""

    last: ClassVar[float] = 0.0
    """Time of the last line of any work: nested work shares the minute."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.steps, self.start = what, total, 0, time.monotonic()
        _Lines.last = _Lines.last or self.start

    def __call__(self, steps: int = 1, note: str = "") -> None:
        self.steps += steps
        now = time.monotonic()
        if now - max(_Lines.last, self.start) < MINUTE or not 0 < self.steps < self.total:
            return
        _Lines.last = now
        share, left = self.steps / self.total, (now - self.start) * (self.total / self.steps - 1.0)
        words = f"{self.what}: {share:.0%} ({self.steps:,} of {self.total:,}), {_duration(left)} left"
        remark(f"{words}, {note}" if note else words)


def _duration(seconds: float) -> str:
    """A time in whole minutes or hours: ``5 minutes``."""
    number, unit = (round(seconds / 3600), "hour") if seconds >= 5400 else (max(1, round(seconds / 60)), "minute")
    return f"{number} {unit}{'' if number == 1 else 's'}"


@contextmanager
def _bar(bars: Progress, what: str, total: int, *, stays: bool = False) -> Iterator[Advance]:
    task = bars.add_task(printable_line(what), total=total, note="")

    def advance(steps: int = 1, note: str = "") -> None:
        bars.update(task, advance=steps)
        if note:
            bars.update(task, note=printable_line(note))

    try:
        yield advance
    finally:
        if not stays:
            bars.remove_task(task)
