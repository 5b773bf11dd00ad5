"""``medunlearn attack``: what an adversary can still tell from a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd
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
    with_interval,
)
from medunlearn.cli.reconstruction_tables import plain_rows, print_reconstructions
from medunlearn.config import AttackSettings, parse_overrides
from medunlearn.errors import InputError

if TYPE_CHECKING:
    from medunlearn.attacks.attacked import Attacks

EPILOG = (
    "Example: `medunlearn attack runs/npo bench/ --split random_10 --attack membership --against runs/target "
    "runs/retrained`\n\n"
    "`--attack reconstruction` asks the forget set's questions with the names of study, patient, institution in "
    "front. Membership needs a benchmark with documents that no model is trained on (docs/attacks.md says how). "
    "Results are kept in the run's folder; `medunlearn report` shows them.\n\n"
    "An attack's own settings are written ATTACK.KEY=VALUE; `medunlearn list attacks` shows them.\n\n"
    + settings_help(AttackSettings)
)


@ending
def command(
    run: Annotated[Path, typer.Argument(help="Run whose model is attacked.")],
    benchmark: Annotated[Path, typer.Argument(help="Folder of the benchmark that it was trained on.")],
    split: Annotated[str, typer.Option("--split", help="Split whose forget set is attacked.")],
    attack: Annotated[
        str | None, typer.Option("--attack", help="Names or kinds from `medunlearn list attacks`, with commas.")
    ] = None,
    against: Annotated[
        list[Path] | None, typer.Option("--against", help="Runs to compare with, e.g. target and retrained.")
    ] = None,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--out", help="Also write the table here, as CSV.")] = None,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Attack a model: tell members of its training set, or bring back what it was made to forget."""
    from medunlearn.attacks.run import attack as run_attack
    from medunlearn.attacks.run import attack_settings
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.data.storage import write_text
    from medunlearn.results.runs import Run

    if out is not None and out.is_dir():
        raise InputError(f"{out} is a folder; --out is the CSV file to write.")
    words = overrides or []
    # `--against a b` gives b to the arguments: a word that is no setting is another run.
    runs = [*(against or []), *(Path(word) for word in words if "=" not in word and against)]
    values = parse_overrides([word for word in words if "=" in word or not against])
    given: dict[str, Any] = {"split": split, "attacks": attack, "seed": seed}
    settings = attack_settings({**{key: value for key, value in given.items() if value is not None}, **values})
    bench = Benchmark.load(benchmark)
    attacks = run_attack(
        Run.open(run),
        bench,
        settings,
        against=[Run.open(other) for other in runs],
        device=device,
        quiet=quiet or json,
    )
    reconstructions = attacks.reconstructions
    if out is not None:
        tables = [table for table in (attacks.table(), reconstructions.table()) if len(table)]
        write_text(out, pd.concat(tables, ignore_index=True).to_csv(index=False))
    if json:
        print_json(
            {
                "table": attacks.table().to_dict("records"),
                "comparisons": attacks.comparisons.to_dict("records"),
                "privacy_leak": attacks.privacy_leaks.to_dict("records"),
                "reconstruction": plain_rows(reconstructions.table()),
                "reconstruction_comparisons": plain_rows(reconstructions.comparisons),
            }
        )
        return
    if quiet:
        return
    if len(attacks.table()):
        _print(attacks)
        if bench.builder == "muse":
            _print_privacy(attacks)
    if reconstructions.models:
        print_reconstructions(reconstructions)


def _print(attacks: Attacks) -> None:
    """Areas with a column a model, rates at low false positive rates, differences; what is unscored and why."""
    labels = [model.run.label for model in attacks.models]
    table = attacks.table()
    for (group, measure), part in table.groupby(["group", "measure"], sort=False):
        scored = part[part["value"].notna()]
        if scored.empty:
            continue
        rows = []
        for attack, cells in scored.groupby("attack", sort=False):
            of = {cell["model"]: cell for cell in cells.to_dict("records")}
            rows.append((attack, *(_shown(of[label]) if label in of else "" for label in labels)))
        about = scored.iloc[0]
        people = f"{about['n_members']} members, {about['n_nonmembers']} non-members"
        print_table(f"{_title(str(measure))}, {group} documents: {people}", ("attack", *labels), rows)
    gaps = attacks.comparisons
    if len(gaps):
        rows = [
            (gap["attack"], gap["group"], f"{gap['model']} - {gap['against']}", _gap(gap), gap["reading"] or "")
            for gap in gaps.to_dict("records")
            if not pd.isna(gap["difference"])
        ]
        print_table("Difference of areas", ("attack", "group", "models", "difference", "it lies"), rows)
    unscored = table[table["value"].isna()]
    for reason, part in unscored.groupby("reason", sort=False):
        names, measures = (", ".join(dict.fromkeys(part[column].astype(str))) for column in ("attack", "measure"))
        print_line(f"Unscored, {measures} of {names}: {reason}.")
    print_line("An area of 0.5 is guessing; the retrained model's is what forgetting should reach.")


def _print_privacy(attacks: Attacks) -> None:
    """MUSE's fourth measure, which needs a retrained model."""
    rows = [
        (row["model"], row["against"], row["attack"], with_interval(row))
        for row in attacks.privacy_leaks.to_dict("records")
    ]
    if not rows:
        print_line("Privacy leakage (PrivLeak) is read against a retrained model: name one with --against.")
        return
    print_table("Privacy leakage (PrivLeak)", ("model", "against", "attack", "privacy leakage"), rows)
    print_line("Privacy leakage: 0 = leaks as little as the retrained model, above = still gives members away.")


def _title(measure: str) -> str:
    return {
        "auc": "Area under the ROC curve",
        "tpr_at_1pct_fpr": "True positive rate at 1% false positives",
        "tpr_at_0.1pct_fpr": "True positive rate at 0.1% false positives",
    }.get(measure, measure)


def _shown(row: dict[Any, Any]) -> str:
    reading = row["reading"]
    return with_interval(row) + ("" if pd.isna(reading) else f" {reading}")


def _gap(row: dict[Any, Any]) -> str:
    return with_interval({**row, "value": row["difference"]})
