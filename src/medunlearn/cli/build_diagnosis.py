"""``medunlearn build diagnosis``: admissions in, a benchmark of diagnosis out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medunlearn.cli.build import Out, SkipBadRows, build_and_tell
from medunlearn.cli.common import Json, Quiet, Seed, ending, settings_help
from medunlearn.config import DiagnosisSettings, parse_overrides

EPILOG = (
    "Example: `medunlearn build diagnosis --invented 200 --out bench/`\n\nFrom admissions of your own: "
    "`medunlearn build diagnosis ADMISSIONS.csv --out bench/ validation=2000 test=1000`\n\n"
    + settings_help(DiagnosisSettings)
)


@ending
def command(
    out: Out,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE] [KEY=VALUE]",
            help="A file of admissions, and settings; they are listed below.",
            show_default=False,
        ),
    ] = None,
    invented: Annotated[int | None, typer.Option("--invented", help="Patients to invent, without a file.")] = None,
    skip_bad_rows: SkipBadRows = False,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Diagnosis: history and laboratory results in, a list of diagnoses out; parts by patient."""
    words = words or []
    named = bool(words) and ("=" not in words[0] or Path(words[0]).exists())
    values = {
        "admissions": words[0] if named else None,
        "invented": invented,
        "skip_bad_rows": skip_bad_rows or None,
        "seed": seed,
        **parse_overrides(words[1:] if named else words),
    }
    build_and_tell("diagnosis", values, out, quiet, json)
