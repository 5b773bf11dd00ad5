"""``medunlearn report``: tables and figures of what is in runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medunlearn.cli.common import Json, Quiet, ending, print_json, sayer
from medunlearn.errors import InputError

EPILOG = "Example: `medunlearn report runs/target runs/retrained runs/npo --benchmark bench/ --out report/`"


@ending
def command(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Runs that were evaluated on the same split, and runs of `judge` on their benchmark."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder of the report.")],
    benchmark: Annotated[
        Path | None, typer.Option("--benchmark", help="The benchmark, to show examples of answers.")
    ] = None,
    split: Annotated[str | None, typer.Option("--split", help="Which evaluation, if there are several.")] = None,
    title: Annotated[str, typer.Option("--title", help="Title of the report.")] = "Unlearning report",
    show_text: Annotated[
        bool, typer.Option("--show-text", help="Show text of real records (invented ones are always shown).")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap.")] = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write report.html, report.md and report.json from evaluated runs."""
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.experiments.evaluated import Evaluated
    from medunlearn.experiments.gather import gather
    from medunlearn.experiments.judged import judged_among
    from medunlearn.experiments.runs import Run
    from medunlearn.reports.write import write_report

    _check_out(out)
    trained, judged = judged_among([Run.open(run) for run in runs])
    models = [Evaluated.find(run, split) for run in trained]
    loaded = Benchmark.load(benchmark) if benchmark else None
    page = write_report(gather(title, models, loaded, judged=judged, show_text=show_text, seed=seed), out)
    if json:
        print_json({"report": str(page)})
    else:
        sayer(quiet, json)(f"report: {page}")


def _check_out(out: Path) -> None:
    if out.suffix in (".html", ".md", ".json"):
        raise InputError(f"A report is a folder of three files: give --out {out.with_suffix('')}, not {out}.")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file, not a folder. Choose another --out.")
    if (out / "benchmark.yaml").exists() or (out / "run.json").exists():
        raise InputError(f"{out} holds a benchmark or a run. Choose another --out.")
