"""Positions of memorized text (Figure 3), its persistence (Table 7), and identifiers in it (Tables 9 and 10)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.audit import persistence as lasting
from medunlearn.audit import position
from medunlearn.audit.audit_tables import KEY, AuditTables, leaked
from medunlearn.audit.identifiers.kinds import GROUPS, kinds
from medunlearn.papers.memorization.compare.ratios import Draws
from medunlearn.papers.memorization.report.content import COLUMNS, GREEDY, stacked
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.statistics.bootstrap import bootstrap_mean
from medunlearn.statistics.intervals import UNBOUNDED


def position_table(audit: AuditTables, draws: Draws, lengths: tuple[int, ...] = (30, 50)) -> pd.DataFrame:
    """Every measure of position by corpus, prefix length and length of run; greedy."""
    probes = audit.probes.set_index("probe_id")[["subject", "corpus", "prefix_tokens"]]
    responses = audit.responses[audit.responses["variant"] == GREEDY][[*KEY, "tokens"]]
    limit = max(position.SEGMENT, int(audit.info.get("config", {}).get("max_new_tokens", position.LIMIT)))
    parts = []
    key: Any
    placed = responses.join(probes, on="probe_id", how="inner")
    for key, group in placed.groupby(["corpus", "prefix_tokens"], sort=True):
        spans = audit.spans.merge(group[KEY], on=KEY)
        for length in lengths:
            table = position.positions(spans, group, at_least=length, limit=limit, **draws)
            parts.append(table.assign(model=audit.label, corpus=key[0], prefix_tokens=key[1], at_least=length))
    return stacked("positions", parts)


def persistence_table(
    before: AuditTables, after: AuditTables, draws: Draws, *, by: lasting.By = "probe", at_least: int = 50
) -> pd.DataFrame:
    """Unique and common shares of the union, by corpus and prefix length, and the retained share.

    Args:
        by: unit of counting: probes with a run of ``at_least`` tokens, spans with the same text, or tokens of
            suffixes.
    """
    flags = []
    for audit in (before, after):
        runs = audit.scores[(audit.scores["decoding"] == GREEDY) & (audit.scores["measure"] == f"run_{at_least}")]
        flags.append({str(probe): value for probe, value in runs.groupby("item")["value"].max().items()})
    counts = lasting.count_probes(*flags)
    if by != "probe":
        spans = [audit.spans[audit.spans["variant"] == GREEDY] for audit in (before, after)]
        counts = lasting.count_spans(list(counts["probe_id"]), *spans, by=by, at_least=at_least)
    placed = counts.merge(before.probes[["probe_id", "subject", "corpus", "prefix_tokens"]], on="probe_id")
    table = lasting.persistence(placed, **draws).assign(by=by, at_least=at_least)
    return stacked("persistence", [table.assign(before=before.label, after=after.label)])


def leaks(audit: AuditTables) -> pd.DataFrame:
    """Leaked values in the record and not in the prefix: one row per value, kind and response.

    Repeats of a value in a response count once.
    """
    tables = [table for table in (audit.findings, audit.sensitive) if table is not None]
    if not tables:
        return pd.DataFrame(columns=["kind"])
    table = pd.concat(tables, ignore_index=True)
    values = leaked(table)
    # Equal values share a key, in whatever writing they stand; without one the value itself must do.
    same = values["value"].astype(str).str.casefold()
    same = values["key"].fillna(same) if "key" in values else same
    return values.assign(same=same).drop_duplicates([*KEY, "kind", "same"])


def identifier_table(audit: AuditTables, draws: Draws) -> pd.DataFrame:
    """One row per kind of leaked identifier: count, number of records, and rate per audited record.

    Returns:
        model, table (``table_9`` or ``table_10``), group (the paper's row), kind, n, n_records, n_subjects,
        per_record (n over audited records, with low and high over subjects), example (the shape of one: letters as
        x, digits as #, nothing of its content).
    """
    rows = [_identifier_row(audit, str(kind), group, draws) for kind, group in leaks(audit).groupby("kind")]
    table = pd.DataFrame(rows, columns=list(COLUMNS["identifiers"]))
    return table.sort_values(["table", "n"], ascending=[True, False], kind="stable", ignore_index=True)


def masked(value: str) -> str:
    """The shape of a text: letters as x or X, digits as #; other characters stay."""
    shape = re.sub(r"[^\W\d_]", lambda match: "X" if match.group().isupper() else "x", value)
    return re.sub(r"\d", "#", shape)


def _identifier_row(audit: AuditTables, kind: str, group: pd.DataFrame, draws: Draws) -> dict[str, Any]:
    table, name = _group_of().get(kind, ("table_9", "Other"))
    records = audit.probes.drop_duplicates("record_id").set_index("record_id")["subject"]
    counts = group.groupby("record_id").size().reindex(records.index, fill_value=0).to_numpy(np.float64)
    mean = bootstrap_mean(counts, list(records), bounds=UNBOUNDED, **draws)
    hit = records.reindex(group["record_id"].unique())
    # The most frequent shape, so that one odd value is not singled out.
    shape = group["value"].astype(str).map(masked).value_counts().index[0]
    return {
        "model": audit.label,
        "table": table,
        "group": name,
        "kind": kind,
        "example": shape,
        "n": len(group),
        "n_records": len(hit),
        "n_subjects": int(hit.nunique()),
        "per_record": mean.value,
        "low": mean.low,
        "high": mean.high,
    }


@cache
def _group_of() -> Mapping[str, tuple[str, str]]:
    """Kind of identifier -> table and row of the paper."""
    tables = paper_yaml("memorization", "sensitive")
    groups = {name: ("table_9", GROUPS[kind.group]) for name, kind in kinds().items()}
    for category, rows in tables.items():
        groups |= {name: ("table_10", f"{category}: {row}") for row, names in rows.items() for name in names}
    return groups
