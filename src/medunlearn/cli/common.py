"""What every verb shares: options, output, and how errors end a command."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from medunlearn.cli.processes import end_together, one_voice
from medunlearn.config import Settings, fields_of
from medunlearn.data.storage import as_storage_error
from medunlearn.errors import MedunlearnError

INTERRUPTED = 130
UNSCORED = "unscored"
ROUNDED = 0.1  # share of what an adapter learned; where rounding changes as much, it is said

Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, ...")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of everything random in this command.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Settings; they are listed below.", show_default=False),
]

err = Console(stderr=True, soft_wrap=True)


def ending(command: Callable[..., None]) -> Callable[..., None]:
    """Turn every error that is meant for the user into a message and an exit code, without a traceback.

    0 done, 1 it ran and something failed, 2 bad input, 130 interrupted and resumable.
    """

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        ended: BaseException | None = None
        try:
            with one_voice(err):
                command(*args, **kwargs)
        except BrokenPipeError:
            sys.stderr.close()
            raise typer.Exit(1) from None
        except BaseException as error:
            ended = error
        end_together(ended, _say)
        if isinstance(ended, MedunlearnError | KeyboardInterrupt | OSError):
            raise typer.Exit(_exit_code(ended)) from ended
        if ended is not None:
            raise ended

    return wrapped


def _say(error: BaseException) -> None:
    if isinstance(error, KeyboardInterrupt):
        err.print(
            "\n[yellow]interrupted.[/] What was done is kept; give the same command again and it goes on from "
            "there.",
            highlight=False,
        )
    elif isinstance(error, MedunlearnError | OSError):
        if isinstance(error, OSError):
            error = as_storage_error(error, Path(error.filename or "a file")) or error
        err.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False)


def _exit_code(error: MedunlearnError | KeyboardInterrupt | OSError) -> int:
    if isinstance(error, MedunlearnError):
        return error.exit_code
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def settings_help(*models: type[Settings]) -> str:
    """The settings of a verb as a help text: name, default, meaning."""
    settings = [
        f"- `{name}`: {text} ({default if default == 'required' else f'default {default}'})"
        for model in models
        for name, default, text in fields_of(model)
    ]
    return "Settings, written KEY=VALUE:\n\n" + "\n".join(settings)


def sayer(quiet: bool, as_json: bool) -> Callable[[str], None]:
    """A function that prints a line on standard error, or nothing when quiet."""

    def say(line: str) -> None:
        if not quiet:
            err.print(f"[dim]>[/] {escape(line)}", highlight=False)

    return say


def said_of_epochs(epochs: Mapping[str, Any]) -> str:
    """Which epoch's model a run has, and which one was best."""
    ended = f"ended early after epoch {epochs['done']}" if epochs["stopped_early"] else f"{epochs['done']} epochs"
    best = "no epoch has a number" if epochs["best"] is None else f"the best was epoch {epochs['best']}"
    return f"{ended}; {best}; the model is epoch {epochs['chosen']}'s ({epochs['select']}); see epochs.parquet"


def said_of_edit(method: str, edit: Mapping[str, Any]) -> str:
    """What a method that edits weights did, in the numbers that it gave."""
    numbers = ", ".join(f"{name} {value}" for name, value in edit.items() if isinstance(value, int | float | str))
    return f"edited by {method} ({numbers})"


def say_if_padded(say: Callable[[str], None], results: Mapping[str, Any]) -> None:
    """Say that a model, or some batches, could not be fed the cheap way, which its owner may want to know."""
    for name, of in (("batches", "batches"), ("option_batches", "batches of options")):
        if "padded" in results.get(name, ""):
            say(f"slower than it could be; {of} were {results[name]}")


def say_if_whole(say: Callable[[str], None], results: Mapping[str, Any]) -> None:
    """Say that a model's answers could not be decoded from one cache of a note."""
    if results["context"] == "note" and results.get("generation", "").startswith("whole"):
        say(f"slower than it could be; answers were decoded from {results['generation']}")


def say_if_rounded(say: Callable[[str], None], results: Mapping[str, Any]) -> None:
    """Say that the type of the weights holds less than a LoRA adapter learned, where it changed much of that."""
    share = results.get("saved", {}).get("merge_rounding", 0.0)
    if share >= ROUNDED:
        say(
            f"merging the LoRA adapter rounded: what that changed is {share:.0%} of what was learned; weights=fp32 "
            "or a larger lr keeps it"
        )


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A title above a table; the title is not squeezed into the table's width."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    console = Console()
    console.print(f"[bold]{escape(title)}[/]", highlight=False, soft_wrap=True)
    console.print(table)
    console.print()


def print_line(line: str) -> None:
    Console().print(escape(line), highlight=False)


def with_interval(row: Mapping[Any, Any]) -> str:
    """``0.98 [0.97, 0.99]``; a mean without a value is unscored, never 0."""
    if pd.isna(row["value"]):
        return UNSCORED
    if pd.isna(row["low"]):
        return f"{row['value']:.3f}"
    return f"{row['value']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
