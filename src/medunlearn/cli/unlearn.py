"""``medunlearn unlearn``: make a trained model forget."""

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
    said_of_edit,
    said_of_epochs,
    say_if_padded,
    say_if_rounded,
    sayer,
    settings_help,
)
from medunlearn.config import UnlearnSettings, parse_overrides

EPILOG = (
    "Examples: `medunlearn unlearn runs/target bench/ --split random_10 --method npo --out runs/npo npo.beta=0.2`, "
    "and for a deletion request `--split patient=patient-0007,patient-0031`\n\n"
    "A method's own settings are written METHOD.KEY=VALUE; `medunlearn list methods` shows them. "
    "`preset=NAME` takes the defaults of a name from `medunlearn list presets`.\n\n"
    + settings_help(UnlearnSettings)
)


@ending
def command(
    target: Annotated[Path, typer.Argument(help="Run of the target model.")],
    benchmark: Annotated[Path, typer.Argument(help="Folder of the benchmark.")],
    split: Annotated[str, typer.Option("--split", help="What to forget: a split, or level=node,node.")],
    method: Annotated[str, typer.Option("--method", help="A name from `medunlearn list methods`.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the run.")],
    overrides: Overrides = None,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Make a trained model forget one split's forget set. Given again, it resumes."""
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.pipeline.estimate.forecast import before_unlearning
    from medunlearn.pipeline.presets import is_tiny, unlearn_settings
    from medunlearn.pipeline.unlearn import unlearn
    from medunlearn.results.runs import Run

    trained = Run.open(target)
    given = {"method": method, "split": split, **({} if seed is None else {"seed": seed})}
    settings = unlearn_settings({**given, **parse_overrides(overrides or [])}, tiny=is_tiny(trained), shared=False)
    records, say = Benchmark.load(benchmark), sayer(quiet, json)
    if not quiet:
        for line in before_unlearning(trained, records, settings, out, device):
            say(line)
    run = unlearn(trained, records, settings, out, device=device, quiet=quiet)
    if json:
        print_json(run.info)
        return
    results = run.info["results"]
    done = said_of_edit(method, results["edit"]) if "edit" in results else f"{results['steps']} steps of {method}"
    say(f"{out}: {done} on {results['split']['name']}")
    if "epochs" in results:
        say(said_of_epochs(results["epochs"]))
    say_if_padded(say, results)
    say_if_rounded(say, results)
