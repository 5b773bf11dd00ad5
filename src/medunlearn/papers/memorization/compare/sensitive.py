"""Regenerated identifiers (Table 9) and further sensitive content (Table 10) as counts with masked examples."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
import yaml

from medunlearn.audit.tables import KEY, AuditTables
from medunlearn.papers.memorization.compare.ratios import Draws
from medunlearn.statistics.bootstrap import bootstrap_mean

IDENTIFIERS = (
    *("model", "table", "group", "kind", "n", "n_records", "n_subjects"),
    *("per_record", "low", "high", "example"),
)
OTHER = "Other"


def leaks(audit: AuditTables) -> pd.DataFrame:
    """What leaked: in the record, and not in the prefix. One row a value of a kind in a response.

    However often a value stands in a response, it counts once there.
    """
    tables = [table for table in (audit.findings, audit.sensitive) if table is not None]
    if not tables:
        return pd.DataFrame()
    table = pd.concat(tables, ignore_index=True)
    told = table[table["in_record"].astype(bool) & ~table["in_prefix"].astype(bool)]
    # Equal values share a key, in whatever writing they stand; without one the value itself must do.
    same = told["value"].astype(str).str.casefold()
    return told.assign(same=told["key"].fillna(same) if "key" in told else same).drop_duplicates(
        [*KEY, "kind", "same"]
    )


def identifier_table(audit: AuditTables, draws: Draws) -> pd.DataFrame:
    """One row a kind of what was regenerated: how often, in how many records, and per audited record.

    Returns:
        model, table (``table_9`` or ``table_10``), group (the paper's row), kind, n, n_records, n_subjects,
        per_record (n over audited records, with low and high over subjects), example (the shape of one: letters as
        x, digits as #, nothing of its content).
    """
    found = leaks(audit)
    rows = [_row(audit, str(kind), group, draws) for kind, group in found.groupby("kind")] if len(found) else []
    table = pd.DataFrame(rows, columns=list(IDENTIFIERS))
    return table.sort_values(["table", "n"], ascending=[True, False], kind="stable", ignore_index=True)


def masked(value: str) -> str:
    """The shape of a text: letters as x or X, digits as #; what stands between them stays."""
    shape = re.sub(r"[^\W\d_]", lambda one: "X" if one.group().isupper() else "x", value)
    return re.sub(r"\d", "#", shape)


def _row(audit: AuditTables, kind: str, group: pd.DataFrame, draws: Draws) -> dict[str, Any]:
    table, name = _group_of().get(kind, ("table_9", OTHER))
    records = audit.probes.drop_duplicates("record_id").set_index("record_id")["subject"]
    counts = group.groupby("record_id").size().reindex(records.index, fill_value=0).to_numpy(np.float64)
    found = bootstrap_mean(counts, list(records), replicates=draws.replicates, seed=draws.seed)
    hit = records.reindex(group["record_id"].unique())
    counted = {"n": len(group), "n_records": len(hit), "n_subjects": int(hit.nunique())}
    numbers = {"per_record": found.value, "low": found.low, "high": found.high}
    # The most frequent shape, so that one odd value is not singled out.
    shape = group["value"].astype(str).map(masked).value_counts().index[0]
    return (
        {"model": audit.label, "table": table, "group": name, "kind": kind} | counted | numbers | {"example": shape}
    )


@cache
def _group_of() -> Mapping[str, tuple[str, str]]:
    text = files("medunlearn.papers.memorization.compare").joinpath("sensitive.yaml").read_text(encoding="utf-8")
    content = yaml.safe_load(text)
    found = {kind: ("table_9", row) for row, kinds in content["table_9"].items() for kind in kinds}
    for category, rows in content["table_10"].items():
        found |= {kind: ("table_10", f"{category}: {row}") for row, kinds in rows.items() for kind in kinds}
    return found
