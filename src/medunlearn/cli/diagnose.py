"""``medunlearn diagnose``: top-k diagnostic accuracy, before and after training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from medunlearn.config import DiagnoseSettings, check, parse_overrides

if TYPE_CHECKING:
    from medunlearn.papers.memorization.diagnosis.diagnose import Diagnosed

EPILOG = (
    "Example: `medunlearn diagnose runs/diagnosis bench/ --against runs/base`\n\n"
    "Without `--against`, a run that was watched as it went on (`watch.part`) is compared with the model before "
    "its training. Responses are kept in the run's folder; asking again costs nothing.\n\n"
    + settings_help(DiagnoseSettings)
)


@ending
def command(
    run: Annotated[Path, typer.Argument(help="Run whose model is asked.")],
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark of diagnosis.")],
    against: Annotated[list[Path] | None, typer.Option("--against", help="Runs to compare with.")] = None,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of the result; none: in the run's.")] = None,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Ask for diagnoses, count top-k accuracy overall and by specialty, and write a report."""
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.papers.memorization.diagnosis.diagnose import diagnose
    from medunlearn.results.runs import Run

    words = overrides or []
    # `--against a b` gives b to the arguments: a word that is no setting is another run.
    others = [*(against or []), *(Path(word) for word in words if "=" not in word and against)]
    values = parse_overrides([word for word in words if "=" in word or not against])
    settings = check(DiagnoseSettings, {**({} if seed is None else {"seed": seed}), **values})
    found = diagnose(
        Run.open(run),
        Benchmark.load(benchmark),
        settings,
        against=[Run.open(other) for other in others],
        out=out,
        device=device,
        quiet=quiet or json,
        say=sayer(quiet, json),
    )
    if json:
        print_json(_payload(found))
    elif not quiet:
        _print(found)


def _payload(found: Diagnosed) -> dict[str, Any]:
    return {
        "folder": str(found.record.folder),
        "accuracy": _rows(found.accuracy),
        "differences": _rows(found.differences),
        "rise": found.record.info["results"]["rise"],
        "epochs": _rows(found.epochs),
    }


def _rows(table: Any) -> list[dict[str, Any]]:
    plain = table.astype("object")
    return [
        {str(name): value for name, value in row.items()}
        for row in plain.where(plain.notna(), None).to_dict("records")
    ]


def _print(found: Diagnosed) -> None:
    from medunlearn.papers.memorization.diagnosis.diagnose import content_of
    from medunlearn.papers.memorization.diagnosis.report import prose
    from medunlearn.papers.memorization.diagnosis.report.tables import (
        accuracy_cells,
        difference_cells,
        epoch_cells,
        rise_cells,
    )

    content = content_of(found)
    for title, table in (
        (f"top-k accuracy, {content.part} part", accuracy_cells(content)),
        ("differences, paired on patients", difference_cells(content)),
        ("does memorization rise while the validation loss falls?", rise_cells(content)),
    ):
        if table is not None:
            print_table(title, [str(cell) for cell in table.columns], [list(map(str, row)) for row in table.rows])
    if (table := epoch_cells(content)) is not None:
        # Without intervals, which stand in the report, an epoch takes a narrow column.
        rows = [[str(row[0]), *(cell.text for cell in row[1:])] for row in table.rows]
        print_table("epoch by epoch", [cell.text for cell in table.columns], rows)
    for line in (prose.stop(content), prose.specialties(content), f"Report: {found.report}"):
        if line:
            print_line(line)
