"""Numbers of a utility measurement, with intervals over items; read without torch and the harness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from medunlearn.config import UtilitySettings
from medunlearn.data.storage import read_frame
from medunlearn.models.health import banner
from medunlearn.reports.view import ResultView, model_tables, sentence
from medunlearn.results.runs import Run
from medunlearn.results.scores import COLUMNS, read_scores
from medunlearn.statistics import Estimate, resample_means
from medunlearn.statistics.intervals import UNBOUNDED, UNIT

FOLDER = "utility"
SUMMARY = "utility_summary.parquet"
UTILITY = "utility"
"""Name of the row that stands for all tasks that were named: the plain mean of their numbers that count."""
_SAME = 1e-9
_COLUMNS = (
    "name metric filter value stderr higher_is_better version shots counts reason low high n_scored n_unscored"
)
Values = dict[tuple[str, str, str], dict[tuple[str, int], float | None]]
"""(task, metric, filter) -> (task, item) -> value."""


class TaskItem(NamedTuple):
    """One item of a task, by one metric; without a value if the metric is not defined per item."""

    task: str
    item: int
    metric: str
    filter: str
    value: float | None


class Result(NamedTuple):
    """A number of a task or a group, as returned by the harness.

    Attributes:
        leaves: the tasks of the group, or the task itself.
        stderr: the harness's standard error; None if it gives none.
        higher_is_better: None if the task does not say.
        shots: examples in the prompt; None if the tasks of a group differ.
    """

    name: str
    leaves: tuple[str, ...]
    metric: str
    filter: str
    value: float
    stderr: float | None
    higher_is_better: bool | None
    version: str
    shots: int | None


@dataclass(frozen=True)
class Utility:
    """Utility of a run's model; ``record`` is the measurement's run, in a folder below it."""

    run: Run
    record: Run

    @staticmethod
    def find(run: Run) -> Utility | None:
        """The latest complete measurement in a run's folder; None if there is none."""
        records = run.complete_below(FOLDER)
        return Utility(run, records[-1]) if records else None

    @cached_property
    def items(self) -> pd.DataFrame:
        """Score table: item and subject (``task/number``), measure, value, reason, task, filter. No text."""
        return read_scores(self.record.folder)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """The table of :func:`summary_table`."""
        return read_frame(self.record.folder / SUMMARY, ("name", "value", "reason"))

    @property
    def value(self) -> float | None:
        """The mean of the main numbers, 0-1, higher = more useful; None if there is none."""
        value = self.summary.iloc[-1]["value"]
        return None if pd.isna(value) else float(value)

    @property
    def reason(self) -> str:
        """Reason why there is no value; empty if there is one."""
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
    """Models with the same measurement settings: first the model in question."""

    models: tuple[Utility, ...]

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """Label of each model -> why it is broken; healthy models have no entry."""
        return {model.run.label: model.record.info.problems for model in self.models}

    def table(self) -> pd.DataFrame:
        """One row per model, task or group, and metric, and ``utility`` over all named tasks."""
        return utilities(self.models)

    def view(self) -> ResultView:
        """The main metric of each task, a column per model, and ``utility`` last; the files contain the others."""
        table, labels = self.table(), [model.run.label for model in self.models]
        data = {"table": table, "health": self.problems}
        main = table[table["counts"] | (table["name"] == UTILITY)].rename(columns={"name": "task"})
        main = main.assign(about=self.models[0].description)
        how: dict[str, Any] = {"counts": lambda row: str(row["n_scored"]), "empty_lines": True}
        tables = model_tables(main, ("about",), ("task", "metric"), "Utility: {}".format, labels, **how)
        reasons = (f"{sentence(reason)}." for reason in dict.fromkeys(main["reason"].dropna()))
        return ResultView(data, (*tables, *reasons), banner(self.problems))


def gather_utility(runs: Sequence[Run]) -> pd.DataFrame:
    """For a report: the main rows, and ``utility``, of each measured run.

    Models with other tasks or settings than the first are skipped, since their numbers are not comparable.
    """
    models = [replace(model, run=run) for run in runs if (model := Utility.find(run)) is not None]
    table = utilities([model for model in models if model.comparability_key == models[0].comparability_key])
    return table[table["counts"] | (table["name"] == UTILITY)].reset_index(drop=True) if len(table) else table


def utilities(models: Sequence[Utility]) -> pd.DataFrame:
    """The summaries of several models, with a column ``model``; empty without models."""
    tables = [model.summary.assign(model=model.run.label) for model in models]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def item_scores(items: Sequence[TaskItem]) -> pd.DataFrame:
    """Rows of the score table; each item of a task is its own subject. No text."""
    table = pd.DataFrame(items, columns=list(TaskItem._fields)).rename(columns={"metric": "measure"})
    value = pd.to_numeric(table["value"])
    finite = np.isfinite(value)
    table["item"] = table["subject"] = table["task"] + "/" + table["item"].astype(str)
    table["reason"] = np.where(value.isna(), "the metric gives an item no single number", "the number is infinite")
    table["value"], table["reason"] = value.where(finite), table["reason"].mask(finite, None)
    return table[[*COLUMNS, "task", "filter"]]


def summary_table(items: Sequence[TaskItem], results: Sequence[Result], settings: UtilitySettings) -> pd.DataFrame:
    """One row per task or group and metric, and a last one, ``utility``, over all named tasks.

    Columns: name, metric, filter, counts (the row is part of ``utility``), value (from the harness), low, high
    (95%, bootstrap over items), stderr (the harness's), reason (for a missing value or interval), n_scored,
    n_unscored, higher_is_better, version, shots.

    The interval is that of the mean over all items, so it is missing if the harness aggregates otherwise.
    """
    values: Values = {}
    for item in items:
        values.setdefault((item.task, item.metric, item.filter), {})[item.task, item.item] = item.value
    counting = _main_numbers(results, settings)
    rows = [
        {
            **{name: getattr(result, name) for name in ("name", "metric", "filter", "stderr", "version", "shots")},
            "higher_is_better": result.higher_is_better,
            "counts": result in counting,
            **_numbers([result], "the task's", values, settings),
        }
        for result in results
    ]
    # The plain mean of the numbers that count; none where one is not a share that grows with utility.
    problem = _problem(counting)
    overall = {"name": UTILITY, "metric": "", "filter": "", "counts": False, "version": ""}
    if problem is None:
        overall |= {"metric": ", ".join(dict.fromkeys(result.metric for result in counting))}
        overall |= {"higher_is_better": True, **_numbers(counting, "a task's", values, settings)}
    else:
        overall |= {"reason": problem, **_counts(counting, values)}
    table = pd.DataFrame([*rows, overall], columns=_COLUMNS.split())
    numbers = dict.fromkeys(("value", "low", "high", "stderr"), "Float64")
    counts = dict.fromkeys(("n_scored", "n_unscored", "shots"), "Int64")
    return table.astype({**numbers, **counts, "reason": "string", "higher_is_better": "boolean"})


def _main_numbers(results: Sequence[Result], settings: UtilitySettings) -> list[Result]:
    """The main number for each name in the settings: by the settings' metric, or the first one.

    A name without its own number, such as a tag, stands for its tasks.
    """
    covered = {leaf for result in results if result.name in settings.tasks for leaf in result.leaves}
    task_names = {result.name for result in results if result.name in settings.tasks}
    loose = {result.name for result in results if result.leaves == (result.name,)} - covered
    numbers: dict[str, Result] = {}
    for result in results:
        if result.name in task_names | loose and settings.metric in (None, result.metric):
            numbers.setdefault(result.name, result)
    return list(numbers.values())


def _problem(counting: Sequence[Result]) -> str | None:
    for result in counting:
        if result.higher_is_better is False or not 0.0 <= result.value <= 1.0:
            name = f"{result.metric} of {result.name}"
            return f"{name} is no share between 0 and 1, higher = more useful: set metric=, or name other tasks"
    return None if counting else "no task has a number that counts"


def _columns(counting: Sequence[Result], values: Values) -> list[dict[tuple[str, int], float | None]]:
    """(task, item) -> value, for all tasks of each number."""
    return [
        {key: value for leaf in r.leaves for key, value in values.get((leaf, r.metric, r.filter), {}).items()}
        for r in counting
    ]


def _counts(counting: Sequence[Result], values: Values) -> dict[str, int]:
    scores = [value for column in _columns(counting, values) for value in column.values()]
    n_unscored = sum(value is None for value in scores)
    return {"n_scored": len(scores) - n_unscored, "n_unscored": n_unscored}


def _numbers(counting: Sequence[Result], whose: str, values: Values, settings: UtilitySettings) -> dict[str, Any]:
    """Mean of numbers, with an interval if it equals the mean over items."""
    value = sum(result.value for result in counting) / len(counting)
    estimate = _estimate(_columns(counting, values), settings)
    numbers = {"value": value, "reason": f"no interval: {whose} number is no mean over its items"}
    if estimate is not None and estimate.value is not None and abs(estimate.value - value) < _SAME:
        numbers |= {"low": estimate.low, "high": estimate.high, "reason": None}
    return numbers | _counts(counting, values)


def _estimate(
    columns: Sequence[Mapping[tuple[str, int], float | None]], settings: UtilitySettings
) -> Estimate | None:
    """Mean over numbers of the mean over their items, with bootstrap over items."""
    keys = sorted({key for column in columns for key in column})
    if not keys or any(all(number is None for number in column.values()) for column in columns):
        return None
    numbers = [column.get(key) for key in keys for column in columns]
    table = np.array([np.nan if number is None else number for number in numbers]).reshape(len(keys), len(columns))
    if np.isinf(table).any():
        return None
    clusters = [f"{task}/{item}" for task, item in keys]
    draws = resample_means(table, clusters, replicates=settings.replicates, seed=settings.seed)
    if len(columns) == 1:
        return draws.estimate([0])
    bounds = UNIT if draws.unit.all() else UNBOUNDED
    return draws.estimate(range(len(columns)), lambda means: means.mean(axis=-1), bounds=bounds)
