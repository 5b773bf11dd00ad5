"""``medunlearn demo``: everything once, on an invented hospital."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medunlearn.cli.common import Device, Json, Quiet, ending, print_json, print_table, sayer, with_interval
from medunlearn.cli.run import print_finished
from medunlearn.errors import UnknownNameError

if TYPE_CHECKING:
    from medunlearn.papers.memorization.demo import Shown

EPILOG = (
    "Example: `medunlearn demo --out demo/` (a few minutes on two CPU cores, no network)\n\n"
    "Example: `medunlearn demo audit --out demo-audit/` (what is memorized of texts in 0 to 16 "
    "copies, where in a response, and what persists)"
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
    ] = 4,
    epochs: Annotated[int, typer.Option("--epochs", min=2, help="Of audit: passes over the training set.")] = 4,
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
    from medunlearn.pipeline.experiment import demo_experiment, run_experiment

    finished = run_experiment(
        demo_experiment(out, seed=seed, patients=patients), device=device, quiet=quiet, say=sayer(quiet, json)
    )
    print_finished(finished, quiet=quiet, as_json=json)
    if open_report and not (quiet or json):
        typer.launch(str(finished.report))


def _audit(out: Path, texts: int, epochs: int, seed: int, quiet: bool, as_json: bool) -> None:
    from medunlearn.cli.audit_tables import print_audit, records_of
    from medunlearn.papers.memorization.demo import demo_audit
    from medunlearn.papers.memorization.demo.models import WHOLE

    shown = demo_audit(out, each=texts, epochs=epochs, seed=seed, quiet=quiet or as_json)
    if as_json:
        tables = {name: records_of(getattr(shown, name)) for name in ("findings", "positions", "persistence")}
        print_json({"folder": str(out), "report": str(shown.report), **tables})
    elif not quiet:
        print_audit(shown.audits[WHOLE])
        _where_and_what_persists(shown)
        lines = [
            (row["statement"], with_interval({**row, "value": row["difference"]}), row["n"], row["verdict"])
            for row in shown.findings.to_dict("records")
        ]
        print_table(
            "Is it so? Each difference is above 0 where it is", ("what", "difference", "texts", "it"), lines
        )
        sayer(quiet, as_json)(f"{shown.report}: the same with figures")


def _where_and_what_persists(shown: Shown) -> None:
    rows = [
        (
            row["corpus"],
            row["prefix_tokens"],
            f"{row['first']}-{row['last']}",
            *(with_interval(part) for part in (row, row_of_tokens)),
        )
        for row, row_of_tokens in shown.by_segment()
    ]
    columns = ("corpus", "prefix", "tokens", "of all runs", "of all matched tokens")
    print_table("where memorized runs of 30 start, and where matched tokens are (Figure 3)", columns, rows)
    lasting = [
        (row["prefix_tokens"], row["measure"].replace("_", " "), with_interval(row), row["n"])
        for row in shown.persistence.to_dict("records")
    ]
    title = "what is memorized before or after further fine-tuning, runs of 50 (Table 7)"
    print_table(title, ("prefix", "share", "of the union", "probes"), lasting)
