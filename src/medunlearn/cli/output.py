"""Output of every command: lines, tables, JSON; and errors as messages with exit codes."""

from __future__ import annotations

import errno
import functools
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medunlearn.cli.launch import end_together, rank_zero_output, several
from medunlearn.errors import InputError, MedunlearnError
from medunlearn.terminal import printable, terminal_width
from medunlearn.training.interrupt import terminable

if TYPE_CHECKING:
    from medunlearn.reports.blocks import Block
    from medunlearn.result_view import ResultView

INTERRUPTED = 130


def handle_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Turn every error meant for the user into a message and an exit code, without a traceback."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        failure: BaseException | None = None
        try:
            # torchrun ends the other processes by SIGTERM where one has failed: at once.
            with nullcontext() if several() else terminable(), rank_zero_output():
                command(*args, **kwargs)
        except BrokenPipeError:
            sys.stderr.close()
            raise SystemExit(1) from None
        except BaseException as error:
            failure = error
        end_together(failure, print_error)
        if isinstance(failure, MedunlearnError | KeyboardInterrupt | OSError):
            raise SystemExit(_exit_code(failure)) from failure
        if failure is not None:
            raise failure

    return wrapped


def print_error(error: BaseException) -> None:
    if isinstance(error, KeyboardInterrupt):
        click.secho("\ninterrupted.", fg="yellow", err=True, nl=False)
        click.echo(" What was done is kept; give the same command again and it goes on from there.", err=True)
    elif isinstance(error, MedunlearnError | OSError):
        if isinstance(error, OSError):
            error = _os_error(error)
        click.secho("error:", fg="red", bold=True, err=True, nl=False)
        click.echo(f" {printable(error)}", err=True)


def _os_error(error: OSError) -> MedunlearnError:
    """An OSError as an error for the user: bad input, unless the disk is full."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        from medunlearn.data.storage import as_storage_error

        return as_storage_error(error, Path(error.filename or "a file")) or MedunlearnError(str(error))
    if not error.filename:
        return MedunlearnError(f"The system refused: {error.strerror or error}.")
    return InputError(f"{error.filename} cannot be opened: {error.strerror or error}.")


def _exit_code(error: MedunlearnError | KeyboardInterrupt | OSError) -> int:
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return (error if isinstance(error, MedunlearnError) else _os_error(error)).exit_code


def view_of(result: Any) -> ResultView:
    """The view of a result that brings its own."""
    view: ResultView = result.view()
    return view


@dataclass(frozen=True)
class Output:
    """Printer of a command: tables on standard output, progress on standard error, or JSON only."""

    quiet: bool = False
    json: bool = False

    def say(self, line: str) -> None:
        """Print a line on standard error, above an open progress bar."""
        if not self.quiet:
            print(f"> {printable(line)}", file=sys.stderr, flush=True)

    def show(self, view: ResultView) -> None:
        """Print a result: warnings, blocks and notes; or its data as JSON.

        Raises:
            MedunlearnError: a part of the result is missing.
        """
        if self.json:
            data = view.data() if callable(view.data) else view.data
            print(printable(json.dumps(data, indent=2, ensure_ascii=False, default=_as_json)))
        elif not self.quiet:
            for block in (*(f"WARNING: {line}" for line in view.warnings), *view.blocks):
                self.block(block)
            for note in view.notes:
                self.say(note)
        if view.failure:
            raise MedunlearnError(view.failure)

    def block(self, block: Block | str | None) -> None:
        """Print a block of a report, broken between words where someone reads it on a terminal."""
        from medunlearn.reports.terminal_blocks import block_lines

        if block:
            bold = functools.partial(click.style, bold=True) if sys.stdout.isatty() else str
            print("\n".join(block_lines(block, terminal_width(), bold)), flush=True)


def _as_json(value: Any) -> Any:
    """A record as a dictionary of its fields, a DataFrame as rows with missing values as null, the rest as text."""
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        plain = value.astype(object)
        rows = plain.where(plain.notna(), None).to_dict("records")
        return [{str(key): item for key, item in row.items()} for row in rows]
    return value.as_dict() if hasattr(value, "as_dict") else str(value)
