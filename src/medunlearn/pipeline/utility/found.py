"""What a measurement of utility leaves on disk; read without torch and without the harness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from medunlearn.results.runs import Run

FOLDER = "utility"
ITEMS = "utility_items.parquet"
SUMMARY = "utility_summary.parquet"
UTILITY = "utility"
"""Name of the row that stands for all tasks that were named: the plain mean of their numbers that count."""


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
        """The complete measurement in a run's folder that was asked for last; None where there is none."""
        found = run.complete_below(FOLDER)
        return Utility(run, found[-1]) if found else None

    @cached_property
    def items(self) -> pd.DataFrame:
        """As :func:`medunlearn.pipeline.utility.numbers.item_table` gives them."""
        return pd.read_parquet(self.record.folder / ITEMS)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """As :func:`medunlearn.pipeline.utility.numbers.summary_table` gives it."""
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
    def asked(self) -> tuple[Any, ...]:
        """What numbers must have in common to stand beside each other."""
        config, harness = self.record.info["config"], self.record.info["inputs"]
        keys = ("tasks", "fewshot", "limit", "metric", "chat", "seed")
        return (harness["lm-eval"], harness.get("include"), *(config[key] for key in keys))

    @property
    def about(self) -> str:
        """What was asked, in words: the tasks, examples, items."""
        config = self.record.info["config"]
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
    """For a report: the rows that count, and ``utility``, of each run that was measured; those asked alike.

    Models that were asked something else than the first of them, or less of it, are left out: their numbers do not
    stand beside each other.
    """
    found = [replace(one, run=run) for run in runs if (one := Utility.find(run)) is not None]
    alike = [one for one in found if one.asked == found[0].asked]
    table = utilities(alike)
    return table[table["counts"] | (table["name"] == UTILITY)].reset_index(drop=True) if len(table) else table


def utilities(models: Sequence[Utility]) -> pd.DataFrame:
    """The summaries of several models, with a column ``model``; empty of none."""
    tables = [one.summary.assign(model=one.run.label) for one in models]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
