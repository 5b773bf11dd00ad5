"""A sweep over forget set sizes: its splits, the retained subjects with the forgotten disease, and all numbers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.data.records import SIDES
from medunlearn.metrics.leakage.leakage_score import PAPER_EXTRACTOR
from medunlearn.papers.sweeps.contrasts import EVERYONE, Part, SweepDraws
from medunlearn.papers.sweeps.models import RETRAINED_MODEL, TARGET_MODEL, SweepModels, Who, shown_splits, unlearned
from medunlearn.papers.sweeps.results import Key, SweepNumber, SweepRequest, SweepResults
from medunlearn.reports.readings import is_composite, rows_of
from medunlearn.results.contrasts import Contrast, Term
from medunlearn.results.evaluated import Evaluated, summarize_evaluation
from medunlearn.results.matrix import ALL_KINDS
from medunlearn.statistics.bootstrap import pool_seeds

MEAN_OF_KINDS = "mean of kinds"
"""The kind of a row that is the plain mean of the numbers of each kind (AMNESIA, Figure 4)."""
SAME, OTHER = "same disease", "other disease"
SMALLEST = "smallest set"
"""The group of the subjects whom the smallest forget set of a scope holds."""
RANDOM = "random"
DISEASE = "disease"
TRAIN, HOLDOUT = "train", "holdout"
FACTUAL, REASONING = "factual", "reasoning"
LEAKAGE, DEGRADATION, DEGENERATE = "ls", "DS", "degenerate"
COMPOSITE = {"retain": "MU", "forget": "AFE"}
SIDE = {"MU": "retain", "AFE": "forget", LEAKAGE: "forget", DEGRADATION: "forget", DEGENERATE: "forget"}
COLUMNS = (
    *("context", "split", "role", "method", "group", "side", "fold", "kind", "measure", "value", "low", "high"),
    *("n_scored", "n_unscored", "n_subjects", "parts", "n_seeds", "by_seed"),
)

_SIZED = re.compile(r"(?P<scope>.+)_(?P<percent>\d{1,2})")
_ROW = ["side", "fold", "kind", "measure", "parts"]


@dataclass(frozen=True, slots=True)
class Step:
    """One split of a sweep: a point on its scope's curve.

    Attributes:
        split: its name, e.g. ``cancer_05``; for a request, only the level that it names.
        scope: group of splits that differ in size: ``random``, ``cancer``; the split itself if its name has no
            size.
        percent: the size in percent of all subjects; None if its name has none.
        disease: disease of all its forgotten subjects; None for random and mixed sets.
        level: level of the forgotten nodes: ``patient``.
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


@dataclass(frozen=True, kw_only=True)
class SizeResults(SweepResults):
    """All numbers and contrasts of a sweep over sizes.

    Attributes:
        splits: the steps, random first, each scope by size.
        numbers: :data:`COLUMNS`; the group is ``all``, ``same disease`` or ``other disease``.
        contrasts: see :mod:`medunlearn.papers.amnesia.contrasts`.
        extractors: extractors of the leakage score's keywords; scores of different ones are not comparable.
    """

    number_labels = ("context", "split", "role", "method", "side", "fold", "kind", "measure", "group")
    contrast_labels = ("contrast", "context", "split", "method", "fold", "kind")

    splits: tuple[Step, ...]
    extractors: tuple[str, ...] = ()

    @property
    def as_published(self) -> bool:
        """True if leakage scores use the paper's extractor, and are comparable with its Table 2."""
        return self.extractors == (PAPER_EXTRACTOR,)

    @cached_property
    def scopes(self) -> dict[str, list[Step]]:
        """Scope -> its steps by size; random first."""
        scopes: dict[str, list[Step]] = {}
        for step in self.splits:
            scopes.setdefault(step.scope, []).append(step)
        return scopes

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds of questions asked, without aggregates."""
        kind_names = dict.fromkeys(self.numbers["kind"].tolist())
        return [kind for kind in kind_names if kind not in (ALL_KINDS, MEAN_OF_KINDS)]

    @cached_property
    def folds(self) -> list[str]:
        return list(dict.fromkeys(self.numbers["fold"].tolist()))

    def number(self, *key: Key) -> SweepNumber | None:
        """Like :meth:`SweepResults.number`; over all subjects if the key has no group."""
        return super().number(*key) or super().number(*key, EVERYONE)

    def valued(self, *key: Key) -> SweepNumber | None:
        """A number if it has a value, else None."""
        number = self.number(*key)
        return number if number is not None and number.value is not None else None

    def runs(self, context: str) -> Iterator[tuple[Step, str]]:
        """Every step with the methods run on it."""
        for step in self.splits:
            for method in self.methods:
                if self.has(context, step.split, unlearned(method)):
                    yield step, method

    @cached_property
    def composites(self) -> dict[str, str | None]:
        """Side -> the composite that most models have a value for, by its name; ties go to the one with more
        parts.
        """
        counts: dict[str, Counter[str]] = {"retain": Counter(), "forget": Counter()}
        for row in rows_of(self.numbers[self.numbers["group"] == EVERYONE]):
            if is_composite(row["measure"]):
                counts[row["side"]][row["measure"]] += not pd.isna(row["value"])
        return {
            side: max(of, key=lambda name: (of[name], name.count(",")), default=None) for side, of in counts.items()
        }


class SizeSweep(SweepDraws):
    """The splits of a sweep and its models' numbers, resampled with the same bootstrap draws.

    Attributes:
        steps: name in the benchmark -> step; random first, then scopes as the benchmark lists them, each by size.
    """

    def __init__(self, models: SweepModels, request: SweepRequest) -> None:
        super().__init__(models, request.replicates, request.seed)
        self.subjects: dict[str, set[str]] = defaultdict(set)
        self.forgotten: dict[str, set[str]] = {}
        for record in models.benchmark.records:
            if DISEASE in record.groups:
                self.subjects[record.groups[DISEASE]].add(models.benchmark.subject(record.record_id))
        listed = [name for name in models.benchmark.splits if name in models.splits]
        labels = shown_splits(list(dict.fromkeys([*listed, *models.splits])))
        steps = {name: self._step(name, label) for name, label in labels.items()}
        scopes = list(dict.fromkeys(step.scope for step in steps.values()))

        def order(name: str) -> tuple[bool, int, int]:
            step = steps[name]
            return (step.scope != RANDOM, scopes.index(step.scope), step.percent or 0)

        self.steps = {name: steps[name] for name in sorted(steps, key=order)}

    def _step(self, name: str, label: str) -> Step:
        benchmark = self.models.benchmark
        split = benchmark.split(name)
        sides = benchmark.sides(split)
        subjects = {side: {benchmark.subject(r) for r, on in sides.items() if on == side} for side in SIDES}
        self.forgotten[name] = subjects["forget"]
        # A disease's split is a size of its trace; "random" names no disease, though few patients may share one.
        sized = _SIZED.fullmatch(name) if "=" not in name else None
        scope = sized["scope"] if sized else label
        sharing = (disease for disease, members in self.subjects.items() if subjects["forget"] <= members)
        disease = None if scope == RANDOM else next(sharing, None)
        same = self.subjects[disease] & subjects["retain"] if disease else set()
        percent = int(sized["percent"]) if sized else None
        sizes = benchmark.split_sizes(split)
        return Step(label, scope, percent, disease, split.level, sizes["forget"], sizes["retain"], len(same))

    def group(self, split: str, group: str) -> set[str] | None:
        """The subjects with the split's disease, or with another; None for all subjects.

        A subject whose disease is not known is in neither group.
        """
        disease = self.steps[split].disease
        if group == EVERYONE or disease is None:
            return None
        same = self.subjects[disease]
        return same if group == SAME else set().union(*self.subjects.values()) - same

    def part_term(
        self,
        part: Part,
        context: str,
        split: str,
        method: str,
        *,
        fold: str = TRAIN,
        kind: str = ALL_KINDS,
        weight: float | None = None,
        joint: tuple[str, ...] = (),
    ) -> Term:
        """A term of a contrast; ``where`` is the fold holdout, a kind, or the group same, other or small.

        The group small is the forget set of the first split of ``joint``.
        """
        who = {"m": unlearned(method), "t": TARGET_MODEL, "r": RETRAINED_MODEL}[part.model]
        fold = HOLDOUT if part.where == HOLDOUT else fold
        kind = part.where if part.where in (FACTUAL, REASONING) else kind
        group = {"same": SAME, "other": OTHER, "small": SMALLEST}.get(part.where, EVERYONE)
        subjects = self.forgotten[joint[0]] if group == SMALLEST else self.group(split, group)
        weight = part.weight if weight is None else weight
        at = {"side": SIDE[part.name], "fold": fold, "kind": kind}
        return self.term(weight, part.name, who, at, context, split, joint=joint, group=group, subjects=subjects)

    def question_kinds(self, context: str, split: str) -> Mapping[tuple[str, str], list[str]]:
        """Side and fold -> kinds that some model was asked, the forget set first."""
        table = self._question_kinds
        rows = table[(table["context"] == context) & (table["split"] == split)]
        return {
            (side, str(fold)): of_fold["kind"].tolist()
            for side in SIDES
            for fold, of_fold in rows[rows["side"] == side].groupby("fold", sort=False)
        }

    @cached_property
    def _question_kinds(self) -> pd.DataFrame:
        return self.models.table[["context", "split", "side", "fold", "kind"]].drop_duplicates()

    def mean_of_kinds(self, parts: Sequence[Part], context: str, split: str, method: str) -> Contrast:
        """Utility on train as the plain mean over the kinds of questions (Figure 4)."""
        kinds = sorted(self.question_kinds(context, split).get(("retain", TRAIN), []))
        return self.contrast(
            [
                self.part_term(part, context, split, method, kind=kind, weight=part.weight / len(kinds))
                for part in parts
                for kind in kinds
            ]
        )


def size_numbers(sweep: SizeSweep) -> pd.DataFrame:
    """Every number of every model (:data:`COLUMNS`), and the means over kinds last.

    A number of one seed is the row of the model's own summary. Over several seeds it is the mean, with an interval
    over subjects and seeds (:func:`medunlearn.statistics.bootstrap.pool_seeds`).
    """
    rows: list[dict[str, Any]] = []
    means: list[dict[str, Any]] = []
    for context in sweep.models.contexts:
        for split, step in sweep.steps.items():
            for who, seeds in sweep.models.of(context, split).items():
                head = {"context": context, "split": step.split, "role": who[0], "method": who[1]}
                for group in (EVERYONE, SAME, OTHER) if step.disease else (EVERYONE,):
                    labels = head | {"group": group}
                    rows += (labels | row for row in _numbers(sweep, context, split, who, group, seeds))
                    if group != EVERYONE:
                        means += (labels | row for row in _mean(sweep, context, split, who, group))
    return pd.DataFrame([*rows, *means], columns=list(COLUMNS))


def _numbers(
    sweep: SizeSweep, context: str, split: str, who: Who, group: str, seeds: Mapping[int, Evaluated]
) -> Iterator[dict[str, Any]]:
    """Rows of one model and group; over several seeds, only numbers with the same name and parts."""
    subjects = sweep.group(split, group)
    every = pd.concat(_summary(sweep, seeds[seed], subjects).assign(seed=seed) for seed in sorted(seeds))
    if len(seeds) == 1:
        for row in rows_of(every):
            value = None if pd.isna(row["value"]) else float(row["value"])
            yield {**row, "value": value, "n_seeds": 1, "by_seed": () if value is None else (value,)}
        return
    rows_by_place: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows_of(every):
        rows_by_place.setdefault(tuple(str(row[label]) for label in _ROW), []).append(row)
    for labels, rows in rows_by_place.items():
        side, fold, kind, measure, parts = labels
        composite = is_composite(measure)
        name, columns = (COMPOSITE[side], tuple(parts.split(","))) if composite else (measure, (measure,))
        at = {"side": side, "fold": fold, "kind": kind}
        term = sweep.term(1, name, who, at, context, split, group=group, subjects=subjects)
        valued = [row["seed"] for row in rows if not pd.isna(row["value"])]
        yield {
            **dict(zip(_ROW, labels, strict=True)),
            **{count: sum(int(row[count]) for row in rows) for count in ("n_scored", "n_unscored")},
            "n_subjects": max(int(row["n_subjects"]) for row in rows),
            **_pool_seeds(sweep, term, columns, valued),
            "n_seeds": len(valued),
        }


def _summary(sweep: SizeSweep, model: Evaluated, subjects: set[str] | None) -> pd.DataFrame:
    """The model's own summary, or one restricted to the retained subjects of a group."""
    if subjects is None:
        return model.summary
    inside = model.table[(model.table["side"] == "retain") & model.table["subject"].isin(subjects)]
    return summarize_evaluation(inside, replicates=sweep.replicates, seed=sweep.seed)


def _pool_seeds(sweep: SizeSweep, term: Term, parts: tuple[str, ...], seeds: Sequence[int]) -> dict[str, Any]:
    """Columns value, low, high, by_seed, pooled over seeds."""
    if not seeds:
        return {**dict.fromkeys(("value", "low", "high")), "by_seed": ()}
    cells = sweep.seeds(term)
    pairs = [cells[seed].numbers(term.measure, parts) for seed in seeds]
    points = np.array([point for point, _ in pairs], dtype=np.float64)
    subjects = min(cells[seed].n_subjects(parts) for seed in seeds)
    effective = min(cells[seed].n_effective(parts) for seed in seeds)
    bounds = cells[seeds[0]].bounds(term.measure, parts)
    draws = np.column_stack([replicates for _, replicates in pairs])
    pooled = pool_seeds(points, draws, subjects, effective=effective, bounds=bounds, seed=sweep.seed)
    by_seed = () if pooled.value is None else tuple(points.tolist())
    return {"value": pooled.value, "low": pooled.low, "high": pooled.high, "by_seed": by_seed}


def _mean(sweep: SizeSweep, context: str, split: str, who: Who, group: str) -> Iterator[dict[str, Any]]:
    """Figure 4's number: utility of a group of retained subjects as the plain mean over the kinds."""
    model = {TARGET_MODEL: "t", RETRAINED_MODEL: "r"}.get(who, "m")
    part = Part(1, model, "MU", group.partition(" ")[0], "")
    mean = sweep.mean_of_kinds([part], context, split, who[1])
    if mean.value is not None:
        fields = ("measure", "value", "low", "high", "n_subjects", "by_seed")
        yield {
            "side": "retain",
            "fold": TRAIN,
            "kind": MEAN_OF_KINDS,
            "parts": "kinds",
            **{name: getattr(mean, name) for name in fields},
            "n_scored": 0,
            "n_unscored": 0,
            "n_seeds": len(mean.by_seed),
        }
