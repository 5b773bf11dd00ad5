"""Does memorization rise with the prefix, with duplication, with epochs? One row a trend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.audit.position import LIMIT, SEGMENT, matched_by_segment
from medunlearn.audit.tables import KEY, AuditTables
from medunlearn.papers.memorization.compare.ratios import GREEDY, Draws
from medunlearn.papers.memorization.report.content import MATCHED
from medunlearn.statistics.trend import Trend, paired_trend, trend_between

TRENDS = (
    *("factor", "model", "corpus", "prefix_tokens", "measure", "levels", "step"),
    *("slope", "low", "high", "p", "n", "n_left_out", "n_subjects", "reason"),
)
PREFIX, DUPLICATION, EPOCHS, POSITION = "prefix length", "duplication", "epochs", "position"


def prefix_trends(audit: AuditTables, measures: Sequence[str], draws: Draws) -> pd.DataFrame:
    """Slope of a record's score over the prefix lengths in their order, a step each; paired over records.

    Only records that have a probe of every length: a long prefix leaves out short records, and would compare other
    records otherwise.
    """
    greedy = audit.wide[audit.wide["variant"] == GREEDY]
    rows = []
    for corpus, group in greedy.groupby("corpus", sort=True):
        for measure in [name for name in measures if name in group]:
            table = group.pivot(index="record_id", columns="prefix_tokens", values=measure)
            subjects = group.drop_duplicates("record_id").set_index("record_id")["subject"]
            head = {"factor": PREFIX, "model": audit.label, "corpus": str(corpus), "prefix_tokens": None}
            rows.append(head | {"measure": measure} | _paired(table, subjects, "one prefix length more", draws))
    return pd.DataFrame(rows, columns=list(TRENDS))


def duplication_trends(audit: AuditTables, measures: Sequence[str], draws: Draws) -> pd.DataFrame:
    """Slope over records on log2 of how often each stood in the training text (``copies`` of ``probes.parquet``).

    Not paired: a record has one number of copies. Empty where the audit does not know it.
    """
    greedy = audit.wide[audit.wide["variant"] == GREEDY]
    if "copies" not in greedy:
        return pd.DataFrame(columns=list(TRENDS))
    known = greedy[greedy["copies"] > 0]
    rows = []
    key: Any
    for key, group in known.groupby(["corpus", "prefix_tokens"], sort=True):
        for measure in [name for name in measures if name in group]:
            found = trend_between(group[measure], np.log2(group["copies"]), list(group["subject"]), **_how(draws))
            levels = sorted(group["copies"].unique())
            head = {
                "factor": DUPLICATION,
                "model": audit.label,
                "corpus": str(key[0]),
                "prefix_tokens": int(key[1]),
            }
            more = {"measure": measure, "levels": _listed(levels), "step": "twice as many copies"}
            rows.append(head | more | _numbers(found, "all records have as many copies"))
    return pd.DataFrame(rows, columns=list(TRENDS))


def position_trends(audit: AuditTables, draws: Draws) -> pd.DataFrame:
    """Slope over segments of 100 tokens of the share of a segment that stands in a run of 30; paired over records.

    Probes alone whose text goes on to the end of the last segment: behind a text's end nothing can be repeated.
    There are as many segments as half of a corpus' probes have text for.
    """
    said = audit.responses[audit.responses["variant"] == GREEDY]
    if said.empty or "suffix_tokens" not in audit.probes:
        return pd.DataFrame(columns=list(TRENDS))
    about = audit.probes.set_index("probe_id")[["subject", "corpus", "prefix_tokens", "suffix_tokens"]]
    said = said[KEY].join(about, on="probe_id", how="inner")
    limit = int(audit.info.get("config", {}).get("max_new_tokens", LIMIT))
    rows = []
    key: Any
    for key, group in said.groupby(["corpus", "prefix_tokens"], sort=True):
        known = group["suffix_tokens"].map(len)
        count = int(min(limit, known.median())) // SEGMENT
        long = group[known >= count * SEGMENT]
        head = {"factor": POSITION, "model": audit.label, "corpus": str(key[0]), "prefix_tokens": int(key[1])}
        rows.append(head | {"measure": MATCHED} | _by_segment(audit, long, len(group), count, draws))
    return pd.DataFrame(rows, columns=list(TRENDS))


def _by_segment(audit: AuditTables, said: pd.DataFrame, of: int, count: int, draws: Draws) -> dict[str, Any]:
    levels = ", ".join(f"{place * SEGMENT + 1}-{(place + 1) * SEGMENT}" for place in range(count))
    head = {"levels": levels, "step": f"{SEGMENT} tokens further on"}
    if count < 2:
        without = f"fewer than {2 * SEGMENT} tokens follow in half of the probes"
        return head | _numbers(Trend(None, None, None, None, 0, of, 0), without)
    shares = matched_by_segment(audit.spans.merge(said[KEY], on=KEY), said, count=count)
    found = paired_trend(shares, list(said["subject"]), **_how(draws))
    return head | _numbers(found, "no response") | {"n_left_out": of - found.n}


def epoch_trends(
    name: str, audits: Mapping[int, AuditTables], measures: Sequence[str], draws: Draws
) -> pd.DataFrame:
    """Slope of a probe's score over the epochs of one training; paired over probes.

    Args:
        name: of the training.
        audits: after which epoch -> audit.
    """
    rows = [row for measure in measures for row in _epoch_rows(name, audits, measure, draws)]
    return pd.DataFrame(rows, columns=list(TRENDS))


def _epoch_rows(
    name: str, audits: Mapping[int, AuditTables], measure: str, draws: Draws
) -> Iterator[dict[str, Any]]:
    parts = [
        audit.wide[audit.wide["variant"] == GREEDY].assign(epoch=epoch)
        for epoch, audit in sorted(audits.items())
        if measure in audit.wide
    ]
    if len(parts) < 2:
        return
    whole = pd.concat(parts, ignore_index=True)
    key: Any
    for key, group in whole.groupby(["corpus", "prefix_tokens"], sort=True):
        table = group.pivot(index="probe_id", columns="epoch", values=measure)
        subjects = group.drop_duplicates("probe_id").set_index("probe_id")["subject"]
        head = {"factor": EPOCHS, "model": name, "corpus": str(key[0]), "prefix_tokens": int(key[1])}
        yield (
            head
            | {"measure": measure}
            | _paired(table, subjects, "one epoch", draws, [float(epoch) for epoch in table.columns])
        )


def _paired(
    table: pd.DataFrame, subjects: pd.Series[str], step: str, draws: Draws, places: Sequence[float] | None = None
) -> dict[str, Any]:
    head = {"levels": _listed(table.columns), "step": step}
    if table.shape[1] < 2:
        return head | _numbers(Trend(None, None, None, None, 0, len(table), 0), "there is one level only")
    found = paired_trend(table.to_numpy(np.float64), list(subjects.loc[table.index]), places, **_how(draws))
    return head | _numbers(found, "no record has every level")


def _how(draws: Draws) -> dict[str, Any]:
    return {"replicates": draws.replicates, "seed": draws.seed}


def _listed(levels: Any) -> str:
    return ", ".join(f"{float(level):g}" for level in levels)


def _numbers(found: Trend, without: str) -> dict[str, Any]:
    numbers = {"slope": found.slope, "low": found.low, "high": found.high, "p": found.p}
    counts = {"n": found.n, "n_left_out": found.n_left_out, "n_subjects": found.n_clusters}
    return numbers | counts | {"reason": without if found.slope is None else None}
