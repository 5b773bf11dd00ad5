"""``medunlearn demo``: everything once, on an invented hospital."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medunlearn.cli.common import Device, Json, Quiet, ending, print_json, print_table, sayer

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

    report = run_experiment(
        demo_experiment(out, seed=seed, patients=patients), device=device, quiet=quiet, say=sayer(quiet, json)
    )
    rows = _places(report)
    if json:
        print_json({"report": str(report), "models": rows})
        return
    if not quiet:
        print_table("", tuple(rows[0]), [tuple(row.values()) for row in rows])
    if open_report:
        typer.launch(str(report))


def _places(report: Path) -> list[dict[str, object]]:
    """Each model's place: utility on the retain set and forgetting on the forget set."""
    from medunlearn.data.storage import read_json

    return [{"model": model["label"]} for model in read_json(report.with_suffix(".json"))["models"]]
