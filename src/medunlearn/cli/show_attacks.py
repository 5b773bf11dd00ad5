"""Results of attacks on the terminal and as JSON: membership, privacy leakage, reconstruction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from medunlearn.cli.output import Output, Row, difference, records
from medunlearn.cli.show import by_model, paper_view, warn_of_broken
from medunlearn.terminal import absent, with_interval

if TYPE_CHECKING:
    import pandas as pd

TITLES = {
    "auc": "Area under the ROC curve",
    "tpr_at_1pct_fpr": "True positive rate at 1% false positives",
    "tpr_at_0.1pct_fpr": "True positive rate at 0.1% false positives",
}


def attack(result: Any, output: Output, *, benchmark: str) -> None:
    tables, reconstructions = result.table(), result.reconstructions
    if output.data(
        lambda: {
            "table": tables.to_dict("records"),
            "comparisons": result.comparisons.to_dict("records"),
            "privacy_leak": result.privacy_leaks.to_dict("records"),
            "reconstruction": records(reconstructions.table()),
            "reconstruction_comparisons": records(reconstructions.comparisons),
            "recovery": {kind: recovery_data(attacks) for kind, attacks in result.recoveries.items()},
            "caveats": list(result.caveats),
            "health": result.problems,
        }
    ):
        return
    warn_of_broken(output, result.problems)
    if len(tables):
        _membership(result, tables, output)
        output.view(paper_view("attack", result, benchmark))
    if reconstructions.models:
        _reconstruction(reconstructions, output)
    for kind, attacks in result.recoveries.items():
        _recovery(kind, attacks, output)
    output.line(*result.caveats)


def _membership(result: Any, table: pd.DataFrame, output: Output) -> None:
    scored = table[table["value"].notna()]

    def cell(row: Row) -> str:
        return with_interval(row) + ("" if absent(row["reading"]) else f" {row['reading']}")

    def title(group: str, measure: str) -> str:
        first = scored[(scored["group"] == group) & (scored["measure"] == measure)].iloc[0]
        people = f"{first['n_members']} members, {first['n_nonmembers']} non-members"
        return f"{TITLES.get(measure, measure)}, {group} documents: {people}"

    by_model(output, scored, title, ["group", "measure"], ["attack"], result.models, cell=cell)
    columns = {"attack": "attack", "group": "group", "models": _pair, "difference": difference}
    reading = {"it lies": lambda row: row["reading"] or ""}
    _differences(output, "Difference of areas", result.comparisons, columns | reading)
    for reason, part in table[table["value"].isna()].groupby("reason", sort=False):
        names, measures = (", ".join(dict.fromkeys(part[c].astype(str))) for c in ("attack", "measure"))
        output.line(f"Unscored, {measures} of {names}: {reason}.")
    output.line("An area of 0.5 is guessing; the retrained model's is what forgetting should reach.")


def _differences(output: Output, title: str, comparisons: pd.DataFrame, columns: Mapping[str, Any]) -> None:
    rows = [row for row in comparisons.to_dict("records") if not absent(row["difference"])]
    if rows:
        output.frame(title, rows, columns)


def _pair(row: Row) -> str:
    return f"{row['model']} - {row['against']}"


def _reconstruction(result: Any, output: Output) -> None:
    """Print leakage at each context level, then differences from the other models."""
    from medunlearn.attacks.reconstruction.reconstruction_results import reported

    def cell(row: Row) -> str:
        return with_interval(row) + ("" if absent(row["change"]) else f" ({row['change']:+.3f})")

    def title(side: str, kind: str, measure: str) -> str:
        return f"Reconstruction, {side} side, {kind} questions: {measure}"

    table, gaps = (
        rows.assign(named_in_front=rows["identifiers"].replace("", "nothing")) if len(rows) else rows
        for rows in map(reported, (result.table(), result.comparisons))
    )
    titles, row = ["side", "kind", "measure"], ["named_in_front"]
    by_model(output, table, title, titles, row, result.models, cell=cell, empty_rows=True)
    columns = {"models": _pair, "questions": "kind", "measure": "measure", "named in front": "named_in_front"}
    _differences(output, "Differences, paired", gaps, {**columns, "difference": difference})
    output.line(
        "Higher = leaks more. In brackets the change from the question with nothing in front. The retrained model "
        "never saw these records: what it says is guessed."
    )


def recovery_data(attacks: Any) -> dict[str, Any]:
    """Tables of one kind of recovery attack, with the notes and problems of each model."""
    about = {model.run.label: dict(model.facts) for model in attacks.models}
    return {"table": records(attacks.table()), "comparisons": records(attacks.comparisons), "about": about}


def _recovery(kind: str, attacks: Any, output: Output) -> None:
    """Print each model's leakage by attack strength, then differences from the other models."""
    from medunlearn.attacks.recovery.recovery_results import READINGS, shown

    def cell(row: Row) -> str:
        change = "" if absent(row["change"]) else f"({row['change']:+.3f})"
        words = "" if absent(row["reading"]) else str(row["reading"])
        return " ".join(text for text in (with_interval(row), change, words) if text)

    table, gaps = shown(attacks.table()), shown(attacks.comparisons)
    titles = ["attack", "side", "measure"]
    by_model(output, table, "{}, {} side: {}".format, titles, ["strength"], attacks.models, cell=cell)
    columns = {"attack": "attack", "strength": "strength", "measure": "measure", "models": _pair}
    title = f"{kind.capitalize()}: differences on the forget side, paired"
    of_forget = gaps[gaps["side"] == "forget"] if len(gaps) else gaps
    _differences(output, title, of_forget, columns | {"difference": difference})
    for model in attacks.models:
        output.line(*model.notes)
    for word in (word for word in READINGS if word in set(table["reading"].dropna())):
        output.line(f"{word.capitalize()}: {READINGS[word]}.")
    output.line("Higher = gives away more. In brackets the change by the attack, paired on questions.")
