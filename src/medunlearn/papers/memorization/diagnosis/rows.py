"""Rows of the table of epochs for measures that are of no split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from medunlearn.statistics.bootstrap import Estimate


def row_of(measure: str, metric: str, estimate: Estimate, *, fold: str = "", unscored: int = 0) -> dict[str, Any]:
    """One row: what the number is called, the number with its interval, and how much is behind it.

    Args:
        fold: of the questions or records behind it, where the same measure is taken on several.
        unscored: how many have no score.
    """
    return {
        "level": "",
        "node": "",
        "measure": measure,
        "side": "",
        "fold": fold,
        "kind": "",
        "metric": metric,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n_scored": estimate.n,
        "n_unscored": unscored,
        "n_subjects": estimate.n_clusters,
        "replicates_dropped": estimate.replicates_dropped,
        "parts": "",
    }


def table_of(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Rows as the table of epochs keeps them."""
    table = pd.DataFrame(list(rows))
    return table.astype(dict.fromkeys(("value", "low", "high"), "Float64"))
