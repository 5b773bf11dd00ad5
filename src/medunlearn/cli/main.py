"""The ``medunlearn`` command: verbs are loaded when they are named."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

# Before anything imports them: no telemetry, no progress bars of their own, one warning-free tokenizer.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
# On a CPU, a matrix kernel is prepared and kept for each shape that comes by. Keeping 1,024 of them, as is usual,
# takes half a gigabyte and saves no time.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

import click

import medunlearn
from medunlearn.cli.output import print_error
from medunlearn.cli.processes import refuse_alone
from medunlearn.cli.verbs import GROUPS, MOVED, VERBS
from medunlearn.errors import InputError, MedunlearnError, nearest


class Verbs(click.Group):
    """Commands whose names start with the same words; ``audit`` is a command itself and holds others."""

    def __init__(self, words: tuple[str, ...] = ()) -> None:
        super().__init__(" ".join(words) or "medunlearn", add_help_option=False, invoke_without_command=True)
        self.words = words

    def list_commands(self, ctx: click.Context) -> list[str]:
        deeper = [words for words in (*VERBS, *GROUPS) if words[:-1] == self.words]
        return list(dict.fromkeys(words[-1] for words in sorted(deeper, key=_place)))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        words = (*self.words, cmd_name)
        if words in GROUPS:
            return Verbs(words)
        return self.verb(words)

    def verb(self, words: tuple[str, ...]) -> click.Command | None:
        from medunlearn.cli.command import Generated

        return Generated(" ".join(words), VERBS[words]) if words in VERBS else None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name, rest = args[0], args[1:]
        words = (*self.words, name)
        deeper = bool(rest) and ((*words, rest[0]) in VERBS or (*words, rest[0]) in GROUPS)
        if words in VERBS and not deeper:
            return name, self.verb(words), rest
        found = self.get_command(ctx, name)
        if found is None and not ctx.resilient_parsing:
            raise InputError(self._unknown(ctx, name))
        return name, found, rest

    def _unknown(self, ctx: click.Context, name: str) -> str:
        said = " ".join((*self.words, name))
        if said in MOVED:
            return f"`{said}` is now `{MOVED[said]}`."
        known = self.list_commands(ctx)
        near = nearest(name, known)
        hint = f" Did you mean {near!r}?" if near else ""
        return f"There is no command {said!r}.{hint} Commands: {', '.join(known)}."

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing or (args and not args[0].startswith("-")):
            ctx._protected_args, ctx.args = args[:1], args[1:]
            return args
        if args == ["--version"] and not self.words:
            click.echo(f"medunlearn {medunlearn.__version__}")
            ctx.exit()
        from medunlearn.cli.help import print_verbs

        if args and args[0] not in ("--help", "-h"):
            raise InputError(
                f"There is no flag {args[0]} before a command. Commands: {', '.join(self.list_commands(ctx))}."
            )
        print_verbs(self, ctx)
        raise click.exceptions.Exit(0 if args else 2)

    def invoke(self, ctx: click.Context) -> Any:
        if not self.words:
            refuse_alone(ctx._protected_args[0])
        return super().invoke(ctx)

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        """Run a command and end with its exit code: 0, 1 (something failed), 2 (bad input), 130 (interrupted)."""
        try:
            self._main_shell_completion({}, prog_name or "medunlearn", None)
            code = super().main(args, prog_name or "medunlearn", None, False)
        except MedunlearnError as error:
            print_error(error)
            sys.exit(error.exit_code)
        except click.exceptions.ClickException as error:
            print_error(InputError(error.format_message()))
            sys.exit(2)
        sys.exit(code if isinstance(code, int) else 0)


def _place(words: tuple[str, ...]) -> int:
    """The order of the table, in which a newcomer meets the verbs."""
    return next(place for place, known in enumerate(VERBS) if known[: len(words)] == words)


app = Verbs()


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
