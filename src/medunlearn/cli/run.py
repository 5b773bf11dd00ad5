"""``medunlearn run``: an experiment from its file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medunlearn.cli.common import Device, Json, Overrides, Quiet, Seed, ending, print_json, sayer, settings_help
from medunlearn.config import ExperimentSettings, merge, parse_overrides, read_yaml

EPILOG = (
    "Example: `medunlearn run examples/hospital.yaml unlearn.epochs=5 unlearn.npo.beta=0.2`\n\n"
    "Every stage is kept; given again, the command does only what is not done.\n\n"
    + settings_help(ExperimentSettings)
)


@ending
def command(
    experiment: Annotated[Path, typer.Argument(help="YAML file of the experiment.")],
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of all stages, instead of the file's.")] = None,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run an experiment: build, train, retrain, unlearn with each method, evaluate, report."""
    from medunlearn.experiments.pipeline import plan, run_experiment

    values = merge(read_yaml(experiment), parse_overrides(overrides or []))
    values |= {key: value for key, value in {"out": out, "seed": seed}.items() if value is not None}
    checked = plan(values)
    report = run_experiment(checked, device=device, quiet=quiet, say=sayer(quiet, json))
    if json:
        print_json({"report": str(report), "out": str(checked.settings.out)})
