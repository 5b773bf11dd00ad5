"""``medunlearn export-tasks``: a benchmark for people who work with lm-evaluation-harness."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medunlearn.cli.common import Json, Overrides, Quiet, ending, print_json, print_table, sayer, settings_help
from medunlearn.config import TaskExportSettings, check, parse_overrides

EPILOG = (
    "Example: `medunlearn export-tasks lume/ --split released --out tasks/ like=runs/target`, then `lm_eval "
    "--model hf --model_args pretrained=hf/ --include_path tasks/ --tasks medunlearn_lume_released_forget`\n\n"
    + settings_help(TaskExportSettings)
)


@ending
def command(
    benchmark: Annotated[Path, typer.Argument(help="Folder of the benchmark.")],
    split: Annotated[str, typer.Option("--split", help="Split that parts forget from retain.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the tasks, for lm_eval's --include_path.")],
    overrides: Overrides = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a benchmark as tasks of lm-evaluation-harness, scored by our metrics."""
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.pipeline.utility.tasks import export_tasks

    settings = check(TaskExportSettings, {"split": split, **parse_overrides(overrides or [])})
    found = export_tasks(Benchmark.load(benchmark), settings, out)
    if json:
        print_json({"folder": str(found.folder), "groups": list(found.groups), "tasks": dict(found.tasks)})
    elif not quiet:
        print_table("tasks", ("task", "questions"), found.tasks.items())
        sayer(quiet, json)(f"{found.folder}: groups {', '.join(found.groups)}")
