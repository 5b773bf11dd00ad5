"""Objective of a trial, lower is better: the distance of a model from the goal on three axes.

On one fold and half of the subjects: *utility* (MU's scored parts on retain), *forgetting* (AFE's on forget) and
*ranks* (share of the forget set's facts that rank first among alternatives), each 0-1.

- With a retrained model: root of the mean squared difference to it over the axes, 0-1, 0 = as the retrained model.
  It is two-sided: a model that ranks the forgotten facts lower than a stranger's reveals their removal.
- Without one: distance of the share ranked first from the level of unseen subjects, 0-1, for models above the floor
  of utility; a model below has 1 plus its deficit, which is worse than every model above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from math import sqrt
from typing import Any

import pandas as pd

from medunlearn.config import Axis
from medunlearn.results.fact_table import least_p
from medunlearn.results.matrix import ALL_KINDS
from medunlearn.study.sweep.rate_search import FORGETTING, UTILITY, composite_value

WORST = 2.0
"""For the sampler, of a trial that has no number: no objective is above it."""
RANKS = "ranked_first"


@dataclass(frozen=True)
class AxisValues:
    """A model's numbers on the axes, 0-1; None for unscored ones."""

    utility: float | None = None
    forgetting: float | None = None
    ranks: float | None = None

    @classmethod
    def of(cls, summary: pd.DataFrame, fold: str) -> AxisValues:
        """Axis values from an evaluation's summary, or from one epoch's rows of ``epochs.parquet``."""
        rows = summary[summary["node"].fillna("") == ""] if "node" in summary else summary
        place = (rows["measure"] == RANKS) & (rows["side"] == "forget") & (rows["fold"] == fold)
        shares = rows[place & (rows["kind"] == ALL_KINDS)]["value"].dropna()
        return cls(
            composite_value(rows, UTILITY, fold)[0],
            composite_value(rows, FORGETTING, fold)[0],
            float(shares.iloc[0]) if len(shares) else None,
        )

    def missing(self, axes: Sequence[Axis]) -> list[Axis]:
        """Axes without a number."""
        return [axis for axis in axes if getattr(self, axis) is None]

    def facts(self) -> dict[str, float | None]:
        return asdict(self)


AXES = tuple(field.name for field in fields(AxisValues))


@dataclass(frozen=True)
class TuneObjective:
    """The distance of a model from the goal.

    Attributes:
        fold: fold of the evaluation.
        axes: axes of the distance to the retrained model.
        goal: the retrained model's values; None without one.
        floor, level: without a retrained model: the least utility, and the share ranked first for unseen subjects.
    """

    fold: str
    axes: tuple[Axis, ...]
    goal: AxisValues | None = None
    floor: float = 0.0
    level: float = 0.0

    @property
    def needs(self) -> tuple[Axis, ...]:
        """Axes on which a model must have a value."""
        return self.axes if self.goal else ("utility", "ranks")

    def of(self, standing: AxisValues) -> float | None:
        """The objective; None if a required value is missing."""
        if standing.missing(self.needs):
            return None
        if self.goal is not None:
            gaps = [getattr(standing, axis) - getattr(self.goal, axis) for axis in self.axes]
            return sqrt(sum(gap * gap for gap in gaps) / len(gaps))
        assert standing.utility is not None
        assert standing.ranks is not None
        if standing.utility < self.floor:
            return 1.0 + self.floor - standing.utility
        return abs(standing.ranks - self.level)

    def words(self) -> str:
        """Description in a sentence."""
        if self.goal is not None:
            names = ", ".join(self.axes)
            return f"distance to the retrained model over {names} (root mean square, fold {self.fold}); 0 is none"
        return (
            f"distance of the share of forgotten facts ranked first from {self.level:.3f}, the level of unseen "
            f"subjects, with utility at least {self.floor:.3f} (fold {self.fold}); 1 and more: below that floor"
        )

    def facts(self) -> dict[str, Any]:
        return asdict(self) | {"words": self.words()}


def level_of_unseen(facts: pd.DataFrame, fold: str) -> float | None:
    """Expected share of facts ranked first by a model that knows none of the forget set's facts, 0-1.

    It is the mean chance per fact for exchangeable alternatives. A model that knows common values ranks somewhat
    more of them first.

    Args:
        facts: facts of an evaluation (:func:`medunlearn.results.fact_table.fact_table`).
    """
    if facts.empty:
        return None
    ranked = facts[(facts["side"] == "forget") & (facts["fold"] == fold) & facts["p"].notna()]
    return None if ranked.empty else float(least_p(ranked).groupby(ranked["item"]).mean().mean())
