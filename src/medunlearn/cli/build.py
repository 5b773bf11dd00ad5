"""``medunlearn build``: records in, a benchmark folder out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from medunlearn.cli import llm_options as llm
from medunlearn.cli.common import Json, Overrides, Quiet, Seed, ending, print_json, sayer, settings_help
from medunlearn.config import (
    AmnesiaNotesSettings,
    AmnesiaSettings,
    LumeNewSettings,
    LumeSettings,
    MuseSettings,
    TofuSettings,
    merge,
    parse_overrides,
)
from medunlearn.config.options import OptionsSettings
from medunlearn.errors import ConfigError

app = typer.Typer(help="Build a benchmark folder.", no_args_is_help=True, rich_markup_mode="markdown")
Out = Annotated[Path, typer.Option("--out", help="Folder of the benchmark.")]
SkipBadRows = Annotated[bool, typer.Option("--skip-bad-rows", help="Leave out malformed rows and count them.")]
LeaveOutFailed = Annotated[
    bool, typer.Option("--leave-out-failed", help="Build without what server or network failed on.")
]
NotesAndOverrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NOTES] [KEY=VALUE]",
        help="A file or folder of notes or hub:org/name, and settings; they are listed below.",
        show_default=False,
    ),
]


def _column(flag: str, what: str) -> Any:
    return typer.Option(f"--{flag}", metavar="COLUMN", help=f"Column of {what}.")


def build_and_tell(builder: str, values: dict[str, Any], out: Path, quiet: bool, as_json: bool) -> None:
    from medunlearn.pipeline.benchmarks import build, save_new

    given = {key: value for key, value in values.items() if value is not None}
    benchmark = save_new(build(builder, given), out)
    told(benchmark, out, {}, quiet, as_json)


def _build_notes(values: dict[str, Any], out: Path, dry_run: bool, quiet: bool, as_json: bool) -> None:
    from medunlearn.papers.amnesia.notes import build_from_notes, plan_from_notes

    given = {key: value for key, value in values.items() if value is not None}
    say = sayer(quiet, as_json)
    if not dry_run:
        built = build_from_notes(given, out, quiet=quiet or as_json, say=say)
        told(built.benchmark, out, built.facts, quiet, as_json)
        return
    show_plans(plan_from_notes(given, out), quiet, as_json)


def show_plans(plans: Mapping[str, Any], quiet: bool, as_json: bool) -> None:
    say = sayer(quiet, as_json)
    if as_json:
        print_json({name: plan.to_json() for name, plan in plans.items()})
    for name, plan in plans.items():
        say(f"{name}: {plan}")
    say("Nothing was sent.")


def told(benchmark: Any, out: Path, more: Mapping[str, Any], quiet: bool, as_json: bool) -> None:
    if as_json:
        print_json({"folder": str(out), **benchmark.facts(), **({"build": more} if more else {})})
        return
    say = sayer(quiet, as_json)
    counts = ", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in benchmark.counts().items())
    say(f"{out}: {counts}")
    if skipped := benchmark.notes.get("skipped rows"):
        say(f"{len(skipped)} rows were left out; they are listed in {out / 'benchmark.yaml'}")


@app.command(
    "amnesia",
    epilog="Example: `medunlearn build amnesia --invented 400 --out bench/`\n\nFrom notes of your own: "
    "`medunlearn build amnesia NOTES.csv --llm http://127.0.0.1:8000/v1 --llm-model qwen3-32b --out bench/`\n\n"
    "From the paper's: `medunlearn build amnesia hub:zhengyun21/PMC-Patients --llm ... --out bench/`\n\n"
    f"With --invented. {settings_help(AmnesiaSettings)}\n\nWith notes. {settings_help(AmnesiaNotesSettings)}",
)
@ending
def amnesia(
    out: Out,
    words: NotesAndOverrides = None,
    invented: Annotated[int | None, typer.Option("--invented", help="Patients to invent, without notes.")] = None,
    note_id: Annotated[str | None, _column("id", "the note's id")] = None,
    text: Annotated[str | None, _column("text", "the note")] = None,
    title: Annotated[str | None, _column("title", "the title that a disease is told by")] = None,
    subject: Annotated[str | None, _column("subject", "the patient")] = None,
    disease: Annotated[str | None, _column("disease", "a disease of your own, instead of a model's label")] = None,
    identifiers: Annotated[str | None, _column("identifiers", "known identifiers, with ; between them")] = None,
    sample: Annotated[
        str | None,
        typer.Option(
            "--sample", metavar="N", help="Seeded sample of this many notes, or all; 8820 of PMC-Patients."
        ),
    ] = None,
    data_use: Annotated[
        str | None, typer.Option("--data-use", help="open, or credentialed: the notes stay on this machine.")
    ] = None,
    skip_bad_rows: SkipBadRows = False,
    leave_out_failed: LeaveOutFailed = False,
    url: llm.Url = None,
    model: llm.Model = None,
    key_env: llm.KeyEnv = None,
    price: llm.Price = None,
    budget_tokens: llm.BudgetTokens = None,
    budget_requests: llm.BudgetRequests = None,
    budget_money: llm.BudgetMoney = None,
    store: llm.Responses = None,
    dry_run: llm.DryRun = False,
    again: llm.Again = False,
    allow_remote: llm.AllowRemote = False,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """AMNESIA: patients with a note and eight questions each, random and disease-level splits."""
    notes, overrides = _notes_of(words or [], invented)
    server = llm.server_values(url, model, key_env, price, budget_tokens, budget_requests, budget_money)
    flags = {
        "id": note_id, "text": text, "title": title, "subject": subject, "disease": disease,
        "identifiers": identifiers, "sample": sample, "data_use": data_use,
        "skip_bad_rows": skip_bad_rows or None, "store": store,
        "leave_out_failed": leave_out_failed or None, "again": again or None,
        "allow_remote_llm": allow_remote or None,
    }  # fmt: skip
    if notes is None:
        _refuse_flags_of_notes([*flags.values(), *server.values(), dry_run or None])
        build_and_tell(
            "amnesia", {"invented": invented, "seed": seed, **parse_overrides(overrides)}, out, quiet, json
        )
        return
    values = merge({"notes": notes, "llm": server, **flags, "seed": seed}, parse_overrides(overrides))
    _build_notes(values, out, dry_run, quiet, json)


def _notes_of(words: list[str], invented: int | None) -> tuple[Path | None, list[str]]:
    """The file of notes, which stands first, and the settings after it."""
    if invented is not None:
        return None, words
    if not words or ("=" in words[0] and not Path(words[0]).exists()):
        raise ConfigError(
            ["give a file of notes (NOTES.csv, .jsonl, .json, .parquet), hub:org/name or --invented N"]
        )
    return Path(words[0]), words[1:]


def _refuse_flags_of_notes(values: list[Any]) -> None:
    if any(value is not None for value in values):
        raise ConfigError(["--invented needs no language model and no columns: leave --llm and the others out"])


@app.command(
    "lume",
    epilog="Example: `medunlearn build lume --released lume-files/ --out bench/`\n\nBuilt anew: "
    "`medunlearn build lume --new --out bench/ stories=40 personal_biographies=40 public_biographies=40`\n\n"
    f"With --released. {settings_help(LumeSettings)}\n\nWith --new. {settings_help(LumeNewSettings)}",
)
@ending
def lume(
    out: Out,
    released: Annotated[
        Path | None, typer.Option("--released", help="Folder with forget.jsonl and retain.jsonl.")
    ] = None,
    new: Annotated[bool, typer.Option("--new", help="Build stories and biographies anew.")] = False,
    articles: Annotated[
        Path | None, typer.Option("--articles", help="Encyclopedia articles for the public biographies.")
    ] = None,
    review: Annotated[
        bool, typer.Option("--review", help="Write a CSV and a page on which people label each document.")
    ] = False,
    nonmembers: Annotated[
        Path | None,
        typer.Option("--nonmembers", help="With --released: JSONL of documents that no model is trained on."),
    ] = None,
    skip_bad_rows: SkipBadRows = False,
    overrides: Overrides = None,
    leave_out_failed: LeaveOutFailed = False,
    url: llm.Url = None,
    model: llm.Model = None,
    key_env: llm.KeyEnv = None,
    price: llm.Price = None,
    budget_tokens: llm.BudgetTokens = None,
    budget_requests: llm.BudgetRequests = None,
    budget_money: llm.BudgetMoney = None,
    store: llm.Responses = None,
    dry_run: llm.DryRun = False,
    again: llm.Again = False,
    allow_remote: llm.AllowRemote = False,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """LUME: stories and biographies with completions and knowledge questions, released or built anew."""
    server = llm.server_values(url, model, key_env, price, budget_tokens, budget_requests, budget_money)
    own: dict[str, Any] = {"articles": articles, "store": store, "leave_out_failed": leave_out_failed or None}
    own |= {"again": again or None, "allow_remote_llm": allow_remote or None, "llm": server or None}
    of_files = {"nonmembers": nonmembers, "skip_bad_rows": skip_bad_rows or None}
    given = parse_overrides(overrides or [])
    if new == (released is not None):
        raise ConfigError(["give either --released FOLDER (the released files) or --new (build it anew)"])
    if released is not None:
        _refuse_given(own | {"review": review or None, "dry_run": dry_run or None}, "--released needs no")
        build_and_tell("lume", {"released": released, **of_files, "seed": seed, **given}, out, quiet, json)
        return
    _refuse_given(of_files, "--new reads no released files: leave out")
    values = {key: value for key, value in {"new": True, **own, "seed": seed}.items() if value is not None}
    _build_lume_new(merge(values, given), out, dry_run, review, quiet, json)


def _refuse_given(flags: Mapping[str, Any], why: str) -> None:
    wrong = [f"--{name.replace('_', '-')}" for name, value in flags.items() if value is not None]
    if wrong:
        raise ConfigError([f"{why} {', '.join(wrong)}"])


def _build_lume_new(
    values: dict[str, Any], out: Path, dry_run: bool, review: bool, quiet: bool, as_json: bool
) -> None:
    from medunlearn.papers.lume.new import build_new, plan_new

    if dry_run:
        show_plans(plan_new(values, out), quiet, as_json)
        return
    say = sayer(quiet, as_json)
    built = build_new(values, out, review=review, quiet=quiet or as_json, say=say)
    told(built.benchmark, out, built.facts, quiet, as_json)


Released = Annotated[str, typer.Option("--released", help="Folder of the released files, or hub.")]


@app.command(
    "tofu",
    epilog="Example: `medunlearn build tofu --released hub --out tofu/`\n\n" + settings_help(TofuSettings),
)
@ending
def tofu(
    released: Released,
    out: Out,
    overrides: Overrides = None,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """TOFU: questions on authors who never were, with splits forget01, forget05 and forget10."""
    build_and_tell(
        "tofu", {"released": released, "seed": seed, **parse_overrides(overrides or [])}, out, quiet, json
    )


@app.command(
    "muse",
    epilog="Example: `medunlearn build muse --released hub --out muse/ corpus=books`\n\n"
    + settings_help(MuseSettings),
)
@ending
def muse(
    released: Released,
    out: Out,
    overrides: Overrides = None,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """MUSE: news articles or a book, with verbatim prompts and questions, and documents that no model saw."""
    build_and_tell(
        "muse", {"released": released, "seed": seed, **parse_overrides(overrides or [])}, out, quiet, json
    )


@app.command(
    "options",
    epilog="Example: `medunlearn build options questions.jsonl --out bench/ nonmembers=100`\n\n"
    + settings_help(OptionsSettings),
)
@ending
def options(
    file: Annotated[Path, typer.Argument(help="CSV, TSV, JSONL, JSON or Parquet, one question a row.")],
    out: Out,
    overrides: Overrides = None,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Multiple-choice questions of MedQA's or MedMCQA's form, with questions that no model sees."""
    build_and_tell("options", {"file": file, "seed": seed, **parse_overrides(overrides or [])}, out, quiet, json)
