"""``medunlearn train``: the target model, or without a forget set the retrained one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medunlearn.cli.common import (
    Device,
    Json,
    Overrides,
    Quiet,
    Seed,
    ending,
    print_json,
    said_of_epochs,
    say_if_padded,
    say_if_rounded,
    sayer,
    settings_help,
)
from medunlearn.config import TrainSettings, parse_overrides

EPILOG = (
    "Examples: `medunlearn train bench/ --model tiny --out runs/target`, and for the retrained model "
    "`medunlearn train bench/ --model tiny --without random_10 --out runs/retrained`\n\n"
    "Defaults are those of AMNESIA's Table 6; the tiny model has its own. `preset=NAME` takes those of a name from "
    "`medunlearn list presets`.\n\n" + settings_help(TrainSettings)
)


@ending
def command(
    benchmark: Annotated[Path, typer.Argument(help="Folder of the benchmark.")],
    model: Annotated[str, typer.Option("--model", help="Folder, hub id (org/name), tiny, or tiny-vision.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the run.")],
    without: Annotated[str | None, typer.Option("--without", help="Split whose forget set is left out.")] = None,
    overrides: Overrides = None,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train a model on a benchmark's records and questions. Given again, it resumes."""
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.pipeline.estimate.forecast import before_training
    from medunlearn.pipeline.presets import train_settings
    from medunlearn.pipeline.train import train

    values = {"model": model, "without": without, "seed": seed}
    given = {key: value for key, value in values.items() if value is not None}
    settings = train_settings({**given, **parse_overrides(overrides or [])})
    records, say = Benchmark.load(benchmark), sayer(quiet, json)
    if not quiet:
        for line in before_training(records, settings, out, device):
            say(line)
    run = train(records, settings, out, device=device, quiet=quiet)
    if json:
        print_json(run.info)
        return
    results = run.info["results"]
    loss = "" if results["final_loss"] is None else f", final loss {results['final_loss']:.4f}"
    say(f"{out}: {results['steps']} steps{loss}")
    if "epochs" in results:
        say(said_of_epochs(results["epochs"]))
    say_if_padded(say, results)
    say_if_rounded(say, results)
