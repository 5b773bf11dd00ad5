"""Options of verbs that one language model may judge for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from medunlearn.cli.common import print_json, print_line
from medunlearn.config import parse_overrides
from medunlearn.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from medunlearn.llm import CostEstimate, Decision

SERVER = "llm."

Url = Annotated[
    str | None, typer.Option("--llm", help="A judge's server as well, with /v1: http://127.0.0.1:8000/v1")
]
Model = Annotated[str | None, typer.Option("--llm-model", help="The judge, as the server calls it.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Count the judge's requests, tokens and cost; send and write nothing.")
]
Again = Annotated[bool, typer.Option("--again", help="Ask again what ended without a usable answer.")]
AllowMissing = Annotated[
    bool, typer.Option("--allow-missing", help="Finish though the server left answers missing.")
]
AllowRemote = Annotated[
    bool, typer.Option("--allow-remote-llm", help="Send text of records to a server off this machine.")
]


def server_and_settings(
    llm: str | None, overrides: Sequence[str] | None, dry_run: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the judge's server (``llm.KEY=VALUE``), and the others.

    Raises:
        ConfigError: words about a judge, and none is named.
    """
    values = parse_overrides(overrides or [])
    server = {key.removeprefix(SERVER): value for key, value in values.items() if key.startswith(SERVER)}
    if llm is None and (server or dry_run):
        raise ConfigError(["--llm is missing: the server whose model judges"])
    return server, {key: value for key, value in values.items() if not key.startswith(SERVER)}


def print_plan(estimate: CostEstimate, decision: Decision, as_json: bool) -> None:
    """What would be sent, and whether the guard lets it."""
    if as_json:
        print_json({"estimate": estimate.to_json(), "guard": decision.to_json()})
        return
    print_line(f"Nothing was sent. {estimate}")
    print_line(decision.reason)
