"""An audit on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from medunlearn.cli.common import UNSCORED, print_json, print_line, print_table, with_interval
from medunlearn.cli.found_tables import print_stages, stages_json

if TYPE_CHECKING:
    from medunlearn.audit.audit import Audit

EXAMPLES = 3
_CELL = ["corpus", "prefix_tokens", "variant", "measure"]


def print_json_audit(audit: Audit, paper: bool) -> None:
    """The tables, and what was counted; no text."""
    found = {
        "folder": str(audit.run.folder),
        "model": audit.label,
        "results": audit.run.info["results"],
        "table": records_of(audit.table()),
    }
    print_json(found | stages_json(audit) | ({"paper_bootstrap": records_of(audit.paper_table())} if paper else {}))


def records_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A table's rows for JSON, what is missing as null."""
    plain = table.astype(object)
    return [
        {str(key): value for key, value in row.items()}
        for row in plain.where(plain.notna(), None).to_dict("records")
    ]


def print_audit(audit: Audit, *, paper: bool = False, show_text: bool = False) -> None:
    """A table a corpus and decoding, the model beside its baselines; and what is unscored."""
    table = audit.table()
    for (corpus, variant), part in table.groupby(["corpus", "variant"], sort=False):
        _corpus(audit, str(corpus), str(variant), part)
    _unscored(audit)
    for one in (audit, *audit.baselines):
        print_line(f"{one.label}: lengths in {one.unit}.")
    subjects = "Intervals: 95%, bootstrap over subjects (a record is its own where no subject is known)"
    print_line(f"{subjects}; differences are paired on probes.")
    if paper:
        _paper(audit)
    print_stages(audit)
    if show_text:
        _examples(audit)


def _corpus(audit: Audit, corpus: str, variant: str, part: pd.DataFrame) -> None:
    own = part[part["model"] == audit.label]
    others = [one.label for one in audit.baselines]
    columns = ["measure", "prefix", audit.label]
    for label in others:
        columns += [label, f"minus {label}" if len(others) > 1 else "difference"]
    found = {(label, *cell): row for label in others for cell, row in _by_cell(part[part["model"] == label])}
    rows = []
    for cell, row in _by_cell(_ordered(own)):
        if row["n_scored"]:
            shown = [row["measure"], _length(row["prefix_tokens"]), with_interval(row)]
            for label in others:
                shown += [_or_none(found.get((label, *cell))), _difference(own, cell, label)]
            rows.append((*shown, f"{row['n_scored']}/{row['n_scored'] + row['n_unscored']}"))
    subjects = own["n_subjects"].max()
    print_table(f"{corpus}, {variant}, {subjects} subjects", (*columns, "scored"), rows)


def _ordered(own: pd.DataFrame) -> pd.DataFrame:
    """A row a measure and prefix length, measures in their own order."""
    places = {name: place for place, name in enumerate(dict.fromkeys(own["measure"]))}
    first = own.drop_duplicates(_CELL).assign(place=own["measure"].map(places))
    return first.sort_values(["place", "prefix_tokens"], kind="stable")


def _by_cell(table: pd.DataFrame) -> list[tuple[tuple[Any, ...], Mapping[str, Any]]]:
    rows = [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]
    return [(tuple(row[name] for name in _CELL), row) for row in rows]


def _length(tokens: int) -> str:
    return str(tokens) if tokens else "mixed"


def _or_none(row: Mapping[str, Any] | None) -> str:
    return "" if row is None else UNSCORED if pd.isna(row["value"]) else with_interval(row)


def _difference(own: pd.DataFrame, cell: Sequence[Any], label: str) -> str:
    rows = own[own["baseline"] == label] if "baseline" in own else own[:0]
    for found, row in _by_cell(rows):
        if found == tuple(cell) and not pd.isna(row["difference"]):
            return with_interval(
                {"value": row["difference"], "low": row["difference_low"], "high": row["difference_high"]}
            )
    return ""


def _unscored(audit: Audit) -> None:
    scores = audit.scores()
    left = scores[scores["value"].isna()]
    for (measure, reason), part in left.groupby(["measure", "reason"], sort=False):
        print_line(f"Unscored, {len(part)} x {measure}: {reason}.")


def _paper(audit: Audit) -> None:
    from medunlearn.statistics.ranksum import WARNING

    table = audit.paper_table()
    rows = []
    for row in table[table["n_scored"] > 0].to_dict("records"):
        p = "" if pd.isna(row.get("p_rank_sum", None)) else f"{row['p_rank_sum']:.2g} ({row['baseline']})"
        cell = (row["corpus"], row["measure"], _length(row["prefix_tokens"]), row["variant"])
        rows.append((row["model"], *cell, with_interval(row), p))
    columns = ("model", "corpus", "measure", "prefix", "decoding", "mean of 100 x 100", "p (rank sum)")
    print_table("The paper's bootstrap and test", columns, rows)
    print_line(WARNING)


def _examples(audit: Audit) -> None:
    spans = (
        audit.spans().sort_values("length", ascending=False, kind="stable").drop_duplicates("text").head(EXAMPLES)
    )
    rows = [(row["probe_id"], row["length"], row["in_response"], row["text"]) for row in spans.to_dict("records")]
    print_table("Longest shared runs", ("probe", f"{audit.noun}", "from", "text"), rows)
