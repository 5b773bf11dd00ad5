"""Help texts: common flags first, the others grouped below."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table

import medunlearn
from medunlearn.cli.verbs import GROUPS, verb_of
from medunlearn.config.fields import Flag

if TYPE_CHECKING:
    from medunlearn.cli.command import Generated
    from medunlearn.cli.main import Verbs


def print_verbs(group: Verbs, ctx: click.Context) -> None:
    """Print the commands of a group, in the order in which a newcomer needs them."""
    words = " ".join(("medunlearn", *group.words))
    console = _head(f"{words} COMMAND [ARGS]...", GROUPS[group.words] if group.words else str(medunlearn.__doc__))
    names = [(name, (*group.words, name)) for name in group.list_commands(ctx)]
    rows = [(name, verb.summary if (verb := verb_of(key)) else GROUPS[key]) for name, key in names]
    console.print(_panel("Commands", rows))
    more = "`--help` after a command lists its flags."
    if not group.words:
        more += ' Completion: eval "$(_MEDUNLEARN_COMPLETE=bash_source medunlearn)"'
    console.print(Padding(more, (0, 1)), markup=False, highlight=False)


def print_help(command: Generated) -> None:
    verb, flags = command.verb, command.flags
    console = _head(f"{command.usage()} [FLAGS]", verb.summary)
    example = f" Example: medunlearn {verb.words} {verb.example}\n"
    console.print(example, markup=False, highlight=False, soft_wrap=True)
    places = {p.name for p in command.arguments}
    if places:
        texts = command.options.model_fields
        rows = [(p.name.upper(), texts[p.name].description or "") for p in command.arguments]
        console.print(_panel("Arguments", rows))
    first = [flags[key] for key in verb.first.split()]
    groups: dict[str, list[Flag]] = {"Most used": first}
    for key, flag in flags.items():
        if flag not in first and key not in places:
            common = key in ("device", "seed", "out")
            groups.setdefault("Common" if common else flag.group, []).append(flag)
    groups["Common"] = groups.pop("Common")
    for title, members in groups.items():
        console.print(_panel(title, map(_row, members)))
    if verb.notes:
        console.print(Padding(verb.notes, (0, 1)), markup=False, highlight=False)


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
