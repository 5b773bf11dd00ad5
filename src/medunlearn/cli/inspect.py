"""``medunlearn inspect``: what is in a benchmark or a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from medunlearn.cli.common import Json, Quiet, ending, print_json, print_line, print_table
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.describe import Description, GroupSize
from medunlearn.data.image_files import checked_images
from medunlearn.data.storage import read_json
from medunlearn.errors import InputError
from medunlearn.papers.medforget.partitions import partition_rows

EPILOG = "Examples: `medunlearn inspect bench/`, and `medunlearn inspect bench/ --tables --tokenizer runs/target`"


@ending
def command(
    folder: Annotated[Path, typer.Argument(help="A benchmark or a run.")],
    tables: Annotated[
        bool, typer.Option("--tables", help="A benchmark's sizes, lengths and splits, as AMNESIA's Tables 1, 4, 5.")
    ] = False,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer", help="Count the tokens of this folder, run or hub id in the tables; none: words."
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show what is in a benchmark or a run: counts, splits, settings, problems."""
    if (folder / MANIFEST).exists():
        benchmark = Benchmark.load(folder)
        if tables or tokenizer is not None:
            from medunlearn.pipeline.describing import described

            found = described(benchmark, tokenizer)
            if json or not quiet:
                _tables(benchmark, found, json)
        elif json or not quiet:
            _benchmark(benchmark, json)
    elif tables or tokenizer is not None:
        raise InputError(f"{folder} is no benchmark (no {MANIFEST}); --tables and --tokenizer are for benchmarks.")
    elif (folder / "run.json").exists():
        info = read_json(folder / "run.json")
        if json or not quiet:
            _run(info, json)
        if info.get("verb") == "audit" and info.get("status") == "complete" and not (json or quiet):
            from medunlearn.audit.audit import Audit
            from medunlearn.cli.audit_tables import print_audit

            print_audit(Audit.open(folder))
    else:
        raise InputError(f"{folder} is neither a benchmark (no {MANIFEST}) nor a run (no run.json).")


def _benchmark(benchmark: Benchmark, as_json: bool) -> None:
    if as_json:
        more: dict[str, Any] = {}
        if benchmark.builder == "medforget":
            more = {"partitions": partition_rows(benchmark), "images": checked_images(benchmark)}
        print_json(benchmark.facts() | {"splits": list(benchmark.splits)} | more)
        return
    print_table(benchmark.name, ("what", "count"), benchmark.counts().items())
    kinds = Counter((question.fold, question.kind) for question in benchmark.questions)
    print_table("questions", ("fold", "kind", "count"), [(*key, n) for key, n in sorted(kinds.items())])
    levels = [(level, len(benchmark.hierarchy.nodes(level))) for level in benchmark.hierarchy.groups()]
    print_table("levels and groups", ("level", "nodes"), levels)
    rows = [(split.name, split.level, len(split.forget), len(split.retain)) for split in benchmark.splits.values()]
    print_table("splits", ("split", "level", "forget", "retain"), rows)
    if benchmark.builder == "medforget":
        _partitions(benchmark)


def _partitions(benchmark: Benchmark) -> None:
    rows = partition_rows(benchmark)
    columns = [name for name in rows[0] if name not in ("level", "forget_nodes", "retain_nodes")] if rows else []
    print_table(
        "partitions: questions to forget (train fold), to retain, to forget in other words; to forget by kind",
        [name.removeprefix("forget_").replace("_questions", "") for name in columns],
        [[row[name] for name in columns] for row in rows],
    )
    if count := checked_images(benchmark):
        print_line(f"{count} images are there, each the one that was built")


def _tables(benchmark: Benchmark, found: Description, as_json: bool) -> None:
    if as_json:
        print_json(benchmark.facts() | {"splits": list(benchmark.splits), "tables": found.facts()})
        return
    people = f"{found.subject}s"
    columns = (found.level, people, "share", "questions", "shortest", "mean", "longest")
    print_table(
        f"{benchmark.name}: {people} and sizes of records in {found.tokens}", columns, map(_sizes, found.groups)
    )
    kinds = found.kinds()
    asked = (*(f"Q {kind}" for kind in kinds), *(f"A {kind}" for kind in kinds))
    print_table(
        f"Mean length of questions (Q) and answers (A) in {found.tokens}",
        (found.level, *asked),
        [(row.group, *_means(row.question, kinds), *_means(row.answer, kinds)) for row in found.lengths],
    )
    print_table(
        "Splits: questions of the train fold, and the holdout",
        ("side", "size", people, "questions", "available for"),
        [
            (row.side, row.size, f"{row.subjects:,}", f"{row.questions:,}", ", ".join(row.available))
            for row in found.splits
        ],
    )


def _sizes(row: GroupSize) -> tuple[str, ...]:
    counts = (f"{row.subjects:,}", f"{row.share:.1%}", f"{row.questions:,}")
    sizes = ("" if size is None else f"{size:,.0f}" for size in (row.shortest, row.mean, row.longest))
    return (row.group, *counts, *sizes)


def _means(found: Mapping[str, float], kinds: Sequence[str]) -> list[str]:
    """A kind that a group lacks is left empty."""
    return [f"{found[kind]:.1f}" if kind in found else "" for kind in kinds]


def _run(info: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(info)
        return
    facts = {key: info.get(key) for key in ("label", "verb", "status", "error", "started", "seconds", "key")}
    print_table("run", ("what", "value"), [(key, value) for key, value in facts.items() if value is not None])
    print_table("settings", ("key", "value"), info["config"].items())
    print_table("results", ("what", "value"), info["results"].items())
