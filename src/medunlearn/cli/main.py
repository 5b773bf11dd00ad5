"""The ``medunlearn`` command; a verb's module is loaded when the verb is used."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

# Before anything imports them: one warning-free tokenizer.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# On a CPU, a matrix kernel is prepared and kept for each shape that comes by. Keeping 1,024 of them, as is usual,
# takes half a gigabyte and saves no time.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

import click

import medunlearn
from medunlearn.cli.launch import refuse_alone
from medunlearn.cli.output import print_error
from medunlearn.cli.verbs import GROUPS, MOVED, verb_of, verbs
from medunlearn.errors import InputError, MedunlearnError, nearest


class Verbs(click.Group):
    """Commands whose names start with the same words; ``audit`` is both a command and a group."""

    def __init__(self, words: tuple[str, ...] = ()) -> None:
        super().__init__(" ".join(words) or "medunlearn", add_help_option=False, invoke_without_command=True)
        self.words = words

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The next words of the commands, in the table's order."""
        depth = len(self.words)
        # Packages add papers: which, is looked for only where `build` lists them.
        every = verbs(plug_ins=bool(self.words))
        return list(dict.fromkeys(key[depth] for key in every if len(key) > depth and key[:depth] == self.words))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        words = (*self.words, cmd_name)
        return Verbs(words) if words in GROUPS else self.verb(words)

    def verb(self, words: tuple[str, ...]) -> click.Command | None:
        from medunlearn.cli.command import Generated

        verb = verb_of(words)
        return Generated(verb) if verb else None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name, rest = args[0], args[1:]
        words = (*self.words, name)
        deeper = (*words, rest[0]) if rest else ()
        if words not in GROUPS or (verb_of(words) and deeper not in GROUPS and not (deeper and verb_of(deeper))):
            command = self.verb(words)
            if command is not None:
                return name, command, rest
        command = self.get_command(ctx, name)
        if command is None and not ctx.resilient_parsing:
            raise InputError(self._unknown(ctx, name))
        return name, command, rest

    def _unknown(self, ctx: click.Context, name: str) -> str:
        words = " ".join((*self.words, name))
        if words in MOVED:
            return f"`{words}` is now `{MOVED[words]}`."
        commands = self.list_commands(ctx)
        near = nearest(name, commands)
        hint = f" Did you mean {near!r}?" if near else ""
        return f"There is no command {words!r}.{hint} Commands: {', '.join(commands)}."

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing or (args and not args[0].startswith("-")):
            ctx._protected_args, ctx.args = args[:1], args[1:]
            return args
        if args == ["--version"] and not self.words:
            click.echo(f"medunlearn {medunlearn.__version__}")
            ctx.exit()
        if args and args[0] not in ("--help", "-h"):
            commands = ", ".join(self.list_commands(ctx))
            raise InputError(f"There is no flag {args[0]} before a command. Commands: {commands}.")
        from medunlearn.cli.help import print_verbs

        print_verbs(self.words, self.list_commands(ctx))
        raise click.exceptions.Exit(0 if args else 2)

    def invoke(self, ctx: click.Context) -> Any:
        if not self.words:
            refuse_alone(ctx._protected_args[0])
        return super().invoke(ctx)

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        """Run a command and exit with its code: 0, 1 (something failed), 2 (bad input), 130 (interrupted)."""
        try:
            _refuse_without_docstrings()
            _refuse_broken_words(sys.argv[1:] if args is None else args)
            self._main_shell_completion({}, prog_name or "medunlearn", None)
            code = super().main(args, prog_name or "medunlearn", None, False)
        except MedunlearnError as error:
            print_error(error)
            sys.exit(error.exit_code)
        except click.exceptions.ClickException as error:
            print_error(InputError(error.format_message()))
            sys.exit(2)
        sys.exit(code if isinstance(code, int) else 0)


def _refuse_without_docstrings() -> None:
    """Refuse a Python without docstrings: transformers reads its own, and our help is made from them.

    Raises:
        InputError: names the setting.
    """
    if sys.flags.optimize > 1:
        raise InputError(
            "This Python leaves docstrings out (PYTHONOPTIMIZE=2 or -OO), and transformers cannot be loaded "
            "without them. Unset PYTHONOPTIMIZE, or set it to 1."
        )


def _refuse_broken_words(words: Sequence[str]) -> None:
    """Refuse arguments that are not UTF-8: no record, table or report can name such a file.

    Raises:
        InputError: shows the first one, escaped.
    """
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    for word in words:
        if word != word.encode(errors="replace").decode():
            shown = os.fsencode(word).decode(errors="backslashreplace")
            raise InputError(f"The argument {shown} is not UTF-8. Rename the file or folder.")


app = Verbs()


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
