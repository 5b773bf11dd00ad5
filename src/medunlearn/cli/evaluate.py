"""``medunlearn evaluate``: ask, score, compare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medunlearn.cli.common import (
    UNSCORED,
    Device,
    Json,
    Overrides,
    Quiet,
    Seed,
    ending,
    print_json,
    print_line,
    print_table,
    say_if_padded,
    say_if_whole,
    sayer,
    settings_help,
    with_interval,
)
from medunlearn.config import EvaluateSettings, check, parse_overrides
from medunlearn.errors import InputError

if TYPE_CHECKING:
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.results.evaluated import Evaluation

EPILOG = (
    "Example: `medunlearn evaluate runs/npo bench/ --split random_10 --against runs/target runs/retrained`\n\n"
    "Responses and scores are kept in the run's folder; asking again costs nothing.\n\n"
    + settings_help(EvaluateSettings)
)


@ending
def command(
    run: Annotated[Path, typer.Argument(help="Run whose model is asked.")],
    benchmark: Annotated[Path, typer.Argument(help="Folder of the benchmark.")],
    split: Annotated[str, typer.Option("--split", help="Split that parts forget from retain.")],
    against: Annotated[
        list[Path] | None, typer.Option("--against", help="Runs to compare with, e.g. target and retrained.")
    ] = None,
    epoch: Annotated[
        int | None, typer.Option("--epoch", help="The run's model after so many epochs (see evaluate_every).")
    ] = None,
    semeval: Annotated[
        bool,
        typer.Option(
            "--semeval", help="On LUME: the SemEval-2025 Task 4 score too, with its parts (see `attack`)."
        ),
    ] = False,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--out", help="Also write the table here, as CSV.")] = None,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Ask a model the benchmark's questions and score what it says."""
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.data.storage import write_text
    from medunlearn.pipeline.evaluate import evaluate
    from medunlearn.results.runs import Run

    if out is not None and out.is_dir():
        raise InputError(f"{out} is a folder; --out is the CSV file to write.")
    words = overrides or []
    # `--against a b` gives b to the arguments: a word that is no setting is another run.
    runs = [*(against or []), *(Path(word) for word in words if "=" not in word and against)]
    values = parse_overrides([word for word in words if "=" in word or not against])
    given = {"split": split, **({} if seed is None else {"seed": seed})}
    bench = Benchmark.load(benchmark)
    if semeval and bench.builder != "lume":
        raise InputError(f"--semeval is a score on LUME, and {benchmark} was made by `build {bench.builder}`.")
    evaluation = evaluate(
        Run.open(run) if epoch is None else Run.open(run).epoch(epoch),
        bench,
        check(EvaluateSettings, {**given, **values}),
        against=[Run.open(other) for other in runs],
        device=device,
        quiet=quiet or json,
    )
    _say_how(evaluation, sayer(quiet, json))
    if out is not None:
        write_text(out, evaluation.table().to_csv(index=False))
    measures = _measures(evaluation, bench)
    if semeval:
        from medunlearn.papers.lume.semeval import semeval_rows

        measures |= {"semeval": semeval_rows(evaluation.models)}
    if json:
        print_json(
            {
                "table": evaluation.table().to_dict("records"),
                "comparisons": evaluation.comparisons.to_dict("records"),
                **measures,
            }
        )
    elif not quiet:
        _print(evaluation)
        for name, rows in measures.items():
            print_table(name, tuple(rows[0]), [tuple(_cell(value) for value in row.values()) for row in rows])


def _measures(evaluation: Evaluation, benchmark: Benchmark) -> dict[str, list[dict[str, Any]]]:
    """What a benchmark's paper makes of several scores at once; empty for those that do not."""
    if benchmark.builder != "tofu":
        return {}
    from medunlearn.papers.tofu.measures import tofu_measures

    table = tofu_measures(evaluation, benchmark).astype("object")
    return {
        "tofu": [{str(k): v for k, v in row.items()} for row in table.where(table.notna(), None).to_dict("records")]
    }


def _say_how(evaluation: Evaluation, say: Callable[[str], None]) -> None:
    """Say of each model what of the cheap ways it did not take."""
    for model in evaluation.models:
        lines: list[str] = []
        for tell in (say_if_padded, say_if_whole):
            tell(lines.append, model.record.info["results"])
        for line in lines:
            say(f"{model.run.label}: {line}")


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _print(evaluation: Evaluation) -> None:
    """A table a side and fold: all kinds together, one column a model. Metrics without any score are left out."""
    labels = [model.run.label for model in evaluation.models]
    table = evaluation.table()
    for (side, fold), group in table[table["kind"] == "all"].groupby(["side", "fold"], sort=False):
        rows = []
        for metric, cells in group.groupby("metric", sort=False):
            of = {cell["model"]: cell for cell in cells.to_dict("records")}
            shown = [with_interval(of[label]) if label in of else "" for label in labels]
            if set(shown) != {UNSCORED}:
                first = next(iter(of.values()))
                rows.append((metric, *shown, f"{first['n_scored']}/{first['n_scored'] + first['n_unscored']}"))
        print_table(f"{side}, {fold} fold", ("metric", *labels, "scored"), rows)
    contexts = ", ".join(sorted({model.context for model in evaluation.models}))
    print_line(f"Asked in context: {contexts}. With --json or --out also by kind of question.")
