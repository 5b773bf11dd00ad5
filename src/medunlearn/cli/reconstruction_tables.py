"""Tables of the reconstruction attack for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from medunlearn.cli.common import print_line, print_table, with_interval

if TYPE_CHECKING:
    from medunlearn.attacks.reconstruction.attacked import Reconstructions


def print_reconstructions(found: Reconstructions) -> None:
    """Leakage at each context level with a column a model, then differences from the other models."""
    from medunlearn.attacks.reconstruction.results import reported

    table = reported(found.table())
    labels = [model.run.label for model in found.models]
    for (side, kind, metric), part in table.groupby(["side", "kind", "metric"], sort=False):
        rows = []
        for _, cells in part.groupby("context", sort=False):
            of = {cell["model"]: cell for cell in cells.to_dict("records")}
            rows.append((_named(cells.iloc[0]), *(_shown(of[label]) if label in of else "" for label in labels)))
        title = f"Reconstruction, {side} side, {kind} questions: {metric}"
        print_table(title, ("named in front", *labels), rows)
    gaps = reported(found.comparisons)
    rows = [
        (f"{gap['model']} - {gap['against']}", gap["kind"], gap["metric"], _named(gap), with_interval(_gap(gap)))
        for gap in gaps.to_dict("records")
        if not pd.isna(gap["difference"])
    ]
    if rows:
        print_table("Differences, paired", ("models", "questions", "metric", "named in front", "difference"), rows)
    print_line(
        "Higher = leaks more. In brackets the change from the question with nothing in front. The retrained model "
        "never saw these records: what it says is guessed."
    )


def plain_rows(table: pd.DataFrame) -> list[dict[Any, Any]]:
    """A table's rows for JSON; what is missing is null."""
    rows: list[dict[Any, Any]] = table.astype("object").where(table.notna(), None).to_dict("records")
    return rows


def _named(row: Any) -> str:
    return str(row["identifiers"]) or "nothing"


def _shown(row: dict[Any, Any]) -> str:
    if pd.isna(row["value"]):
        return "unscored"
    return with_interval(row) + ("" if pd.isna(row["change"]) else f" ({row['change']:+.3f})")


def _gap(row: dict[Any, Any]) -> dict[Any, Any]:
    return {**row, "value": row["difference"]}
