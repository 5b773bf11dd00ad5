"""The splits of a sweep over forget set sizes, and all its numbers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import SIDES
from medunlearn.papers.sweeps.models import (
    EVERYONE,
    NOT_MEASURED,
    SweepDraws,
    SweepNumber,
    Who,
    cell,
    contrasts_by,
    numbers_by,
    shown_splits,
)
from medunlearn.papers.sweeps.report import SweepFacts
from medunlearn.reports.readings import is_composite, rows_of
from medunlearn.results.contrasts import Contrast, Term
from medunlearn.results.evaluated import Evaluated, summarize_evaluation
from medunlearn.statistics.joint import Pooled, pool_seeds

MEAN_OF_KINDS = "mean of kinds"
"""The kind of a row that is the plain mean of the numbers of each kind (AMNESIA, Figure 4)."""
SAME, OTHER = "same disease", "other disease"
RANDOM = "random"
DISEASE = "disease"
NUMBER_KEY = ("context", "split", "role", "method", "group", "side", "fold", "kind", "measure")
CONTRAST_KEY = ("contrast", "context", "split", "method", "fold", "kind")
COLUMNS = (
    *(*NUMBER_KEY, "value", "low", "high", "n_scored", "n_unscored", "n_subjects", "parts"),
    *("n_seeds", "by_seed"),
)

_SIZED = re.compile(r"(?P<scope>.+)_(?P<percent>\d{1,2})")
_COMPOSITE = {"retain": "MU", "forget": "AFE"}


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

    @property
    def size(self) -> str:
        return self.split if self.percent is None else f"{self.percent}%"


class SweepSplits:
    """The splits of a sweep, random first, then scopes as the benchmark lists them, each by size.

    Attributes:
        steps: name in the benchmark -> step.
    """

    def __init__(self, benchmark: Benchmark, names: Sequence[str]) -> None:
        self.benchmark = benchmark
        listed = [name for name in benchmark.splits if name in names]
        steps: dict[str, Step] = {}
        shown = shown_splits([*dict.fromkeys([*listed, *names])])
        for name in shown:
            steps[name] = self._step(name, shown[name])
        scopes = list(dict.fromkeys(step.scope for step in steps.values()))

        def order(step: Step) -> tuple[bool, int, int]:
            return (step.scope != RANDOM, scopes.index(step.scope), step.percent or 0)

        self.steps = dict(sorted(steps.items(), key=lambda item: order(item[1])))

    @cached_property
    def subjects_by_disease(self) -> dict[str, set[str]]:
        """Subjects of each disease; of several diseases, in each."""
        subjects: dict[str, set[str]] = defaultdict(set)
        for record in self.benchmark.records:
            if DISEASE in record.groups:
                subjects[record.groups[DISEASE]].add(self.benchmark.subject(record.record_id))
        return subjects

    def _step(self, name: str, shown: str) -> Step:
        split = self.benchmark.split(name)
        sides = self.benchmark.sides(split)
        subjects = {
            side: {self.benchmark.subject(record) for record, on in sides.items() if on == side} for side in SIDES
        }
        # A disease's split is a size of its trace; "random" names no disease, though few patients may share one.
        sized = _SIZED.fullmatch(name) if "=" not in name else None
        scope = sized["scope"] if sized else shown
        disease = None if scope == RANDOM else self._shared_disease(subjects["forget"])
        same = self.subjects_by_disease[disease] & subjects["retain"] if disease else set()
        percent = int(sized["percent"]) if sized else None
        return Step(shown, scope, percent, disease, split.level, len(split.forget), len(split.retain), len(same))

    def _shared_disease(self, forgotten: set[str]) -> str | None:
        return next((name for name, members in self.subjects_by_disease.items() if forgotten <= members), None)

    def group(self, split: str, group: str) -> set[str] | None:
        """The subjects with the split's disease, or with another; None for everybody.

        A subject whose disease is not known is in neither group.
        """
        disease = self.steps[split].disease
        if group not in (SAME, OTHER) or disease is None:
            return None
        same = self.subjects_by_disease[disease]
        if group == SAME:
            return same
        return {subject for members in self.subjects_by_disease.values() for subject in members} - same


@dataclass(frozen=True)
class SweepResults:
    """All numbers and contrasts of a sweep over sizes; no text of a record is in it.

    Attributes:
        steps: the splits, random first, each scope by size.
        contexts: the modes in which models were asked; every number carries its own.
        numbers: :data:`COLUMNS`; the group is ``all``, ``same disease`` or ``other disease``.
        contrasts: see :mod:`medunlearn.papers.amnesia.contrasts`.
    """

    facts: SweepFacts
    steps: tuple[Step, ...]
    contexts: tuple[str, ...]
    numbers: pd.DataFrame
    contrasts: pd.DataFrame

    @property
    def methods(self) -> tuple[str, ...]:
        return self.facts.methods

    @cached_property
    def _numbers(self) -> dict[tuple[str, ...], SweepNumber]:
        return numbers_by(self.numbers, *NUMBER_KEY)

    @cached_property
    def _contrasts(self) -> dict[tuple[str, ...], Contrast]:
        return contrasts_by(self.contrasts, *CONTRAST_KEY)

    @cached_property
    def scopes(self) -> tuple[str, ...]:
        """In the order of the steps: random first."""
        return tuple(dict.fromkeys(step.scope for step in self.steps))

    def steps_of(self, scope: str) -> list[Step]:
        """A scope's splits by size."""
        return [step for step in self.steps if step.scope == scope]

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds of questions that were asked, without roll-ups."""
        named = dict.fromkeys(self.numbers["kind"].tolist())
        return [kind for kind in named if kind not in (EVERYONE, MEAN_OF_KINDS)]

    @cached_property
    def folds(self) -> list[str]:
        return list(dict.fromkeys(self.numbers["fold"].tolist()))

    def number(
        self,
        context: str,
        split: str,
        who: Who,
        place: tuple[str, str, str],
        measure: str | None,
        group: str = EVERYONE,
    ) -> SweepNumber | None:
        """A number of one place (side, fold, kind); None where there is no such row."""
        return self._numbers.get((context, split, *who, group, *place, str(measure)))

    def valued(self, *key: Any) -> SweepNumber | None:
        """A number that has a value, else None; arguments as of :meth:`number`."""
        found = self.number(*key)
        return found if found is not None and found.value is not None else None

    def contrast(self, name: str, context: str, split: str, method: str, fold: str, kind: str) -> Contrast:
        """A contrast; one without a value where it was not made."""
        return self._contrasts.get((name, context, split, method, fold, kind), NOT_MEASURED)

    @cached_property
    def evaluated(self) -> set[tuple[str, ...]]:
        """Context, split, role and method of every model."""
        return {key[:4] for key in self._numbers}

    def has(self, context: str, split: str, who: Who) -> bool:
        """Whether such a model was evaluated on a split."""
        return (context, split, *who) in self.evaluated

    @cached_property
    def composites(self) -> dict[str, str | None]:
        """Side -> the composite that most models have a value for, under its name; of two alike, of more parts."""
        counts: dict[str, Counter[str]] = {"retain": Counter(), "forget": Counter()}
        for key, number in self._numbers.items():
            _, _, _, _, group, side, _, _, measure = key
            if group == EVERYONE and is_composite(measure):
                counts[side][measure] += number.value is not None
        return {
            side: max(of, key=lambda name: (of[name], name.count(",")), default=None) for side, of in counts.items()
        }


def sweep_numbers(draws: SweepDraws, splits: SweepSplits) -> Iterator[dict[str, Any]]:
    """Rows of :data:`COLUMNS`, without the means over kinds.

    A number of one seed is the row of the model's own summary. Over several seeds it is the mean, with an interval
    over subjects and seeds (:func:`medunlearn.statistics.joint.pool_seeds`).
    """
    for context in draws.models.contexts:
        for split, step in splits.steps.items():
            for who, seeds in draws.models.of(context, split).items():
                for group in (EVERYONE, SAME, OTHER) if step.disease else (EVERYONE,):
                    subjects = splits.group(split, group)
                    summaries = {seed: _summary(draws, seeds[seed], subjects) for seed in sorted(seeds)}
                    head = {"context": context, "split": step.split, "role": who[0], "method": who[1]}
                    rows = _one_seed(*summaries.values()) if len(seeds) == 1 else ()
                    if len(seeds) > 1:
                        rows = _over_seeds(draws, context, split, who, group, subjects, summaries)
                    yield from ({**head, "group": group, **row} for row in rows)


def _summary(draws: SweepDraws, model: Evaluated, subjects: set[str] | None) -> pd.DataFrame:
    """The model's own summary, or one of the retained subjects of a group."""
    if subjects is None:
        return model.summary.rename(columns={"metric": "measure"})
    inside = model.table[(model.table["side"] == "retain") & model.table["subject"].isin(subjects)]
    return summarize_evaluation(inside, replicates=draws.replicates, seed=draws.seed)


def _one_seed(summary: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for row in rows_of(summary):
        value = None if pd.isna(row["value"]) else float(row["value"])
        yield {**row, "value": value, "n_seeds": 1, "by_seed": () if value is None else (value,)}


def _over_seeds(
    draws: SweepDraws,
    context: str,
    split: str,
    who: Who,
    group: str,
    subjects: set[str] | None,
    summaries: Mapping[int, pd.DataFrame],
) -> Iterator[dict[str, Any]]:
    """The means of the seeds that have a number under the same name, of the same parts."""
    key = ("side", "fold", "kind", "measure", "parts")
    by_key: dict[tuple[str, ...], dict[int, Mapping[str, Any]]] = {}
    for seed, summary in summaries.items():
        for row in rows_of(summary):
            by_key.setdefault(tuple(str(row[name]) for name in key), {})[seed] = row
    for (side, fold, kind, measure, parts), rows in by_key.items():
        valued = [seed for seed, row in rows.items() if not pd.isna(row["value"])]
        stratum = draws.stratum(context, (split,), side, group, subjects)
        name = _COMPOSITE[side] if is_composite(measure) else measure
        columns = tuple(parts.split(",")) if is_composite(measure) else (measure,)
        pooled = _pooled(draws, Term(1, cell(split, who, fold, kind), name, stratum), columns, valued)
        yield {
            **dict(zip(key, (side, fold, kind, measure, parts), strict=True)),
            **{count: sum(int(row[count]) for row in rows.values()) for count in ("n_scored", "n_unscored")},
            "n_subjects": max(int(row["n_subjects"]) for row in rows.values()),
            **{field: getattr(pooled, field) for field in ("value", "low", "high", "by_seed")},
            "n_seeds": len(valued),
        }


def _pooled(draws: SweepDraws, term: Term, parts: tuple[str, ...], seeds: Sequence[int]) -> Pooled:
    if not seeds:
        return Pooled(None, None, None, ())
    cells = draws.seeds(term)
    pairs = [cells[seed].numbers(term.measure, parts) for seed in seeds]
    points = np.array([point for point, _ in pairs], dtype=np.float64)
    pooled = pool_seeds(points, np.column_stack([drawn for _, drawn in pairs]), seed=draws.seed)
    if min(cells[seed].n_subjects(parts) for seed in seeds) < 2:
        return Pooled(pooled.value, None, None, pooled.by_seed)
    return pooled
