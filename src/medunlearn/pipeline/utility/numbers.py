"""From items and the harness's results to a table of numbers with intervals over items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.config import UtilitySettings
from medunlearn.pipeline.utility.found import UTILITY
from medunlearn.pipeline.utility.harness import Item, Result
from medunlearn.statistics.bootstrap import Estimate, resample_means

_SAME = 1e-9

Values = Mapping[tuple[str, str, str], Mapping[int, float | None]]
"""(task, metric, filter) -> item -> value."""


def item_table(items: Sequence[Item]) -> pd.DataFrame:
    """One row an item and metric: task, item, metric, filter, value (or null). No text."""
    columns = ["task", "item", "metric", "filter", "value"]
    rows = [(one.task, one.item, one.metric, one.filter, one.value) for one in items]
    return pd.DataFrame(rows, columns=columns).astype({"value": "Float64"})


def summary_table(items: Sequence[Item], results: Sequence[Result], settings: UtilitySettings) -> pd.DataFrame:
    """One row a task or group and metric, and a last one, ``utility``, for all that were named.

    Columns: name, metric, filter, counts (the row is a part of ``utility``), value (as the harness gives it), low,
    high (95%, bootstrap over items), stderr (the harness's), reason (why there is no value or no interval),
    n_scored, n_unscored, higher_is_better, version, shots.

    The interval is that of the mean over all items, and so is left out where the harness aggregates otherwise.
    """
    values: dict[tuple[str, str, str], dict[int, float | None]] = {}
    for one in items:
        values.setdefault((one.task, one.metric, one.filter), {})[one.item] = one.value
    counting = _that_count(results, settings)
    rows = [_row(one, one in counting, values, settings) for one in results]
    table = pd.DataFrame([*rows, _together(counting, values, settings)])
    numbers = dict.fromkeys(("value", "low", "high", "stderr"), "Float64")
    counts = dict.fromkeys(("n_scored", "n_unscored", "shots"), "Int64")
    return table.astype({**numbers, **counts, "reason": "string", "higher_is_better": "boolean"})


def _that_count(results: Sequence[Result], settings: UtilitySettings) -> list[Result]:
    """One number of each that was named: by the metric of the settings, or its first.

    A name that has no number of its own, such as a tag, stands for its tasks.
    """
    covered = {leaf for one in results if one.name in settings.tasks for leaf in one.leaves}
    named = {one.name for one in results if one.name in settings.tasks}
    loose = {one.name for one in results if one.leaves == (one.name,)} - covered
    found: dict[str, Result] = {}
    for one in results:
        if one.name in named | loose and settings.metric in (None, one.metric):
            found.setdefault(one.name, one)
    return list(found.values())


def _row(one: Result, counts: bool, values: Values, settings: UtilitySettings) -> dict[str, Any]:
    estimate = _estimate([one], values, settings)
    known = _known(one, values)
    same = estimate is not None and estimate.value is not None and abs(estimate.value - one.value) < _SAME
    return {
        "name": one.name,
        "metric": one.metric,
        "filter": one.filter,
        "counts": counts,
        "value": one.value,
        "low": estimate.low if estimate and same else None,
        "high": estimate.high if estimate and same else None,
        "stderr": one.stderr,
        "reason": None if same else "no interval: the task's number is no mean over its items",
        "n_scored": sum(value is not None for value in known.values()),
        "n_unscored": sum(value is None for value in known.values()),
        "higher_is_better": one.higher_is_better,
        "version": one.version,
        "shots": one.shots,
    }


def _together(counting: Sequence[Result], values: Values, settings: UtilitySettings) -> dict[str, Any]:
    """The plain mean of the numbers that count; none where one is no share that grows with utility."""
    row: dict[str, Any] = {"name": UTILITY, "metric": "", "filter": "", "counts": False, "version": ""}
    known = [value for one in counting for value in _known(one, values).values()]
    row |= {"n_scored": sum(v is not None for v in known), "n_unscored": sum(v is None for v in known)}
    why = _why_not(counting)
    if why:
        return row | {"reason": why}
    value = sum(one.value for one in counting) / len(counting)
    estimate = _estimate(counting, values, settings)
    same = estimate is not None and estimate.value is not None and abs(estimate.value - value) < _SAME
    row |= {"value": value, "higher_is_better": True}
    row |= {"metric": ", ".join(dict.fromkeys(one.metric for one in counting))}
    if estimate is None or not same:
        return row | {"reason": "no interval: a task's number is no mean over its items"}
    return row | {"low": estimate.low, "high": estimate.high, "reason": None}


def _why_not(counting: Sequence[Result]) -> str | None:
    if not counting:
        return "no task has a number that counts"
    for one in counting:
        if one.higher_is_better is False or not 0.0 <= one.value <= 1.0:
            return (
                f"{one.metric} of {one.name} is no share between 0 and 1 that is higher for more utility: set "
                "metric=, or name other tasks"
            )
    return None


def _known(one: Result, values: Values) -> dict[tuple[str, int], float | None]:
    """(task, item) -> value, of all tasks behind a number."""
    return {
        (leaf, item): value
        for leaf in one.leaves
        for item, value in values.get((leaf, one.metric, one.filter), {}).items()
    }


def _estimate(counting: Sequence[Result], values: Values, settings: UtilitySettings) -> Estimate | None:
    """The mean over numbers of the mean over each one's items, items drawn again; None without a scored item."""
    columns = [_known(one, values) for one in counting]
    places = sorted({place for column in columns for place in column})
    if not places or any(all(value is None for value in column.values()) for column in columns):
        return None
    cells = [column.get(place) for place in places for column in columns]
    table = np.array([np.nan if cell is None else cell for cell in cells]).reshape(len(places), len(columns))
    if np.isinf(table).any():
        return None
    clusters = [f"{task}/{item}" for task, item in places]
    drawn = resample_means(table, clusters, replicates=settings.replicates, seed=settings.seed)
    return drawn.estimate(range(len(columns)), lambda means: means.mean(axis=-1))
