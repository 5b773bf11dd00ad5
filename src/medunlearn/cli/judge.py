"""``medunlearn judge``, ``annotate``, ``agree``: language models judge, and people check them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medunlearn.cli.common import (
    Json,
    Overrides,
    Quiet,
    Seed,
    ending,
    print_json,
    print_line,
    print_table,
    sayer,
    settings_help,
)
from medunlearn.config import check, parse_overrides
from medunlearn.judging.judges import JudgeSettings
from medunlearn.llm.usage import in_money

if TYPE_CHECKING:
    from medunlearn.judging.run import JudgingPlan

SERVER = "llm."

EPILOG = (
    "Example: `medunlearn judge bench/ --task label --llm judges.yaml --out runs/labels per_group=300`\n\n"
    "Example: `medunlearn judge runs/npo --benchmark bench/ --llm http://127.0.0.1:8000/v1 --llm-model qwen3`\n\n"
    "judges.yaml holds `judges:` and a list, each with base_url, model and perhaps name, api_key_env, "
    "budget_tokens, ... (docs/llm.md). On the command line `llm.budget_tokens=100000` sets one for every judge.\n\n"
    "Answers are kept as they come; the same command again sends only what is missing.\n\n"
    + settings_help(JudgeSettings)
)
ANNOTATE_EPILOG = (
    "Example: `medunlearn annotate runs/labels --number 100 --out sheet/`\n\n"
    "The page and the CSV ask the same; use either. They hold text of records: keep them where those may be."
)
AGREE_EPILOG = (
    "Example: `medunlearn agree runs/labels sheet/labels.csv`\n\n"
    "Columns: case_id, label (Yes or No; for responses 1 to 10), and annotator, else the file's name is taken. "
    "Blank labels are passed over. With two files the annotators are compared as well."
)


@ending
def judge(
    what: Annotated[
        Path, typer.Argument(help="A benchmark, an evaluated run, or a table (.csv, .jsonl, .parquet).")
    ],
    llm: Annotated[str, typer.Option("--llm", help="A server's address, or a YAML file with several judges.")],
    task: Annotated[
        str | None, typer.Option("--task", help="label, question or factuality; of a run always factuality.")
    ] = None,
    llm_model: Annotated[str | None, typer.Option("--llm-model", help="The model at --llm, if it is one.")] = None,
    benchmark: Annotated[
        Path | None, typer.Option("--benchmark", help="Of a run: the benchmark that it was evaluated on.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the result; of a run, its own folder is taken.")
    ] = None,
    overrides: Overrides = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count requests, tokens and cost; send and write nothing.")
    ] = False,
    allow_remote_llm: Annotated[
        bool, typer.Option("--allow-remote-llm", help="Send protected data to servers off this machine.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Ask again what ended without a usable answer.")] = False,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Finish though judgements are missing.")
    ] = False,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Judge labels, questions or responses with one or several language models."""
    from medunlearn.judging import responses as judging
    from medunlearn.judging.judges import judges_of

    values = parse_overrides(overrides or [])
    server = {key.removeprefix(SERVER): value for key, value in values.items() if key.startswith(SERVER)}
    own = {key: value for key, value in values.items() if not key.startswith(SERVER)}
    settings = check(JudgeSettings, {**own, **({} if seed is None else {"seed": seed})})
    job = judging.job(what, judges_of(llm, llm_model, server), settings, task, benchmark, out)
    if dry_run:
        _show_plan(job.plan(permitted=allow_remote_llm), json)
        return
    judged = job.run(permitted=allow_remote_llm, again=again, allow_missing=allow_missing, quiet=quiet or json)
    if json:
        print_json({"folder": str(judged.run.folder), **judged.run.info["results"]})
    elif not quiet:
        typer.echo(judged.words)
        sayer(quiet, json)(f"{judged.run.folder}: judged.md, and its tables as Parquet")


def _show_plan(found: JudgingPlan, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                name: {"estimate": one.to_json(), "guard": found.decisions[name].to_json()}
                for name, one in found.estimates.items()
            }
        )
        return
    rows = [
        (name, one.requests, one.stored, one.likely.tokens, one.most.tokens, _money(one.most.money))
        for name, one in found.estimates.items()
    ]
    print_table("Nothing was sent.", ("judge", "requests", "need none", "likely tokens", "at most", "money"), rows)
    for decision in {decision.reason: decision for decision in found.decisions.values()}.values():
        print_line(decision.reason)


def _money(most: float | None) -> str:
    return "no price" if most is None else f"at most {in_money(most)}"


@ending
def annotate(
    run: Annotated[Path, typer.Argument(help="A run of `medunlearn judge`.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the sheet.")],
    number: Annotated[
        int | None, typer.Option("--number", min=1, help="Cases to draw, evenly over groups; none: all.")
    ] = None,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a CSV and a local page on which a person labels what judges judged."""
    from medunlearn.judging.people import annotate as write
    from medunlearn.judging.run import JudgingRun

    table, page = write(JudgingRun.open(run), out, number=number, seed=seed or 0)
    if json:
        print_json({"csv": str(table), "page": str(page)})
        return
    say = sayer(quiet, json)
    say(f"{page}: open it in a browser; it loads and sends nothing")
    say(f"{table}: the same to fill in with a spreadsheet. Both hold text of records: keep them private")


@ending
def agree(
    run: Annotated[Path, typer.Argument(help="A run of `medunlearn judge`.")],
    labels: Annotated[list[Path], typer.Argument(help="Labelled CSV files.")],
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Compare judges with people's labels, and people with each other."""
    from medunlearn.judging.people import agree as compare
    from medunlearn.judging.run import JudgingRun

    found = compare(JudgingRun.open(run), labels)
    if json:
        tables: dict[str, Any] = {"agreement": found.agreement, "confusion": found.confusion}
        print_json(
            {
                name: table.astype("object").where(table.notna(), None).to_dict("records")
                for name, table in tables.items()
            }
        )
    elif not quiet:
        typer.echo(found.words)
