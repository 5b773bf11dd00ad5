"""``medunlearn identifiers``: find, count, review, and measure the detectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
)
from medunlearn.cli.found_tables import absent, print_found, share
from medunlearn.config import check
from medunlearn.config.identifiers import IdentifierSettings

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.audit.identifiers.search import MakeJudge

app = typer.Typer(
    help="Identifiers and sensitive content in what a model said: find, count, review, measure the detectors.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

FIND_EPILOG = (
    "Example: `medunlearn identifiers find said.jsonl --records bench/ --out runs/identifiers`\n\n"
    "Example: `medunlearn identifiers find runs/audit --records bench/`, into the audit's own folder\n\n"
    "With a judge for Table 10: `--llm http://127.0.0.1:8000/v1 --llm-model qwen3` (docs/llm.md)\n\n"
    "A table has record_id and response, and perhaps prefix, text, subject, identifiers, probe_id, variant, sample "
    "(docs/identifiers.md). Examples are masked; the tables written hold text of records.\n\n"
    + settings_help(IdentifierSettings)
)
REVIEW_EPILOG = (
    "Example: `medunlearn identifiers review runs/identifiers --number 50 --out sheet/`\n\n"
    "The sheet holds text of records: only you can read it, and it stays where those may be. Write yes or no into "
    "`label`, and into `missed` of a response's first row what was missed, as `kind: value; kind: value`."
)
CORRECTED_EPILOG = "Example: `medunlearn identifiers corrected sheet/`"
RECALL_EPILOG = (
    "Example: `medunlearn identifiers recall --detector patterns`\n\n"
    "Example: `medunlearn identifiers recall --detector presidio --labelled notes.jsonl`\n\n"
    "Without a file, invented notes are labelled text; on real notes a detector finds less."
)

Folder = Annotated[Path, typer.Option("--out", help="Folder of the result.")]


@app.command("find", epilog=FIND_EPILOG)
@ending
def find(
    said: Annotated[
        Path, typer.Argument(help="A table of responses (.csv, .jsonl, .parquet), or an audit's folder.")
    ],
    records: Annotated[
        Path | None, typer.Option("--records", help="Benchmark with the records; none: the table's own `text`.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of the tables; none: the audit's own.")] = None,
    overrides: Overrides = None,
    llm: judging.Url = None,
    llm_model: judging.Model = None,
    dry_run: judging.DryRun = False,
    again: judging.Again = False,
    allow_missing: judging.AllowMissing = False,
    allow_remote_llm: judging.AllowRemote = False,
    show_text: Annotated[bool, typer.Option("--show-text", help="Show examples unmasked.")] = False,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Find identifiers and sensitive content in responses, trace them to the records, and count them."""
    from medunlearn.audit.identifiers.search import plan_judging, search

    server, values = judging.server_and_settings(llm, overrides, dry_run)
    settings = check(IdentifierSettings, {**values, **({} if seed is None else {"seed": seed})})
    how = {"overrides": server, "permitted": allow_remote_llm, "again": again, "allow_missing": allow_missing}
    judge = None if llm is None else _judge(llm, llm_model, how)
    if judge is not None and dry_run:
        estimate, asked = plan_judging(said, records, settings, out, judge)
        judging.print_plan(estimate, asked.decision, json)
        return
    found = search(said, records, settings, out, judge=judge, show_text=show_text, quiet=quiet or json)
    if json:
        print_json({"folder": str(found.folder), **found.summary()})
    elif not quiet:
        print_found(found)


def _judge(url: str, model: str | None, how: dict[str, Any]) -> MakeJudge:
    from medunlearn.audit.judge import audit_judge

    return lambda folder, records, use: audit_judge(url, model, folder, data_use=use, records=records, **how)


@app.command("review", epilog=REVIEW_EPILOG)
@ending
def review(
    folder: Annotated[Path, typer.Argument(help="What `identifiers find` wrote.")],
    out: Folder,
    number: Annotated[int, typer.Option("--number", min=1, help="Responses to review at most.")] = 200,
    least_rouge: Annotated[
        float, typer.Option("--least-rouge", min=0, max=1, help="ROUGE-L with the record above this.")
    ] = 0.2,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a sample of responses, with their records and findings, for people to review."""
    from medunlearn.audit.identifiers.search import IdentifierSearch

    path = IdentifierSearch.open(folder).review(out, number=number, least_rouge=least_rouge, seed=seed or 0)
    if json:
        print_json({"sheet": str(path)})
    sayer(quiet, json)(f"{path}: it holds text of records; keep it where those may be")


@app.command("corrected", epilog=CORRECTED_EPILOG)
@ending
def corrected(
    folder: Annotated[Path, typer.Argument(help="Folder of the review.")],
    sheets: Annotated[
        list[Path] | None,
        typer.Argument(help="Sheets that were filled in; none: the folder's.", show_default=False),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Counts as the reviewers correct them, with the precision and recall of what was found."""
    from medunlearn.audit.identifiers.review import read_review

    table = read_review(folder, sheets or [])
    if json:
        print_json(_records(table))
    elif not quiet:
        columns = ("kind", "found", "confirmed", "rejected", "open", "missed", "corrected")
        _with_shares("corrected counts", table, columns)


@app.command("recall", epilog=RECALL_EPILOG)
@ending
def recall(
    detector: Annotated[
        str, typer.Option("--detector", help="patterns, presidio, tagger:FOLDER, module:Class.")
    ] = "patterns",
    labelled: Annotated[
        Path | None, typer.Option("--labelled", help="Labelled text: rows of text and spans; none: invented notes.")
    ] = None,
    number: Annotated[int, typer.Option("--number", min=2, max=8000, help="Invented notes.")] = 200,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """How much a detector finds of what is there, and how much of what it finds is there."""
    from medunlearn.audit.identifiers.detectors import make_detector
    from medunlearn.audit.identifiers.recall import detector_recall, invented_notes, read_labelled

    texts = read_labelled(labelled) if labelled else invented_notes(number, seed=seed or 0)
    table = detector_recall(make_detector(detector), texts, seed=seed or 0)
    if json:
        print_json(_records(table))
    elif not quiet:
        _with_shares(f"{detector} on {len(texts)} texts", table, ("kind", "labelled", "found", "detected", "right"))


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(k): None if absent(v) else v for k, v in row.items()} for row in table.to_dict("records")]


def _with_shares(title: str, table: pd.DataFrame, columns: tuple[str, ...]) -> None:
    shares = ("recall", "precision")
    rows = [
        (
            *(row[name] for name in columns),
            *(share(row, name, f"{name}_low", f"{name}_high") for name in shares),
            row["reason"] if not absent(row["reason"]) else "",
        )
        for row in table.to_dict("records")
    ]
    print_table(title, (*columns, *shares, ""), rows)
