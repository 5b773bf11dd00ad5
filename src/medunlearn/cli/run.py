"""``medunlearn run``: an experiment from its file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medunlearn.cli.common import (
    Device,
    Json,
    Overrides,
    Quiet,
    Seed,
    ending,
    print_json,
    print_table,
    sayer,
    settings_help,
)
from medunlearn.config import ExperimentSettings, merge, parse_overrides, read_yaml
from medunlearn.data.storage import read_json

# What fits a terminal of 80 columns; the report has the rest.
SHOWN = ("Model", "Utility", "Forgetting", "Distance")

if TYPE_CHECKING:
    from medunlearn.experiments.pipeline import Finished

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
    finished = run_experiment(checked, device=device, quiet=quiet, say=sayer(quiet, json))
    print_finished(finished, quiet=quiet, as_json=json)


def print_finished(finished: Finished, *, quiet: bool, as_json: bool) -> None:
    """Each model's place: utility, forgetting, and the distance to the retrained model."""
    from medunlearn.reports.headline import main_plane, standings
    from medunlearn.reports.readings import Results
    from medunlearn.reports.tables import headline_table

    if as_json:
        print_json({"report": str(finished.report), **read_json(finished.report.with_suffix(".json"))["headline"]})
    elif not quiet:
        results = Results(finished.content)
        where = main_plane(results)
        table = headline_table(standings(results, where), where)
        kept = [place for place, column in enumerate(table.columns) if column.text in SHOWN]
        columns = [str(table.columns[place]) for place in kept]
        print_table(finished.content.title, columns, [[row[place] for place in kept] for row in table.rows])
