"""Progress bars with rate and remaining time; hidden without a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

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

    Nothing is shown when standard error is not a terminal. A nested bar is shown below the outer one, and removed
    at the end of its block.

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
    if quiet or not console.is_terminal:
        yield lambda steps=1, note="": None
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
