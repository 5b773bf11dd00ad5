"""What a measurement of utility leaves on disk; read without torch and without the harness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from medunlearn.experiments.runs import Run

FOLDER = "utility"
ITEMS = "utility_items.parquet"
SUMMARY = "utility_summary.parquet"


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
        """As :func:`medunlearn.experiments.utility.numbers.item_table` gives them."""
        return pd.read_parquet(self.record.folder / ITEMS)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """As :func:`medunlearn.experiments.utility.numbers.summary_table` gives it."""
        return pd.read_parquet(self.record.folder / SUMMARY)

    @property
    def value(self) -> float | None:
        """The mean of the numbers that count, 0-1, higher = more useful; None where there is none."""
        value = self.summary.iloc[-1]["value"]
        return None if pd.isna(value) else float(value)

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


def utilities(models: Sequence[Utility]) -> pd.DataFrame:
    """The summaries of several models, with a column ``model``; empty of none."""
    tables = [one.summary.assign(model=one.run.label) for one in models]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
