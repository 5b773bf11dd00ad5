"""Help texts: common flags first, the others grouped below."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table

import medunlearn
from medunlearn.cli.verbs import GROUPS, verb_of
from medunlearn.config.fields import Flag
from medunlearn.verb import Verb


def print_verbs(group: tuple[str, ...], commands: Sequence[str]) -> None:
    """Print the commands of a group (its words), in the order in which a newcomer needs them."""
    words = " ".join(("medunlearn", *group))
    console = _head(f"{words} COMMAND [ARGS]...", GROUPS[group] if group else str(medunlearn.__doc__))
    names = [(name, (*group, name)) for name in commands]
    rows = [(name, verb.summary if (verb := verb_of(key)) else GROUPS[key]) for name, key in names]
    console.print(_panel("Commands", rows))
    more = ["`--help` after a command lists its flags."]
    if not group:
        more += ["Completion in the shell:", '  eval "$(_MEDUNLEARN_COMPLETE=bash_source medunlearn)"']
    for line in more:
        console.print(f" {line}", markup=False, highlight=False)


def print_help(verb: Verb, usage: str, arguments: Mapping[str, str], flags: Mapping[str, Flag]) -> None:
    """Print the help of a command.

    Args:
        arguments: positional argument -> its text.
    """
    console = _head(f"{usage} [FLAGS]", verb.summary)
    example = f" Example: medunlearn {verb.words} {verb.example}\n"
    console.print(example, markup=False, highlight=False, soft_wrap=True)
    if arguments:
        console.print(_panel("Arguments", [(name.upper(), text) for name, text in arguments.items()]))
    for title, members in flag_groups(verb, arguments, flags).items():
        console.print(_panel(title, map(_row, members)))
    if verb.notes:
        console.print(Padding(verb.notes, (0, 1)), markup=False, highlight=False)


def flag_groups(verb: Verb, arguments: Iterable[str], flags: Mapping[str, Flag]) -> dict[str, list[Flag]]:
    """The flags of a command by the title of their panel: the most used first, those of every command last.

    Args:
        arguments: names of positional arguments, which are no flags.
    """
    first, places = [flags[key] for key in verb.first.split()], {*arguments}
    groups: dict[str, list[Flag]] = {"Most used": first} if first else {}
    for key, flag in flags.items():
        if flag not in first and key not in places:
            common = key in ("device", "seed", "out")
            groups.setdefault("Common" if common else flag.group, []).append(flag)
    return {**groups, "Common": groups.pop("Common", [])}


def _head(usage: str, summary: str) -> Console:
    console = Console()
    console.print(f"\n Usage: {usage}\n", highlight=False, markup=False)
    console.print(Padding(escape(summary), (0, 1, 1, 1)))
    return console


def _row(flag: Flag) -> tuple[str, str]:
    nested = f" ({flag.name}.KEY VALUE)" if flag.section else ""
    default = f" [{flag.default}]" if flag.default and not flag.help.endswith(f"[{flag.default}]") else ""
    return f"{flag.name} {flag.metavar}".strip(), f"{flag.help}{nested}{default}"


def _panel(title: str, rows: Iterable[tuple[str, str]]) -> Panel:
    table = Table(box=None, show_header=False, pad_edge=False, expand=True)
    table.add_column(no_wrap=False, ratio=2, style="cyan")
    table.add_column(ratio=5)
    for name, text in rows:
        table.add_row(escape(name), escape(text))
    return Panel(table, title=escape(title), title_align="left", border_style="dim")
