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
    print_line,
    print_table,
    sayer,
    settings_help,
)
from medunlearn.config import ExperimentSettings, merge, parse_overrides, read_yaml
from medunlearn.data.storage import read_json

# What fits a terminal of 80 columns; the report has the rest.
SHOWN = ("Model", "Utility", "Forgetting", "Distance")

if TYPE_CHECKING:
    from medunlearn.pipeline.estimate.forecast import Forecast
    from medunlearn.pipeline.experiment import Finished

EPILOG = (
    "Example: `medunlearn run examples/hospital.yaml unlearn.epochs=5 unlearn.npo.beta=0.2`\n\n"
    "Every stage is kept; given again, the command does only what is not done. With `--plan` it says what is left "
    "to do and what that takes, and does nothing.\n\n" + settings_help(ExperimentSettings)
)


@ending
def command(
    experiment: Annotated[Path, typer.Argument(help="YAML file of the experiment.")],
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of all stages, instead of the file's.")] = None,
    seed: Seed = None,
    only_plan: Annotated[
        bool, typer.Option("--plan", help="Print stages, tokens, FLOPs, memory and what is done; run nothing.")
    ] = False,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run an experiment: build, train, retrain, unlearn with each method, evaluate, report."""
    from medunlearn.pipeline.estimate.forecast import before_experiment, forecast
    from medunlearn.pipeline.experiment import plan, run_experiment

    values = merge(read_yaml(experiment), parse_overrides(overrides or []))
    values |= {key: value for key, value in {"out": out, "seed": seed}.items() if value is not None}
    checked, say = plan(values), sayer(quiet, json)
    if only_plan:
        print_forecast(forecast(checked, device=device), quiet=quiet, as_json=json)
        return
    if not quiet:
        for line in before_experiment(checked, device):
            say(line)
    finished = run_experiment(checked, device=device, quiet=quiet, say=say)
    print_finished(finished, quiet=quiet, as_json=json)


def print_finished(finished: Finished, *, quiet: bool, as_json: bool) -> None:
    """Each model's place: utility, forgetting, and the distance to the retrained model."""
    from medunlearn.reports.claims import findings_text
    from medunlearn.reports.headline import main_plane, standings
    from medunlearn.reports.readings import Results
    from medunlearn.reports.tables import headline_table

    if as_json:
        headline = read_json(finished.report.with_suffix(".json"))["headline"]
        found = [{"finding": one.name, "verdict": one.verdict} for one in finished.content.paper.findings]
        print_json({"report": str(finished.report), **headline, **({"findings": found} if found else {})})
    elif not quiet:
        results = Results(finished.content)
        where = main_plane(results)
        table = headline_table(standings(results, where), where)
        kept = [place for place, column in enumerate(table.columns) if column.text in SHOWN]
        columns = [str(table.columns[place]) for place in kept]
        print_table(finished.content.title, columns, [[row[place] for place in kept] for row in table.rows])
        if said := findings_text(finished.content.paper.findings):
            print_line(said)


def print_forecast(found: Forecast, *, quiet: bool, as_json: bool) -> None:
    """What is left of each stage; warnings stand last, where they are read."""
    from medunlearn.pipeline.estimate.capacity import shown_bytes

    if as_json:
        print_json(found.facts())
        return
    if quiet:
        return
    rows = []
    for stage in (*found.stages, None):
        work = stage.work if stage else found.total
        memory = shown_bytes(work.memory.total) if work.memory else ""
        tokens = _short(work.tokens) + (f" + {_short(work.generated)}" if work.generated else "")
        disk = stage.disk if stage else found.disk
        rows.append(
            (
                stage.name if stage else "all that is left",
                stage.state if stage else "",
                tokens if work.tokens else "",
                _short(work.flops) if work.flops else "",
                memory,
                shown_bytes(disk) if disk else "",
            )
        )
    print_table(found.name, ("Stage", "State", "Tokens", "FLOPs", "Memory", "Disk"), rows)
    for stage in found.stages:
        if stage.note:
            print_line(f"{stage.name}: {stage.note}")
    print_line("Tokens: run through the model + generated at most. Memory: of the largest stage, about.")
    for line in (*found.doubts, found.has(), *found.warnings):
        print_line(line)


def _short(number: float) -> str:
    """Three digits and a unit: 749k, 11.4T."""
    for unit in ("", "k", "M", "G", "T", "P"):
        if number < 999.5:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g}E"
