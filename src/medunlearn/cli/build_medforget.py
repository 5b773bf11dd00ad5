"""``medunlearn build medforget``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from medunlearn.cli import llm_options as llm
from medunlearn.cli.build import LeaveOutFailed, Out, show_plans, told
from medunlearn.cli.common import Json, Overrides, Quiet, Seed, ending, sayer, settings_help
from medunlearn.config import MedforgetSettings, merge, parse_overrides


def _number(flag: str, what: str) -> Any:
    return typer.Option(f"--{flag}", metavar="N", help=what)


EPILOG = (
    "Example: `medunlearn build medforget --invented --out bench/`\n\n"
    "Small: `medunlearn build medforget --invented --institutions 2 --patients 4 --out bench/`\n\n"
    "MIMIC-CXR: `medunlearn build medforget --mimic-cxr mimic-cxr/ --images mimic-cxr-jpg/ --out bench/`"
    f"\n\n{settings_help(MedforgetSettings)}"
)


@ending
def command(
    out: Out,
    invented: Annotated[bool, typer.Option("--invented", help="Invent patients, and draw their X-rays.")] = False,
    mimic_cxr: Annotated[
        Path | None, typer.Option("--mimic-cxr", help="Folder of MIMIC-CXR, in which `files` stands.")
    ] = None,
    openi: Annotated[Path | None, typer.Option("--openi", help="Folder of Open-i's two CSV files.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Table with the columns patient, study, image and report.")
    ] = None,
    images: Annotated[Path | None, typer.Option("--images", help="Folder of the images.")] = None,
    text_only: Annotated[bool, typer.Option("--text-only", help="Build without images.")] = False,
    institutions: Annotated[int | None, _number("institutions", "Institutions (8).")] = None,
    patients: Annotated[int | None, _number("patients", "Patients an institution (8).")] = None,
    studies: Annotated[int | None, _number("studies", "Studies a patient (4).")] = None,
    sections: Annotated[int | None, _number("sections", "Sections a study (4).")] = None,
    general: Annotated[
        Path | None, typer.Option("--general", help="PMC-VQA's file, or another table of questions on images.")
    ] = None,
    copy_images: Annotated[bool, typer.Option("--copy-images", help="Copy images into the folder.")] = False,
    data_use: Annotated[
        str | None, typer.Option("--data-use", help="Of --folder: open, or credentialed (the default).")
    ] = None,
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
    """MedForget: institutions, patients, studies and sections, with chest X-rays and questions on each."""
    server = llm.server_values(url, model, key_env, price, budget_tokens, budget_requests, budget_money)
    flags = {
        "invented": invented or None, "mimic_cxr": mimic_cxr, "openi": openi, "folder": folder, "images": images,
        "text_only": text_only or None, "institutions": institutions, "patients": patients, "studies": studies,
        "sections": sections, "general": general, "copy_images": copy_images or None, "data_use": data_use,
        "llm": server or None, "store": store, "leave_out_failed": leave_out_failed or None, "again": again or None,
        "allow_remote_llm": allow_remote or None, "seed": seed,
    }  # fmt: skip
    given = {key: value for key, value in flags.items() if value is not None}
    _run(merge(given, parse_overrides(overrides or [])), out, dry_run, quiet, json)


def _run(values: dict[str, Any], out: Path, dry_run: bool, quiet: bool, as_json: bool) -> None:
    from medunlearn.papers.medforget.assemble import build_medforget, plan_medforget

    if dry_run:
        show_plans(plan_medforget(values, out), quiet, as_json)
        return
    say = sayer(quiet, as_json)
    built = build_medforget(values, out, quiet=quiet or as_json, say=say)
    told(built.benchmark, out, built.facts, quiet, as_json)
