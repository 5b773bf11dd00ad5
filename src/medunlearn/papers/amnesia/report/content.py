"""What a sweep's report is made of. The caller gathers it from run folders; nothing here reads a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from medunlearn.reports.readings import Reading, is_composite, number, reading_of, rows_of

MEAN_OF_KINDS = "mean of kinds"
"""The kind of a row that is the plain mean of the numbers of each kind (AMNESIA, Figure 4)."""

EVERYONE, SAME, OTHER = "all", "same disease", "other disease"
TARGET, RETRAINED, UNLEARNED = "target", "retrained", "unlearned"
RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Step:
    """One split of a sweep: a step of its scope's trace.

    Attributes:
        split: its name, e.g. ``cancer_05``; of a request, only what level it names.
        scope: what it is a size of: ``random``, ``cancer``; the split itself where its name has no size.
        percent: the size in percent of all subjects; None where its name has none.
        disease: what all its forgotten subjects have; None for random and mixed sets.
        level: what is forgotten whole: ``patient``.
        forget, retain: number of nodes on each side.
        same: retained subjects with the same disease.
    """

    split: str
    scope: str
    percent: int | None
    disease: str | None
    level: str
    forget: int
    retain: int
    same: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """A number with its interval, averaged over seeds."""

    reading: Reading
    by_seed: tuple[float, ...] = ()

    @property
    def value(self) -> float | None:
        return self.reading.value


@dataclass(frozen=True, slots=True)
class Contrast:
    """A difference of numbers with its interval.

    Attributes:
        value: None where it was not measured; ``reason`` then says why.
        low, high: None where no honest interval can be had.
        n_subjects: subjects of the part of the difference that has fewest.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n_subjects: int = 0
    reason: str = ""
    metric: str = ""

    @property
    def above(self) -> bool | None:
        """True where the interval is above 0, False where it is below; None where it holds 0 or is not there."""
        if self.low is None or self.high is None or self.low <= 0.0 <= self.high:
            return None
        return self.low > 0.0


@dataclass(frozen=True)
class SweepContent:
    """Everything that a sweep's report shows; no text of a record is in it.

    Attributes:
        title: of the page.
        benchmark: name, builder, source, licence, data_use, levels, counts, fingerprint.
        steps: the splits, random first, each scope by size.
        contexts: the modes in which models were asked; every number carries its own.
        methods: names of the unlearning methods.
        seeds: of training.
        numbers: context, split, role, method, group (``all``, ``same disease``, ``other disease``), side, fold,
            kind, metric, value, low, high, n_scored, n_unscored, n_subjects, parts, n_seeds, by_seed.
        contrasts: contrast, context, split, method, fold, kind, metric, value, low, high, n_subjects, n_seeds,
            reason (:mod:`medunlearn.papers.amnesia.swept.contrasts` says which there are).
        metrics: a metric's name -> (title, meaning with range and direction).
        caveats: sentences for the top of the page.
        missing: what could not be run, and why.
        search: method, lr, utility, forgetting, score, chosen; None where nothing was searched.
        replicates: of the bootstrap.
    """

    title: str
    benchmark: Mapping[str, Any]
    steps: tuple[Step, ...]
    contexts: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    numbers: pd.DataFrame
    contrasts: pd.DataFrame
    metrics: Mapping[str, tuple[str, str]]
    caveats: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    search: pd.DataFrame | None = field(default=None)
    replicates: int = 1000

    @cached_property
    def _numbers(self) -> dict[tuple[str, ...], Measured]:
        return {
            tuple(str(row[name]) for name in _NUMBER_KEY): Measured(reading_of(row), tuple(row["by_seed"]))
            for row in rows_of(self.numbers)
        }

    @cached_property
    def _contrasts(self) -> dict[tuple[str, ...], Contrast]:
        return {tuple(str(row[name]) for name in _CONTRAST_KEY): _contrast(row) for row in rows_of(self.contrasts)}

    @cached_property
    def scopes(self) -> tuple[str, ...]:
        """In the order of the steps: random first."""
        return tuple(dict.fromkeys(step.scope for step in self.steps))

    def steps_of(self, scope: str) -> list[Step]:
        """A scope's splits by size."""
        return [step for step in self.steps if step.scope == scope]

    def kinds(self) -> list[str]:
        """The kinds of questions that were asked, without roll-ups."""
        return [kind for kind in self._named["kind"] if kind not in (EVERYONE, MEAN_OF_KINDS)]

    def folds(self) -> list[str]:
        """The folds that were asked."""
        return self._named["fold"]

    @cached_property
    def _named(self) -> dict[str, list[str]]:
        return {name: list(dict.fromkeys(self.numbers[name].tolist())) for name in ("kind", "fold")}

    def number(
        self,
        context: str,
        split: str,
        who: tuple[str, str],
        place: tuple[str, str, str],
        metric: str | None,
        group: str = EVERYONE,
    ) -> Measured | None:
        """A number, or None where there is no such row.

        Args:
            who: role and method (``""`` for target and retrained).
            place: side, fold, kind.
        """
        return self._numbers.get((context, split, *who, group, *place, str(metric)))

    def contrast(self, name: str, context: str, split: str, method: str, fold: str, kind: str) -> Contrast:
        """A contrast; one without a value where it was not made."""
        key = (name, context, split, method, fold, kind)
        return self._contrasts.get(key, Contrast(None, reason="not measured"))

    def has(self, context: str, split: str, who: tuple[str, str]) -> bool:
        """Whether such a model was evaluated on a split."""
        return (context, split, *who) in self._there

    @cached_property
    def _there(self) -> set[tuple[str, ...]]:
        return {key[:4] for key in self._numbers}

    def composite(self, side: str) -> str | None:
        """The utility (retain) or forgetting (forget) that most models have a value for, as it is named."""
        return self._composites[side]

    @cached_property
    def _composites(self) -> dict[str, str | None]:
        found: dict[str, Counter[str]] = {"retain": Counter(), "forget": Counter()}
        for key, measured in self._numbers.items():
            group, side, metric = key[4], key[5], key[8]
            if group == EVERYONE and is_composite(metric):
                found[side][metric] += measured.value is not None
        # Of two that are there as often, the one of more parts.
        return {
            side: max(counts, key=lambda name: (counts[name], name.count(",")), default=None)
            for side, counts in found.items()
        }


_NUMBER_KEY = ("context", "split", "role", "method", "group", "side", "fold", "kind", "metric")
_CONTRAST_KEY = ("contrast", "context", "split", "method", "fold", "kind")


def _contrast(row: Mapping[str, Any]) -> Contrast:
    value, low, high = (number(row[name]) for name in ("value", "low", "high"))
    return Contrast(value, low, high, int(row["n_subjects"]), str(row["reason"]), str(row["metric"]))
