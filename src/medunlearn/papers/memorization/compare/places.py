"""Where memorized text stands (Figure 3) and what of it persists (Table 7), from the tables of audits."""

from __future__ import annotations

from typing import Any

import pandas as pd

from medunlearn.audit import persistence as lasting
from medunlearn.audit import position
from medunlearn.audit.tables import KEY, AuditTables
from medunlearn.papers.memorization.compare.ratios import GREEDY, Draws, table_of

POSITIONS = ("model", "corpus", "prefix_tokens", "at_least", *position.COLUMNS)
PERSISTENCE = (
    *("before", "after", "by", "at_least", "corpus", "prefix_tokens"),
    *("measure", "value", "low", "high", "n", "n_probes", "n_subjects", "reason"),
)


def position_table(audit: AuditTables, draws: Draws, lengths: tuple[int, ...] = (30, 50)) -> pd.DataFrame:
    """Every measure of position by corpus, prefix length and length of run; greedy."""
    probes = audit.probes.set_index("probe_id")
    said = audit.responses[audit.responses["variant"] == GREEDY]
    if said.empty:
        return pd.DataFrame(columns=list(POSITIONS))
    said = said[[*KEY, "tokens"]].join(probes[["subject", "corpus", "prefix_tokens"]], on="probe_id", how="inner")
    limit = max(position.SEGMENT, int(audit.info.get("config", {}).get("max_new_tokens", position.LIMIT)))
    parts = []
    key: Any
    for key, group in said.groupby(["corpus", "prefix_tokens"], sort=True):
        spans = audit.spans.merge(group[KEY], on=KEY)
        for length in lengths:
            found = position.positions(
                spans, group, at_least=length, limit=limit, replicates=draws.replicates, seed=draws.seed
            )
            place: Any = {"model": audit.label, "corpus": key[0], "prefix_tokens": key[1], "at_least": length}
            parts.append(found.assign(**place))
    return table_of(parts, POSITIONS)[list(POSITIONS)]


def persistence_table(
    before: AuditTables, after: AuditTables, draws: Draws, *, by: lasting.By = "probe", at_least: int = 50
) -> pd.DataFrame:
    """Unique, common and unique over the union, by corpus and prefix length, with the share that was retained.

    Args:
        by: what is counted: probes with a run of ``at_least`` tokens, spans with the same text, or tokens of
        suffixes.
    """
    first, second = (
        {
            str(probe): value
            for probe, value in audit.scores[
                (audit.scores["decoding"] == GREEDY) & (audit.scores["measure"] == f"run_{at_least}")
            ]
            .groupby("item")["value"]
            .max()
            .items()
        }
        for audit in (before, after)
    )
    counts = lasting.count_probes(first, second)
    if by != "probe":
        spans = [audit.spans[audit.spans["variant"] == GREEDY] for audit in (before, after)]
        counts = lasting.count_spans(list(counts["probe_id"]), *spans, by=by, at_least=at_least)
    placed = counts.merge(before.probes[["probe_id", "subject", "corpus", "prefix_tokens"]], on="probe_id")
    found = lasting.persistence(placed, replicates=draws.replicates, seed=draws.seed)
    who: Any = {"before": before.label, "after": after.label, "by": by, "at_least": at_least}
    return found.assign(**who)[list(PERSISTENCE)]
