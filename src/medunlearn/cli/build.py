"""``medunlearn build``: records in, a benchmark folder out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from medunlearn.cli.common import Json, Overrides, Quiet, Seed, ending, print_json, sayer, settings_help
from medunlearn.config import AmnesiaSettings, LumeSettings, parse_overrides

app = typer.Typer(help="Build a benchmark folder.", no_args_is_help=True, rich_markup_mode="markdown")
Out = Annotated[Path, typer.Option("--out", help="Folder of the benchmark.")]


def _build(builder: str, values: dict[str, Any], out: Path, quiet: bool, as_json: bool) -> None:
    from medunlearn.experiments.build import build, save_new

    given = {key: value for key, value in values.items() if value is not None}
    benchmark = save_new(build(builder, given), out)
    if as_json:
        print_json({"folder": str(out), **benchmark.facts()})
        return
    say = sayer(quiet, as_json)
    counts = ", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in benchmark.counts().items())
    say(f"{out}: {counts}")
    if skipped := benchmark.notes.get("skipped rows"):
        say(f"{len(skipped)} rows were left out; they are listed in {out / 'benchmark.yaml'}")


@app.command(
    "amnesia",
    epilog="Example: `medunlearn build amnesia --invented 400 --out bench/`\n\n" + settings_help(AmnesiaSettings),
)
@ending
def amnesia(
    invented: Annotated[int, typer.Option("--invented", help="Patients to invent.")],
    out: Out,
    overrides: Overrides = None,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """AMNESIA: patients with a note and eight questions each, random and disease-level splits."""
    _build("amnesia", {"invented": invented, "seed": seed, **parse_overrides(overrides or [])}, out, quiet, json)


@app.command(
    "lume",
    epilog="Example: `medunlearn build lume --released lume-files/ --out bench/`\n\n" + settings_help(LumeSettings),
)
@ending
def lume(
    released: Annotated[Path, typer.Option("--released", help="Folder with forget.jsonl and retain.jsonl.")],
    out: Out,
    nonmembers: Annotated[
        Path | None, typer.Option("--nonmembers", help="JSONL of documents that no model is trained on.")
    ] = None,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Leave out malformed rows and count them.")
    ] = False,
    overrides: Overrides = None,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """LUME: stories and biographies with completions and knowledge questions, from the released files."""
    values = {
        "released": released,
        "nonmembers": nonmembers,
        "skip_bad_rows": skip_bad_rows or None,
        "seed": seed,
        **parse_overrides(overrides or []),
    }
    _build("lume", values, out, quiet, json)
