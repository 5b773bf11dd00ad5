"""Help texts: the flags that most people use first, the others grouped below."""

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
from medunlearn.cli.command import COMMON_TEXTS, Generated
from medunlearn.cli.verbs import GROUPS, VERBS
from medunlearn.config.fields import Flag

if TYPE_CHECKING:
    from medunlearn.cli.main import Verbs


def print_verbs(group: Verbs, ctx: click.Context) -> None:
    """The commands of a group, in the order in which a newcomer meets them."""
    console = Console()
    words = " ".join(("medunlearn", *group.words))
    console.print(f"\n Usage: {words} COMMAND [ARGS]...\n", highlight=False, markup=False)
    console.print(Padding(GROUPS[group.words] if group.words else str(medunlearn.__doc__), (0, 1, 1, 1)))
    rows = []
    for name in group.list_commands(ctx):
        deeper = (*group.words, name)
        rows.append((name, VERBS[deeper].summary if deeper in VERBS else GROUPS[deeper]))
    console.print(_panel("Commands", rows))
    more = "`--help` after a command lists its flags."
    if not group.words:
        more += ' Completion: eval "$(_MEDUNLEARN_COMPLETE=bash_source medunlearn)"'
    console.print(Padding(more, (0, 1)), markup=False, highlight=False)


def print_help(command: Generated, _program: str) -> None:
    verb, flags = command.verb, command.flags
    console = Console()
    console.print(f"\n Usage: {command.usage()} [FLAGS]\n", highlight=False, markup=False)
    console.print(Padding(escape(verb.summary), (0, 1, 1, 1)))
    console.print(f" Example: {verb.example}\n", markup=False, highlight=False, soft_wrap=True)
    if command.arguments:
        texts = command.options.model_fields
        console.print(
            _panel("Arguments", [(p.name.upper(), texts[p.name].description or "") for p in command.arguments])
        )
    common = {key for key in (*COMMON_TEXTS, "out") if key in flags}
    first = [flags[key] for key in verb.first if key in flags]
    console.print(_panel("Most used", map(_row, first)))
    groups: dict[str, list[Flag]] = {}
    for key, flag in flags.items():
        if key not in verb.first and key not in (p.name for p in command.arguments):
            groups.setdefault("Common" if key in common else flag.group, []).append(flag)
    groups["Common"] = groups.pop("Common")
    for title, members in groups.items():
        console.print(_panel(title, map(_row, members)))
    if verb.notes:
        console.print(Padding(verb.notes, (0, 1)), markup=False, highlight=False)


def _row(flag: Flag) -> tuple[str, str]:
    name = f"{flag.name} {flag.metavar}".strip()
    text = flag.help or COMMON_TEXTS.get(flag.key, "")
    nested = f" ({flag.name}.KEY VALUE)" if flag.section else ""
    default = f" [{flag.default}]" if flag.default and not text.endswith(f"[{flag.default}]") else ""
    return name, f"{text}{nested}{default}"


def _panel(title: str, rows: Iterable[tuple[str, str]]) -> Panel:
    table = Table(box=None, show_header=False, pad_edge=False, expand=True)
    table.add_column(no_wrap=False, ratio=2, style="cyan")
    table.add_column(ratio=5)
    for name, text in rows:
        table.add_row(escape(name), escape(text))
    return Panel(table, title=escape(title), title_align="left", border_style="dim")
