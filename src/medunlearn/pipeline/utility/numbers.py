"""Numbers of a measurement of utility, with intervals over items; read without torch and without the harness."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from medunlearn.config import UtilitySettings
from medunlearn.results.runs import Run
from medunlearn.results.scores import COLUMNS, read_scores
from medunlearn.statistics.bootstrap import Estimate, resample_means

if TYPE_CHECKING:
    from medunlearn.pipeline.utility.harness import Item, Result

FOLDER = "utility"
SUMMARY = "utility_summary.parquet"
UTILITY = "utility"
"""Name of the row that stands for all tasks that were named: the plain mean of their numbers that count."""
_SAME = 1e-9
Values = Mapping[tuple[str, str, str], Mapping[int, float | None]]
"""(task, metric, filter) -> item -> value."""


@dataclass(frozen=True)
class Utility:
    """One model's utility.

    Attributes:
        run: the run whose model it is.
        record: the measurement's own run, in a folder below it.
    """

    run: Run
    record: Run

    @staticmethod
    def find(run: Run) -> Utility | None:
        """The latest complete measurement in a run's folder; None where there is none."""
        records = run.complete_below(FOLDER)
        return Utility(run, records[-1]) if records else None

    @cached_property
    def items(self) -> pd.DataFrame:
        """Score table: item and subject (``task/number``), measure, value, reason, task, filter. No text."""
        return read_scores(self.record.folder)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """As :func:`summary_table` gives it."""
        return pd.read_parquet(self.record.folder / SUMMARY)

    @property
    def value(self) -> float | None:
        """The mean of the numbers that count, 0-1, higher = more useful; None where there is none."""
        value = self.summary.iloc[-1]["value"]
        return None if pd.isna(value) else float(value)

    @property
    def reason(self) -> str:
        """Why there is no value; empty where there is one."""
        return "" if self.value is not None else str(self.summary.iloc[-1]["reason"])

    @property
    def comparability_key(self) -> tuple[Any, ...]:
        """Settings that must match for two results to be compared."""
        config, harness = self.record.info.config, self.record.info.inputs
        keys = ("tasks", "fewshot", "limit", "metric", "chat", "seed")
        return (harness["lm-eval"], harness.get("include"), *(config[key] for key in keys))

    @property
    def description(self) -> str:
        """Tasks, examples in the prompt, and number of items, in words."""
        config = self.record.info.config
        shots = "" if config["fewshot"] is None else f", {config['fewshot']} examples"
        limit = "" if config["limit"] is None else f", the first {config['limit']} items of each"
        return f"{', '.join(config['tasks'])}{shots}{limit}"


@dataclass(frozen=True)
class Utilities:
    """Models measured in the same way: the one in question first."""

    models: tuple[Utility, ...]

    def table(self) -> pd.DataFrame:
        """One row a model, task or group, and metric, and ``utility`` for all tasks that were named."""
        return utilities(self.models)


def gather_utility(runs: Sequence[Run]) -> pd.DataFrame:
    """For a report: the rows that count, and ``utility``, of each run that was measured.

    Models with other tasks or settings than the first of them are left out: their numbers cannot be compared.
    """
    models = [replace(model, run=run) for run in runs if (model := Utility.find(run)) is not None]
    table = utilities([model for model in models if model.comparability_key == models[0].comparability_key])
    return table[table["counts"] | (table["name"] == UTILITY)].reset_index(drop=True) if len(table) else table


def utilities(models: Sequence[Utility]) -> pd.DataFrame:
    """The summaries of several models, with a column ``model``; empty of none."""
    tables = [model.summary.assign(model=model.run.label) for model in models]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def item_scores(items: Sequence[Item]) -> pd.DataFrame:
    """Rows of the score table; each item of a task is a subject of its own. No text."""
    return pd.DataFrame([_item_row(item) for item in items], columns=[*COLUMNS, "task", "filter"])


def _item_row(item: Item) -> dict[str, Any]:
    value = item.value if item.value is not None and math.isfinite(item.value) else None
    reason = "the metric gives an item no single number" if item.value is None else "the number is infinite"
    name = f"{item.task}/{item.item}"
    return {
        "item": name,
        "subject": name,
        "measure": item.metric,
        "value": value,
        "reason": reason if value is None else None,
        "task": item.task,
        "filter": item.filter,
    }


def summary_table(items: Sequence[Item], results: Sequence[Result], settings: UtilitySettings) -> pd.DataFrame:
    """One row a task or group and metric, and a last one, ``utility``, for all that were named.

    Columns: name, metric, filter, counts (the row is a part of ``utility``), value (as the harness gives it), low,
    high (95%, bootstrap over items), stderr (the harness's), reason (why there is no value or no interval),
    n_scored, n_unscored, higher_is_better, version, shots.

    The interval is that of the mean over all items, and so is left out where the harness aggregates otherwise.
    """
    values: dict[tuple[str, str, str], dict[int, float | None]] = {}
    for item in items:
        values.setdefault((item.task, item.metric, item.filter), {})[item.item] = item.value
    counting = _counting(results, settings)
    rows = [_row(result, result in counting, values, settings) for result in results]
    table = pd.DataFrame([*rows, _overall_row(counting, values, settings)])
    numbers = dict.fromkeys(("value", "low", "high", "stderr"), "Float64")
    counts = dict.fromkeys(("n_scored", "n_unscored", "shots"), "Int64")
    return table.astype({**numbers, **counts, "reason": "string", "higher_is_better": "boolean"})


def _counting(results: Sequence[Result], settings: UtilitySettings) -> list[Result]:
    """One number of each name in the settings: by the metric of the settings, or its first.

    A name that has no number of its own, such as a tag, stands for its tasks.
    """
    covered = {leaf for result in results if result.name in settings.tasks for leaf in result.leaves}
    named = {result.name for result in results if result.name in settings.tasks}
    loose = {result.name for result in results if result.leaves == (result.name,)} - covered
    numbers: dict[str, Result] = {}
    for result in results:
        if result.name in named | loose and settings.metric in (None, result.metric):
            numbers.setdefault(result.name, result)
    return list(numbers.values())


def _row(result: Result, counts: bool, values: Values, settings: UtilitySettings) -> dict[str, Any]:
    estimate = _estimate([result], result.value, values, settings)
    reason = None if estimate else "no interval: the task's number is no mean over its items"
    facts = ("name", "metric", "filter", "value", "stderr", "higher_is_better", "version", "shots")
    return {
        **{name: getattr(result, name) for name in facts},
        "counts": counts,
        "reason": reason,
        **_bounds(estimate),
        **_n_scored([result], values),
    }


def _overall_row(counting: Sequence[Result], values: Values, settings: UtilitySettings) -> dict[str, Any]:
    """The plain mean of the numbers that count; none where one is no share that grows with utility."""
    row: dict[str, Any] = {"name": UTILITY, "metric": "", "filter": "", "counts": False, "version": ""}
    row |= _n_scored(counting, values)
    if problem := _problem(counting):
        return row | {"reason": problem}
    value = sum(result.value for result in counting) / len(counting)
    row |= {"value": value, "higher_is_better": True}
    row |= {"metric": ", ".join(dict.fromkeys(result.metric for result in counting))}
    estimate = _estimate(counting, value, values, settings)
    reason = None if estimate else "no interval: a task's number is no mean over its items"
    return row | _bounds(estimate) | {"reason": reason}


def _bounds(estimate: Estimate | None) -> dict[str, float | None]:
    return {"low": estimate.low, "high": estimate.high} if estimate else {"low": None, "high": None}


def _n_scored(results: Sequence[Result], values: Values) -> dict[str, int]:
    known = [value for result in results for value in _item_values(result, values).values()]
    n_unscored = sum(value is None for value in known)
    return {"n_scored": len(known) - n_unscored, "n_unscored": n_unscored}


def _problem(counting: Sequence[Result]) -> str | None:
    if not counting:
        return "no task has a number that counts"
    for result in counting:
        if result.higher_is_better is False or not 0.0 <= result.value <= 1.0:
            name = f"{result.metric} of {result.name}"
            return f"{name} is no share between 0 and 1, higher = more useful: set metric=, or name other tasks"
    return None


def _item_values(result: Result, values: Values) -> dict[tuple[str, int], float | None]:
    """(task, item) -> value, of all tasks behind a number."""
    return {
        (leaf, item): value
        for leaf in result.leaves
        for item, value in values.get((leaf, result.metric, result.filter), {}).items()
    }


def _estimate(
    counting: Sequence[Result], value: float, values: Values, settings: UtilitySettings
) -> Estimate | None:
    """Mean over numbers of the mean over each one's items, items drawn again; None if it is not the value given."""
    columns = [_item_values(result, values) for result in counting]
    keys = sorted({key for column in columns for key in column})
    if not keys or any(all(number is None for number in column.values()) for column in columns):
        return None
    numbers = [column.get(key) for key in keys for column in columns]
    table = np.array([np.nan if number is None else number for number in numbers]).reshape(len(keys), len(columns))
    if np.isinf(table).any():
        return None
    clusters = [f"{task}/{item}" for task, item in keys]
    draws = resample_means(table, clusters, replicates=settings.replicates, seed=settings.seed)
    estimate = draws.estimate(range(len(columns)), lambda means: means.mean(axis=-1))
    return estimate if estimate.value is not None and abs(estimate.value - value) < _SAME else None
