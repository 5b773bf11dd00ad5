"""Regenerated answer options by model and prompt, and against baselines; from ``options.parquet`` of audits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from medunlearn.audit.tables import AuditTables
from medunlearn.papers.memorization.compare.ratios import Draws
from medunlearn.statistics.bootstrap import resample_means
from medunlearn.statistics.paired import resample_pairs

MATCHES = ("exact", "relaxed")
OPTIONS = ("model", "prompt", "match", "value", "low", "high", "n_scored", "n_unscored", "n_questions", "reason")
OPTION_DIFFERENCES = (
    *("model", "against", "prompt", "match"),
    *("difference", "low", "high", "p", "n_pairs", "n_questions"),
)
_PAIR = ["question_id", "prompt", "removed"]


def option_table(audit: AuditTables, draws: Draws) -> pd.DataFrame:
    """Share of removed options that the model gave back, by prompt; intervals over questions."""
    if audit.options is None:
        return pd.DataFrame(columns=list(OPTIONS))
    rows = []
    for prompt, group in audit.options.groupby("prompt", sort=True):
        resampled = resample_means(
            _values(group), list(group["question_id"]), replicates=draws.replicates, seed=draws.seed
        )
        for place, match in enumerate(MATCHES):
            found = resampled.estimate([place])
            counts = {"n_scored": found.n, "n_unscored": len(group) - found.n, "n_questions": found.n_clusters}
            reasons = group["reason"].dropna().value_counts()
            reason = (str(reasons.index[0]) if len(reasons) else "no answer") if found.value is None else None
            numbers = {"value": found.value, "low": found.low, "high": found.high}
            rows.append(
                {"model": audit.label, "prompt": prompt, "match": match} | numbers | counts | {"reason": reason}
            )
    return pd.DataFrame(rows, columns=list(OPTIONS))


def option_differences(first: AuditTables, second: AuditTables, draws: Draws) -> pd.DataFrame:
    """One model minus another, paired on question, prompt and removed option; intervals over questions."""
    if first.options is None or second.options is None:
        return pd.DataFrame(columns=list(OPTION_DIFFERENCES))
    both = first.options.merge(second.options, on=_PAIR, suffixes=("", "_2"))
    rows: list[dict[str, Any]] = []
    for prompt, group in both.groupby("prompt", sort=True):
        pairs = resample_pairs(
            _values(group),
            _values(group, "_2"),
            list(group["question_id"]),
            replicates=draws.replicates,
            seed=draws.seed,
        )
        for place, match in enumerate(MATCHES):
            found = pairs.difference([place])
            numbers = {"difference": found.difference, "low": found.low, "high": found.high, "p": found.p}
            counts = {"n_pairs": found.n_pairs, "n_questions": found.n_clusters}
            who = {"model": first.label, "against": second.label, "prompt": prompt, "match": match}
            rows.append(who | numbers | counts)
    return pd.DataFrame(rows, columns=list(OPTION_DIFFERENCES))


def _values(table: pd.DataFrame, end: str = "") -> Any:
    """Exact and relaxed match as 0, 1, or NaN where unscored, shape [n, 2]."""
    columns = [pd.to_numeric(table[f"{match}{end}"].astype(object), errors="coerce") for match in MATCHES]
    return np.stack([column.to_numpy(np.float64, na_value=np.nan) for column in columns], axis=1)
