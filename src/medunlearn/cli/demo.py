"""``medunlearn demo``: everything once, on an invented hospital."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medunlearn.cli.common import Device, Json, Quiet, ending, print_json, print_table, sayer, with_interval
from medunlearn.cli.run import print_finished
from medunlearn.errors import UnknownNameError

EPILOG = (
    "Example: `medunlearn demo --out demo/` (a few minutes on two CPU cores, no network)\n\n"
    "Example: `medunlearn demo audit --out demo-audit/` (what is memorized of texts in 0 to 16 copies)"
)
DEMOS = ("amnesia", "audit")


@ending
def command(
    what: Annotated[
        str, typer.Argument(help="amnesia (forgetting patients) or audit (memorized texts).")
    ] = "amnesia",
    out: Annotated[Path, typer.Option("--out", help="Folder of everything that the demo makes.")] = Path("demo"),
    patients: Annotated[int, typer.Option("--patients", min=20, help="Patients to invent.")] = 60,
    texts: Annotated[
        int, typer.Option("--texts", min=2, help="Of audit: texts of a kind and number of copies.")
    ] = 6,
    epochs: Annotated[int, typer.Option("--epochs", min=2, help="Of audit: passes over the training set.")] = 8,
    seed: Annotated[int, typer.Option("--seed", help="Seed of everything random.")] = 0,
    open_report: Annotated[bool, typer.Option("--open/--no-open", help="Open the report in a browser.")] = True,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Invent a hospital, memorize it, forget a tenth of its patients in six ways, and report what was forgotten."""
    if what not in DEMOS:
        raise UnknownNameError("demo", what, DEMOS)
    if what == "audit":
        _audit(out, texts, epochs, seed, quiet, json)
        return
    from medunlearn.experiments.demo import demo_experiment
    from medunlearn.experiments.pipeline import run_experiment

    finished = run_experiment(
        demo_experiment(out, seed=seed, patients=patients), device=device, quiet=quiet, say=sayer(quiet, json)
    )
    print_finished(finished, quiet=quiet, as_json=json)
    if open_report and not (quiet or json):
        typer.launch(str(finished.report))


def _audit(out: Path, texts: int, epochs: int, seed: int, quiet: bool, as_json: bool) -> None:
    from medunlearn.cli.audit_tables import print_audit
    from medunlearn.experiments.audit.demo import MEASURE, demo_audit

    shown = demo_audit(out, each=texts, epochs=epochs, seed=seed, quiet=quiet or as_json)
    rows = shown.findings.to_dict("records")
    if as_json:
        print_json({"folder": str(out), "findings": rows})
    elif not quiet:
        print_audit(shown.audits[1])
        lines = [
            (row["statement"], with_interval({**row, "value": row["difference"]}), row["n"], row["verdict"])
            for row in rows
        ]
        print_table(f"Memorization ({MEASURE}) is larger with", ("what", "difference", "texts", "it"), lines)
