"""``medunlearn kinds``: what kind of text a model has memorized, by rules, by a judge, and by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medunlearn.cli import judge_options as judging
from medunlearn.cli.common import (
    Json,
    Overrides,
    Quiet,
    Seed,
    ending,
    print_json,
    print_table,
    sayer,
    settings_help,
    with_interval,
)
from medunlearn.cli.judge_options import server_and_settings
from medunlearn.config.audit_report import KindSettings

if TYPE_CHECKING:
    from medunlearn.audit.kinds.summary import KindSummary

app = typer.Typer(
    help="Kinds of what a model has memorized (beneficial, uninformative, harmful): sort, review by hand, compare.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

FIND_EPILOG = (
    "Example: `medunlearn kinds find runs/audit clinical=notes`\n\n"
    "Example: `medunlearn kinds find runs/audit --llm http://127.0.0.1:8000/v1 --llm-model qwen3`, by a judge "
    "as well\n\n"
    "The judge's answers are kept; the same command again asks for what is missing. `llm.KEY=VALUE` sets one of "
    "its server's settings (docs/llm.md).\n\n" + settings_help(KindSettings)
)
REVIEW_EPILOG = (
    "Example: `medunlearn kinds review runs/audit --number 50 --out sheet.csv`\n\n"
    "The sheet is blind: what rules and judge said is not in it. It holds text of records: only you can read it, "
    "and it stays where those may be. Write a kind, or `unclear`, into `kind`."
)
CORRECTED_EPILOG = "Example: `medunlearn kinds corrected runs/audit sheet.csv`"

Folder = Annotated[Path, typer.Argument(help="Folder of an audit.")]


@app.command("find", epilog=FIND_EPILOG)
@ending
def find(
    audit: Folder,
    overrides: Overrides = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", help="PATH or NAME=PATH: count set phrases in the whole corpus. Again for more."),
    ] = None,
    llm: judging.Url = None,
    llm_model: judging.Model = None,
    dry_run: judging.DryRun = False,
    again: judging.Again = False,
    allow_missing: judging.AllowMissing = False,
    allow_remote_llm: judging.AllowRemote = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Sort an audit's memorized spans into kinds: by rules, and by a language model where one is named."""
    from medunlearn.audit.kinds.summary import find_kinds, kind_settings, kinds_judge, plan_kinds

    server, values = server_and_settings(llm, overrides, dry_run)
    settings, judge = kind_settings(audit, values), None
    if llm is not None:
        how = {"overrides": server, "permitted": allow_remote_llm, "again": again, "allow_missing": allow_missing}
        judge = kinds_judge(audit, llm, llm_model, **how)
    if judge is not None and dry_run:
        judging.print_plan(plan_kinds(audit, settings, judge), judge.decision, json)
        return
    found = find_kinds(audit, settings, corpora=corpus or (), judge=judge, quiet=quiet or json)
    _print(found, quiet, json)


@app.command("review", epilog=REVIEW_EPILOG)
@ending
def review(
    audit: Folder,
    out: Annotated[Path, typer.Option("--out", help="The CSV.")],
    number: Annotated[int | None, typer.Option("--number", min=1, help="Spans to draw; none: all.")] = None,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a sample of memorized spans for a person to sort."""
    from medunlearn.audit.kinds.summary import review_kinds

    written = review_kinds(audit, out, number=number, seed=seed or 0)
    if json:
        print_json({"sheet": str(out), "spans": written})
    sayer(quiet, json)(f"{out}: {written} spans; it holds text of records: keep it where those may be")


@app.command("corrected", epilog=CORRECTED_EPILOG)
@ending
def corrected(
    audit: Folder,
    sheets: Annotated[list[Path], typer.Argument(help="Sheets that were filled in.")],
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Read what people filled in, and compare rules and judge with it."""
    from medunlearn.audit.kinds.summary import correct_kinds

    _print(correct_kinds(audit, sheets), quiet, json)


def _print(found: KindSummary, quiet: bool, as_json: bool) -> None:
    counts, agreed = found.counts, found.agreement()
    if as_json:
        tables = {
            name: table.astype(object).where(table.notna(), None).to_dict("records")
            for name, table in (("counts", counts), ("agreement", agreed))
        }
        print_json({"folder": str(found.audit.folder), "judge": found.judge, **tables})
    elif not quiet:
        rows = [
            (row["by"], row["group"], row["title"], row["spans"], f"{100 * row['share']:.1f}%")
            for row in counts.to_dict("records")
        ]
        judge = "" if found.judge is None else f"; the judge is {found.judge}"
        print_table(f"memorized spans by kind (Table 3){judge}", ("by", "group", "kind", "spans", "of all"), rows)
        if len(agreed):
            lines = [
                (
                    f"{row['first']} and {row['second']}",
                    row["of"],
                    row["measure"].replace("_", " "),
                    with_interval(row),
                    row["words"] or row["reason"] or "",
                    row["n"],
                )
                for row in agreed.to_dict("records")
            ]
            print_table("agreement", ("ways", "of", "measure", "value", "", "spans"), lines)
