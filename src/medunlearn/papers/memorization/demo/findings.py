"""What the demo's audits say of each statement: a number, its interval over texts, and whether it holds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.audit.tables import AuditTables
from medunlearn.papers.memorization.compare.ratios import Draws
from medunlearn.papers.memorization.compare.trends import position_trends
from medunlearn.statistics import paired_difference
from medunlearn.statistics.bootstrap import Observations, interval, resample_together

MEASURE = "run_30"
TRAINED, UNSEEN = "trained", "unseen"
COLUMNS = ("statement", "difference", "low", "high", "n", "verdict")


def findings(half: AuditTables, whole: AuditTables, lasting: pd.DataFrame, draws: Draws) -> pd.DataFrame:
    """One row a statement: statement, difference (above 0 where it is true), low, high, n texts, verdict.

    Args:
        half, whole: audits after half and all epochs.
        lasting: Table 7 of the trained model and the further fine-tuned one.
    """
    rows = [
        *_by_copies(whole, draws),
        _by_prefix(whole, draws),
        _by_epoch(half, whole, draws),
        *_by_position(whole, draws),
        *_persisting(lasting),
    ]
    told = [{**row, "verdict": _verdict(row["low"], row["high"])} for row in rows]
    return pd.DataFrame(told, columns=list(COLUMNS))


def _by_copies(whole: AuditTables, draws: Draws) -> Iterator[dict[str, Any]]:
    values = _values(whole)
    levels = sorted(int(one) for one in values["copies"].unique())
    for fewer, more in itertools.pairwise(levels):
        tables = [
            Observations(part[[MEASURE]].to_numpy(np.float64), part["subject"].tolist())
            for part in (values[values["copies"] == many] for many in (more, fewer))
        ]
        first, second = resample_together(tables, replicates=draws.replicates, seed=draws.seed)
        gaps = (first.draws - second.draws)[:, 0]
        low, high = interval(gaps[~np.isnan(gaps)], 0.95)
        yield {
            "statement": f"{MEASURE}: {_copies(more)} more than {_copies(fewer)}",
            "difference": float(first.point[0] - second.point[0]),
            "low": low,
            "high": high,
            "n": int(first.n_clusters[0] + second.n_clusters[0]),
        }


def _by_prefix(whole: AuditTables, draws: Draws) -> dict[str, Any]:
    seen = _seen(whole)
    table = seen.pivot_table(index="record_id", columns="prefix_tokens", values=MEASURE)
    shorter, longer = table.columns.min(), table.columns.max()
    statement = f"{MEASURE}: prefix of {longer} more than of {shorter}"
    return {"statement": statement, **_paired(table[longer], table[shorter], draws)}


def _by_epoch(half: AuditTables, whole: AuditTables, draws: Draws) -> dict[str, Any]:
    before, after = (_seen(one).groupby("record_id")[MEASURE].mean() for one in (half, whole))
    statement = f"{MEASURE}: all epochs more than half"
    return {"statement": statement, **_paired(after, before.reindex(after.index), draws)}


def _by_position(whole: AuditTables, draws: Draws) -> Iterator[dict[str, Any]]:
    for row in _longest(position_trends(whole, draws)):
        # A fall is a slope below 0; turned round, so that above 0 is for the statement as everywhere.
        low, high = (None if pd.isna(row[name]) else -row[name] for name in ("high", "low"))
        yield {
            "statement": f"memorized tokens fall a segment further on (prefix of {row['prefix_tokens']})",
            "difference": None if pd.isna(row["slope"]) else -row["slope"],
            "low": low,
            "high": high,
            "n": row["n_subjects"],
        }


def _persisting(lasting: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for row in _longest(lasting[lasting["measure"] == "common"]):
        moved = {name: None if pd.isna(row[name]) else row[name] - 0.5 for name in ("value", "low", "high")}
        statement = f"common over the union above a half, run_{row['at_least']} (prefix of {row['prefix_tokens']})"
        edges = {"low": moved["low"], "high": moved["high"]}
        yield {"statement": statement, "difference": moved["value"], **edges, "n": row["n_subjects"]}


def _longest(table: pd.DataFrame) -> list[dict[Any, Any]]:
    """Rows of the texts trained on at the longest prefix, where most is memorized; the tables have all of them."""
    own = table[table["corpus"] == TRAINED]
    rows: list[dict[Any, Any]] = own[own["prefix_tokens"] == own["prefix_tokens"].max()].to_dict("records")
    return rows


def _verdict(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "not measurable"
    return "holds" if low > 0 else "does not hold" if high < 0 else "open"


def _values(audit: AuditTables) -> pd.DataFrame:
    return audit.wide[audit.wide[MEASURE].notna()]


def _seen(audit: AuditTables) -> pd.DataFrame:
    values = _values(audit)
    return values[values["copies"] > 0]


def _copies(many: int) -> str:
    return "unseen" if not many else f"{many} {'copy' if many == 1 else 'copies'}"


def _paired(one: pd.Series[float], other: pd.Series[float], draws: Draws) -> Mapping[str, Any]:
    how: dict[str, Any] = {"replicates": draws.replicates, "seed": draws.seed}
    found = paired_difference(one.to_numpy(), other.to_numpy(), [str(name) for name in one.index], **how)
    return {"difference": found.difference, "low": found.low, "high": found.high, "n": found.n_clusters}
