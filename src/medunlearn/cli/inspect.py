"""``medunlearn inspect``: what is in a benchmark or a run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from medunlearn.cli.common import Json, Quiet, ending, print_json, print_table
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.storage import read_json
from medunlearn.errors import InputError

EPILOG = "Example: `medunlearn inspect bench/`"


@ending
def command(
    folder: Annotated[Path, typer.Argument(help="A benchmark or a run.")],
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show what is in a benchmark or a run: counts, splits, settings, problems."""
    if (folder / MANIFEST).exists():
        benchmark = Benchmark.load(folder)
        if json or not quiet:
            _benchmark(benchmark, json)
    elif (folder / "run.json").exists():
        info = read_json(folder / "run.json")
        if json or not quiet:
            _run(info, json)
    else:
        raise InputError(f"{folder} is neither a benchmark (no {MANIFEST}) nor a run (no run.json).")


def _benchmark(benchmark: Benchmark, as_json: bool) -> None:
    if as_json:
        print_json(benchmark.facts() | {"splits": list(benchmark.splits)})
        return
    print_table(benchmark.name, ("what", "count"), benchmark.counts().items())
    kinds = Counter((question.fold, question.kind) for question in benchmark.questions)
    print_table("questions", ("fold", "kind", "count"), [(*key, n) for key, n in sorted(kinds.items())])
    levels = [(level, len(benchmark.hierarchy.nodes(level))) for level in benchmark.hierarchy.groups()]
    print_table("levels and groups", ("level", "nodes"), levels)
    rows = [(split.name, split.level, len(split.forget), len(split.retain)) for split in benchmark.splits.values()]
    print_table("splits", ("split", "level", "forget", "retain"), rows)


def _run(info: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(info)
        return
    facts = {key: info.get(key) for key in ("label", "verb", "status", "error", "started", "seconds", "key")}
    print_table("run", ("what", "value"), [(key, value) for key, value in facts.items() if value is not None])
    print_table("settings", ("key", "value"), info["config"].items())
    print_table("results", ("what", "value"), info["results"].items())
