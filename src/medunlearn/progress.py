"""Progress bars with rate and time left; nothing where nobody watches."""

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

Advance = Callable[..., None]


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f}/s", style="dim")


@contextmanager
def progress(what: str, total: int, *, quiet: bool = False) -> Iterator[Advance]:
    """A bar on standard error while the block runs.

    Args:
        what: shown in front of the bar.
        total: units of work.
        quiet: show nothing. Nothing is shown either when standard error is no terminal.

    Yields:
        ``advance(n=1, note="")``: n more units are done; the note stands behind the bar.
    """
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda done=1, note="": None
        return
    columns = (
        TextColumn("{task.description:<26}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("[dim]{task.fields[note]}"),
    )
    with Progress(*columns, console=console) as bars:
        task = bars.add_task(what, total=total, note="")

        def advance(done: int = 1, note: str = "") -> None:
            bars.update(task, advance=done)
            if note:
                bars.update(task, note=note)

        yield advance
