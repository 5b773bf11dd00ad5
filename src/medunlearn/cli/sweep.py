"""``medunlearn sweep``: methods x splits x seeds from a file."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
)
from medunlearn.config import SearchSettings, SweepSettings, merge, parse_overrides, read_yaml
from medunlearn.errors import MedunlearnError

if TYPE_CHECKING:
    from medunlearn.pipeline.sweep.result import Swept
    from medunlearn.pipeline.sweep.survey import SweepPlan

EPILOG = (
    "Example: `medunlearn sweep examples/sweep-small.yaml unlearn.epochs=2 --jobs 2`\n\n"
    "A sweep file is an experiment with lists. Every cell (a model trained, unlearned or asked) is kept; given "
    "again, the command does only what is not done. A cell that fails is listed with its reason, the others go "
    "on, and the exit code is 1.\n\n"
    + settings_help(SweepSettings)
    + "\n\n`unlearn.search`, if there is one:\n\n"
    + settings_help(SearchSettings)
)
FAILURES_SHOWN = 5


@ending
def command(
    sweep: Annotated[Path, typer.Argument(help="YAML file of the sweep.")],
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of all cells, instead of the file's.")] = None,
    seed: Seed = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", help="Cells at the same time; left out: one a GPU, or one a core.", min=1),
    ] = None,
    only_plan: Annotated[
        bool, typer.Option("--plan", help="Print the cells, what is done and what is left; run nothing.")
    ] = False,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run a sweep: methods x splits x seeds, with a report; survives a failing cell."""
    from medunlearn.pipeline.sweep.plan import plan
    from medunlearn.pipeline.sweep.run import run_sweep
    from medunlearn.pipeline.sweep.survey import foresee

    values = merge(read_yaml(sweep), parse_overrides(overrides or []))
    if out is not None:
        values["out"] = out
    if seed is not None:
        values.pop("seeds", None)
        values["seed"] = seed
    checked = plan(values)
    if only_plan:
        print_plan(foresee(checked), quiet=quiet, as_json=json)
        return

    def say(line: str) -> None:
        # Plain print goes above a bar that is shown; a console of its own would write through it.
        if not quiet:
            print(f"> {line}", file=sys.stderr, flush=True)

    swept = run_sweep(checked, jobs=jobs, device=device, quiet=quiet, say=say)
    print_swept(swept, quiet=quiet, as_json=json)
    if swept.failed:
        raise MedunlearnError(_failures(swept))


def print_swept(swept: Swept, *, quiet: bool, as_json: bool) -> None:
    """How many cells of each kind ended how, and the rates that were chosen."""
    if as_json:
        from medunlearn.data.storage import read_json

        print_json({"report": swept.report, **read_json(swept.folder / "sweep.json")})
    elif not quiet:
        counts = Counter(zip(swept.cells["kind"], swept.cells["status"], strict=True))
        print_table("Cells", ("Kind", "State", "Number"), [(*what, number) for what, number in counts.items()])
        chosen = swept.search[swept.search["chosen"].astype(bool)]
        if len(chosen):
            columns = ("method", "lr", "utility", "forgetting", "score")
            shown = [
                (row["method"], f"{row['lr']:g}", *(f"{row[name]:.3f}" for name in columns[2:]))
                for row in chosen.to_dict("records")
            ]
            print_table("Learning rates", [name.capitalize() for name in columns], shown)
        if swept.content is not None:
            from medunlearn.papers.amnesia.swept.reporting import findings_text

            print_line(findings_text(swept.content))
        print_line(f"report: {swept.report}" if swept.report else "There is no report: no model was evaluated.")


def print_plan(found: SweepPlan, *, quiet: bool, as_json: bool) -> None:
    """The cells, counts by kind, and the time that is left."""
    if as_json:
        print_json(found.facts())
        return
    if quiet:
        return
    rows = [
        (cell.name, "done" if cell.name in found.done else "to do", _seconds(found.seconds.get(cell.name)))
        for cell in found.cells
    ]
    print_table(found.name, ("Cell", "State", "Seconds"), rows)
    print_table("Cells", ("Kind", "Done", "To do"), found.counts())
    seconds, unknown = found.seconds_left()
    if found.left:
        print_line(f"Left: {found.left} cells." + (f" About {seconds:.0f} s for one process." if seconds else ""))
        if unknown:
            which = f"of the other {unknown}" if seconds else "of them"
            print_line(f"Seconds {which} are not known: no cell of their kind is done.")
    else:
        print_line("Everything is done.")
    for note in found.notes:
        print_line(note)


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f}"


def _failures(swept: Swept) -> str:
    failed = swept.failed
    shown = "".join(f"\n  - {name}: {reason}" for name, reason in failed[:FAILURES_SHOWN])
    more = f"\n  ... and {len(failed) - FAILURES_SHOWN} more" if len(failed) > FAILURES_SHOWN else ""
    return (
        f"{len(failed)} of {len(swept.cells)} cells have no result; the others are done.{shown}{more}\n"
        f"{swept.folder / 'sweep.json'} lists them, {swept.folder / 'logs'} says more. Mend the cause and give the "
        "command again: it does only these."
    )
