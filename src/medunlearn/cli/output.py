"""Output of every command: lines, tables, JSON; and errors as messages with exit codes."""

from __future__ import annotations

import errno
import functools
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medunlearn.cli.launch import end_together, rank_zero_output, several
from medunlearn.errors import InputError, MedunlearnError
from medunlearn.terminal import printable, terminal_width, with_interval, wrapped
from medunlearn.training.interrupt import terminable

if TYPE_CHECKING:
    from medunlearn.reports.blocks import Table
    from medunlearn.reports.view import ResultView

INTERRUPTED = 130
Row = Mapping[Any, Any]


def near(path: str | Path) -> str:
    """A path as the user would type it: relative to the working folder if inside it."""
    here = Path.cwd()
    return str(Path(path).relative_to(here) if Path(path).is_relative_to(here) else path)


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


@dataclass(frozen=True)
class Output:
    """Printer of a command: tables on standard output, progress on standard error, or JSON only."""

    quiet: bool = False
    json: bool = False

    def say(self, line: str) -> None:
        """Print a line on standard error, above an open progress bar."""
        if not self.quiet:
            print(f"> {printable(line)}", file=sys.stderr, flush=True)

    def line(self, *lines: str, whole: bool = False) -> None:
        """Print paragraphs, broken between words where someone reads them on a terminal.

        Args:
            whole: lines are not broken, so a path in one can be copied.
        """
        if self.quiet or self.json:
            return
        width = None if whole else terminal_width()
        for line in lines:
            for part in printable(line).split("\n"):
                print("\n".join(wrapped(part, width)) if width else part)

    def warn(self, lines: Iterable[str]) -> None:
        self.line(*(f"WARNING: {line}" for line in lines))

    def data(self, value: Any) -> bool:
        """Print JSON if requested and return whether it was; a callable is evaluated only then."""
        if self.json:
            value = value() if callable(value) else value
            print(printable(json.dumps(value, indent=2, ensure_ascii=False, default=_as_json)))
        return self.json

    def table(self, title: str, columns: Iterable[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a title above a table."""
        from medunlearn.reports.view import plain_table

        if not (self.quiet or self.json):
            self.block(title, plain_table(columns, rows))

    def block(self, title: str, table: Table) -> None:
        """Print a table of a report: one line a row, except on a terminal too narrow for it."""
        from medunlearn.reports.terminal_table import table_lines

        if self.quiet or self.json:
            return
        head, *rows = table_lines(table, terminal_width())
        bold = click.style if sys.stdout.isatty() else lambda text, **_: text
        lines = [*([bold(printable(title), bold=True)] if title else []), bold(head, bold=True), *rows]
        print("\n".join(lines) + "\n", flush=True)

    def frame(self, title: str, rows: Any, columns: Mapping[str, Any] | Iterable[str]) -> None:
        """Print a DataFrame or records.

        Args:
            columns: names of fields; or heading -> name of a field, or a function of the row.
        """
        lines = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
        fields = columns if isinstance(columns, Mapping) else {name: name for name in columns}
        cells = fields.values()
        self.table(
            title, fields, [[row[cell] if isinstance(cell, str) else cell(row) for cell in cells] for row in lines]
        )

    def view(self, view: ResultView) -> None:
        """Print a view's tables, then its sentences."""
        for title, table in view.tables:
            self.block(title, table)
        self.line(*view.lines)


def _as_json(value: Any) -> Any:
    """A record as a dictionary of its fields; other non-JSON values as text."""
    return value.as_dict() if hasattr(value, "as_dict") else str(value)


def difference(row: Row) -> str:
    """A row's ``difference`` with its interval ``low`` to ``high``."""
    return with_interval(row, "difference")


def records(table: Any) -> list[dict[str, Any]]:
    """A DataFrame's rows for JSON, with missing values as null."""
    plain = table.astype(object)
    rows = plain.where(plain.notna(), None).to_dict("records")
    return [{str(key): value for key, value in row.items()} for row in rows]
