"""``medunlearn utility``: what a model is still good for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd
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
    settings_help,
    with_interval,
)
from medunlearn.config import UtilitySettings, check, parse_overrides
from medunlearn.errors import InputError

if TYPE_CHECKING:
    from medunlearn.pipeline.utility.found import Utilities

EPILOG = (
    "Example: `medunlearn utility runs/npo --tasks mmlu --against runs/target runs/retrained limit=20`\n\n"
    "Tasks are those of lm-evaluation-harness (`pip install 'medunlearn[utility]'`), or your own task files: "
    "include=FOLDER. Results are kept in the run's folder; `medunlearn report` shows them, and on LUME they are "
    "the utility of the SemEval-2025 Task 4 score.\n\n" + settings_help(UtilitySettings)
)


@ending
def command(
    run: Annotated[Path, typer.Argument(help="Run whose model is measured.")],
    tasks: Annotated[str, typer.Option("--tasks", help="Tasks or groups of lm-evaluation-harness, with commas.")],
    against: Annotated[
        list[Path] | None, typer.Option("--against", help="Runs to compare with, e.g. target and retrained.")
    ] = None,
    epoch: Annotated[
        int | None, typer.Option("--epoch", help="The run's model after so many epochs (see keep_epochs).")
    ] = None,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--out", help="Also write the table here, as CSV.")] = None,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure a model's utility with tasks of lm-evaluation-harness."""
    from medunlearn.data.storage import write_text
    from medunlearn.pipeline.utility.measure import utility
    from medunlearn.results.runs import Run

    if out is not None and out.is_dir():
        raise InputError(f"{out} is a folder; --out is the CSV file to write.")
    words = overrides or []
    # `--against a b` gives b to the arguments: a word that is no setting is another run.
    runs = [*(against or []), *(Path(word) for word in words if "=" not in word and against)]
    values = parse_overrides([word for word in words if "=" in word or not against])
    given = {"tasks": tasks, **({} if seed is None else {"seed": seed})}
    found = utility(
        Run.open(run) if epoch is None else Run.open(run).epoch(epoch),
        check(UtilitySettings, {**given, **values}),
        against=[Run.open(other) for other in runs],
        device=device,
        quiet=quiet or json,
    )
    if out is not None:
        write_text(out, found.table().to_csv(index=False))
    if json:
        table = found.table().astype("object")
        print_json({"table": table.where(table.notna(), None).to_dict("records")})
    elif not quiet:
        _print(found)


def _print(found: Utilities) -> None:
    """What counts, a column a model, and ``utility`` last; the rest of the harness's metrics is in the files."""
    labels, table = [model.run.label for model in found.models], found.table()
    rows = []
    counting = table[table["counts"] | (table["name"] == "utility")]
    for (name, metric), cells in counting.groupby(["name", "metric"], sort=False, dropna=False):
        of = {cell["model"]: cell for cell in cells.to_dict("records")}
        asked = next(iter(of.values()))["n_scored"]
        rows.append((name, metric, *(_cell(of.get(label)) for label in labels), asked))
    print_table(f"Utility: {found.models[0].about}", ("task", "metric", *labels, "items"), rows)
    for reason in dict.fromkeys(counting["reason"].dropna()):
        print_line(f"{reason[0].upper()}{reason[1:]}.")


def _cell(row: dict[Any, Any] | None) -> str:
    if row is None or pd.isna(row["value"]):
        return "" if row is None else "unscored"
    return with_interval(row)
