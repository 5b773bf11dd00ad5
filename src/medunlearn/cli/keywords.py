"""``medunlearn keywords``: the disease keywords that the leakage score looks for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medunlearn.cli.common import Json, Quiet, ending, print_json, print_table, sayer

EPILOG = (
    "Example: `medunlearn keywords bench/`\n\n"
    "Example: `medunlearn keywords bench/ --extractor scispacy --out keywords.parquet`, where scispaCy is "
    "installed, and then `medunlearn evaluate runs/npo bench/ --split random_10 keywords=keywords.parquet`\n\n"
    "`evaluate` finds them by itself, with the extractor offline, when it needs them. Cut off, the same command "
    "goes on."
)


@ending
def command(
    benchmark: Annotated[Path, typer.Argument(help="Folder of the benchmark.")],
    extractor: Annotated[
        str, typer.Option("--extractor", help="offline, scispacy (en_core_sci_lg), or module:Class.")
    ] = "offline",
    out: Annotated[
        Path | None, typer.Option("--out", help="The Parquet file; none: keywords/ in the benchmark's folder.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Find each question's disease keywords, which the leakage score (LS) looks for in responses."""
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.metrics.leakage.keywords import keywords

    found = keywords(Benchmark.load(benchmark), extractor=extractor, out=out, quiet=quiet or json)
    if json:
        print_json({"path": str(found.path), **found.facts})
    elif not quiet:
        facts = found.facts
        rows = [
            ("questions with keywords", facts["with_keywords"]),
            ("keywords", facts["keywords"]),
            *((f"without: {why}", count) for why, count in facts["without"].items()),
        ]
        print_table(f"keywords by {extractor}", ("what", "count"), rows)
        sayer(quiet, json)(f"{found.path}: it holds phrases of the records; keep it where those may be")
