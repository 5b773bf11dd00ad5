"""From scores of single questions to tables of means: pure functions of the score table.

Every number comes with how many questions are behind it, how many were left without a score, and an
interval over subjects. An empty group is null, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from medunlearn.data.records import Side
from medunlearn.results.composites import COMPOSITES, DEGRADATION, DEGRADATION_PART, degraded
from medunlearn.results.matrix import Group, groups, matrix, metric_names
from medunlearn.statistics import resample_means, resample_pairs
from medunlearn.statistics.bootstrap import REPLICATES, Statistic

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Line:
    """One row to be: a metric, or a composite of several.

    Attributes:
        name: what the row shows as its metric.
        columns: the columns of the group's values that it reads.
        parts: the metrics that a composite is made of; empty for a metric.
        statistic: how the columns' means combine; None for the mean itself.
    """

    name: str
    columns: tuple[int, ...]
    parts: tuple[str, ...] = ()
    statistic: Statistic | None = None


def summarize(
    scores: pd.DataFrame, items_meta: pd.DataFrame, *, replicates: int = REPLICATES, seed: int = 0
) -> pd.DataFrame:
    """Means and composites of one model's scores, with 95% intervals over subjects.

    Args:
        scores: as :func:`medunlearn.metrics.scoring.score` gives them: question_id, metric, value.
        items_meta: one row a question: question_id, subject, side, fold, kind. A question here that has no
            score counts as unscored.
        replicates: number of bootstrap draws of the subjects; all rows of a group share them.
        seed: of the draws.

    Returns:
        One row a side, fold, kind and metric, and ``kind="all"`` for the questions of all kinds together
        (each question counts once, so that it is no mean of the kinds' means):

        - ``side``, ``fold``, ``kind``, ``metric``. The composites are MU on retain, AFE and DS on forget
          (:mod:`medunlearn.results.composites`); with a part missing a composite carries its parts as name.
        - ``value``, ``low``, ``high``: Float64 in the metric's unit; null where there is none. A
          composite is made of the means in the rows above it, each over the questions that it has.
        - ``n_scored``, ``n_unscored``: questions; for a composite scored means scored on every part used.
        - ``n_subjects``: subjects behind the value; for a composite those of the part that has fewest.
        - ``parts``: of a composite, comma-separated; "" for a metric and for a composite without a part.
        - ``replicates_dropped``: draws that held no scored question and are not in the interval.

    Raises:
        InputError: a question and metric twice, a question not in ``items_meta``, a missing subject, a
            part of a composite outside [0, 1], and what else would make a number wrong.
    """
    metrics = metric_names(scores)
    found = list(groups(items_meta))
    values = matrix(scores, items_meta, metrics)
    rows = [
        row for group in found for row in _summarize_group(group, metrics, values[group.rows], replicates, seed)
    ]
    return _frame(rows, ("value", "low", "high"), ("n_scored", "n_unscored", "n_subjects"))


def _summarize_group(
    group: Group, metrics: Sequence[str], values: Array, replicates: int, seed: int
) -> list[dict[str, Any]]:
    values = _with_degradation(metrics, values)
    resampled = resample_means(values, group.subjects, replicates=replicates, seed=seed)
    rows: list[dict[str, Any]] = []
    for line in _lines(group.side, metrics, ~np.isnan(values)):
        row = _start(group, line)
        if line.columns:
            estimate = resampled.estimate(line.columns, line.statistic)
            row |= {"value": estimate.value, "low": estimate.low, "high": estimate.high}
            row |= {"n_scored": estimate.n, "n_unscored": len(values) - estimate.n}
            row |= {
                "n_subjects": estimate.n_clusters,
                "replicates_dropped": estimate.replicates_dropped,
            }
        else:
            row |= {"n_unscored": len(values)}
        rows.append(row)
    return rows


def compare(
    scores_a: pd.DataFrame,
    scores_b: pd.DataFrame,
    items_meta: pd.DataFrame,
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> pd.DataFrame:
    """Model a minus model b on the questions that both have a score for, paired on subjects.

    Args:
        scores_a, scores_b, items_meta, replicates, seed: as in :func:`summarize`.

    Returns:
        Rows as in :func:`summarize`, with

        - ``difference``: a - b in the metric's unit; ``low``, ``high``: its 95% interval; ``p``: two-sided
          bootstrap p-value (:class:`medunlearn.statistics.Difference` says how). Float64, null where there
          is none. p is of one comparison: nothing corrects it for the number of rows in the table.
        - ``n_pairs``: questions scored in both; for a composite, on every part used. ``n_dropped``: the
          group's other questions.
        - ``n_subjects``, ``parts``, ``replicates_dropped``: as in :func:`summarize`. A composite is made of
          the parts that both models have, each over its pairs.

    Raises:
        InputError: as :func:`summarize`, for either table.
    """
    metrics = metric_names(scores_a, scores_b)
    found = list(groups(items_meta))
    a, b = matrix(scores_a, items_meta, metrics), matrix(scores_b, items_meta, metrics)
    rows = [
        row
        for group in found
        for row in _compare_group(group, metrics, a[group.rows], b[group.rows], replicates, seed)
    ]
    return _frame(rows, ("difference", "low", "high", "p"), ("n_pairs", "n_subjects", "n_dropped"))


def _compare_group(
    group: Group, metrics: Sequence[str], a: Array, b: Array, replicates: int, seed: int
) -> list[dict[str, Any]]:
    a, b = _with_degradation(metrics, a), _with_degradation(metrics, b)
    pairs = resample_pairs(a, b, group.subjects, replicates=replicates, seed=seed)
    rows: list[dict[str, Any]] = []
    for line in _lines(group.side, metrics, ~(np.isnan(a) | np.isnan(b))):
        row = _start(group, line)
        if line.columns:
            found = pairs.difference(line.columns, line.statistic)
            row |= {"difference": found.difference, "low": found.low, "high": found.high, "p": found.p}
            row |= {"n_pairs": found.n_pairs, "n_dropped": len(a) - found.n_pairs}
            row |= {"n_subjects": found.n_clusters, "replicates_dropped": found.replicates_dropped}
        else:
            row |= {"n_dropped": len(a)}
        rows.append(row)
    return rows


def _lines(side: Side, metrics: Sequence[str], observed: npt.NDArray[np.bool_]) -> list[_Line]:
    """The rows of a group: its metrics, then the composites of its side, of parts that were observed."""
    lines = [_Line(name, (column,)) for column, name in enumerate(metrics)]
    available = {name: column for column, name in enumerate(metrics) if observed[:, column].any()}
    for composite in COMPOSITES:
        if composite.side == side:
            used = composite.used(available)
            columns = tuple(available[part] for part in used)
            lines.append(_Line(composite.shown_as(used), columns, used, composite.of))
    if side == "forget":
        there = DEGRADATION_PART in available
        lines.append(_Line(DEGRADATION, (len(metrics),) if there else (), (DEGRADATION_PART,) if there else ()))
    return lines


def _with_degradation(metrics: Sequence[str], values: Array) -> Array:
    """The values and one more column, last: whether each response has collapsed, the mean of which is DS."""
    if DEGRADATION_PART in metrics:
        collapsed = degraded(values[:, metrics.index(DEGRADATION_PART)])
    else:
        collapsed = np.full(len(values), np.nan)
    return np.column_stack([values, collapsed])


def _start(group: Group, line: _Line) -> dict[str, Any]:
    named = {"side": group.side, "fold": group.fold, "kind": group.kind, "metric": line.name}
    return named | {"parts": ",".join(line.parts)}


def _frame(rows: list[dict[str, Any]], numbers: tuple[str, ...], counts: tuple[str, ...]) -> pd.DataFrame:
    """A table with fixed columns and types, also of no rows; a number that a row lacks is null, a count 0."""
    columns: dict[str, Any] = {
        name: pd.Series([row[name] for row in rows], dtype="str") for name in ("side", "fold", "kind", "metric")
    }
    for name in numbers:
        columns[name] = pd.array([row.get(name) for row in rows], dtype="Float64")
    for name in (*counts, "replicates_dropped"):
        columns[name] = pd.Series([row.get(name, 0) for row in rows], dtype="int64")
    columns["parts"] = pd.Series([row["parts"] for row in rows], dtype="str")
    return pd.DataFrame(columns)
