"""``medunlearn demo``: everything once, on an invented hospital."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medunlearn.cli.common import Device, Json, Quiet, ending, sayer
from medunlearn.cli.run import print_finished

EPILOG = "Example: `medunlearn demo --out demo/` (a few minutes on two CPU cores, no network)"


@ending
def command(
    out: Annotated[Path, typer.Option("--out", help="Folder of everything that the demo makes.")] = Path("demo"),
    patients: Annotated[int, typer.Option("--patients", min=20, help="Patients to invent.")] = 60,
    seed: Annotated[int, typer.Option("--seed", help="Seed of everything random.")] = 0,
    open_report: Annotated[bool, typer.Option("--open/--no-open", help="Open the report in a browser.")] = True,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Invent a hospital, memorize it, forget a tenth of its patients in six ways, and report what was forgotten."""
    from medunlearn.experiments.demo import demo_experiment
    from medunlearn.experiments.pipeline import run_experiment

    finished = run_experiment(
        demo_experiment(out, seed=seed, patients=patients), device=device, quiet=quiet, say=sayer(quiet, json)
    )
    print_finished(finished, quiet=quiet, as_json=json)
    if open_report and not (quiet or json):
        typer.launch(str(finished.report))
