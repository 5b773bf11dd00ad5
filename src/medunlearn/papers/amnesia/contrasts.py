"""The differences that AMNESIA's findings and analyses are read from, as data.

Each is a weighted sum of the numbers shown in the report, under draws of subjects that its terms share. MU is
utility on retain, AFE forgetting on forget (or what of them was measured), ``ls`` the leakage score, DS the
degradation score; m is the unlearned model, t the target, r the retrained model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from medunlearn.papers.amnesia.sweep import MEAN_OF_KINDS, OTHER, SAME, Step, SweepSplits
from medunlearn.papers.sweeps.models import (
    EVERYONE,
    RETRAINED_MODEL,
    TARGET_MODEL,
    SweepDraws,
    Who,
    cell,
    unlearned,
)
from medunlearn.results.contrasts import Contrast, Term
from medunlearn.results.matrix import ALL_KINDS

MU, AFE, LEAKAGE, DEGRADATION = "MU", "AFE", "ls", "DS"
SIDE = {MU: "retain", AFE: "forget", LEAKAGE: "forget", DEGRADATION: "forget"}
KEPT, HALF, NEAR_ZERO = 0.8, 0.5, 0.1
TRAIN, HOLDOUT = "train", "holdout"
FACTUAL, REASONING = "factual", "reasoning"
M, T, R = "m", "t", "r"


@dataclass(frozen=True, slots=True)
class Part:
    """``weight`` times a measure of one model (m, t or r) on one group of questions."""

    weight: float
    model: str
    measure: str
    fold: str = TRAIN
    kind: str = ALL_KINDS
    group: str = EVERYONE


Parts = tuple[Part, ...]
EACH_FOLD: Mapping[str, Parts] = {
    "reasoning - factual (utility)": (Part(1, M, MU, kind=REASONING), Part(-1, M, MU, kind=FACTUAL)),
    "utility - retrained": (Part(1, M, MU), Part(-1, R, MU)),
    "reasoning - factual (forgetting)": (Part(1, M, AFE, kind=REASONING), Part(-1, M, AFE, kind=FACTUAL)),
    "forgetting - retrained": (Part(1, M, AFE), Part(-1, R, AFE)),
    "forgetting gained": (Part(1, M, AFE), Part(-1, T, AFE)),
    # Above 0: the target knows something that the retrained model does not.
    "forgetting to gain": (Part(1, R, AFE), Part(-1, T, AFE)),
}
ACROSS_FOLDS: Mapping[str, Parts] = {
    "holdout - train (utility)": (Part(1, M, MU, HOLDOUT), Part(-1, M, MU)),
    "holdout - train (forgetting)": (Part(1, M, AFE, HOLDOUT), Part(-1, M, AFE)),
    "holdout gain below half of train gain": (
        *(Part(HALF, M, AFE), Part(-HALF, T, AFE)),
        *(Part(-1, M, AFE, HOLDOUT), Part(1, T, AFE, HOLDOUT)),
    ),
}
ON_TRAIN: Mapping[str, Parts] = {
    # Above 0: closer to the retrained model than to the target.
    "forgetting past half-way": (Part(1, M, AFE), Part(-HALF, T, AFE), Part(-HALF, R, AFE)),
    "utility above 0.8 of target": (Part(1, M, MU), Part(-KEPT, T, MU)),
    "leakage below a tenth of target": (Part(NEAR_ZERO, T, LEAKAGE), Part(-1, M, LEAKAGE)),
    "degradation above half": (Part(1, M, DEGRADATION),),
}
THRESHOLD = {"degradation above half": HALF}
"""Constants that are subtracted from a contrast."""
_LOST = (Part(1, M, MU, group=SAME), Part(-1, T, MU, group=SAME))
BY_DISEASE: Mapping[str, Parts] = {
    "same - other disease (utility)": (Part(1, M, MU, group=SAME), Part(-1, M, MU, group=OTHER)),
    "lost by same disease": _LOST,
    "lost by same more than by other": (*_LOST, Part(-1, M, MU, group=OTHER), Part(1, T, MU, group=OTHER)),
    "utility of others above 0.8 of target": (Part(1, M, MU, group=OTHER), Part(-KEPT, T, MU, group=OTHER)),
}
"""Utility of retained subjects with and without the split's disease, on train: the plain mean over the kinds."""
GROWTH = "growth of forgetting"
"""AFE(m) - AFE(t) on the largest forget set of a scope, minus the same on the smallest."""
COLUMNS = (
    *("contrast", "context", "split", "method", "fold", "kind", "measure", "value", "low", "high"),
    *("n_subjects", "n_seeds", "by_seed", "reason"),
)


@dataclass(frozen=True, slots=True)
class MethodOnSplit:
    """One method on one split: makes terms, and rows of the table of contrasts."""

    draws: SweepDraws
    splits: SweepSplits
    context: str
    split: str
    method: str

    def term(self, part: Part, split: str = "", drawn: tuple[str, ...] = ()) -> Term:
        """A part on a split, drawn with the subjects of all splits in ``drawn``."""
        split = split or self.split
        models: Mapping[str, Who] = {M: unlearned(self.method), T: TARGET_MODEL, R: RETRAINED_MODEL}
        subjects = self.splits.group(split, part.group)
        side = SIDE[part.measure]
        stratum = self.draws.stratum(self.context, drawn or (split,), side, part.group, subjects)
        return Term(part.weight, cell(split, models[part.model], part.fold, part.kind), part.measure, stratum)

    def kinds(self, side: str, fold: str) -> list[str]:
        return sorted(self.draws.models.asked.get((self.context, self.split, side), {}).get(fold, []))

    def mean_of_kinds(self, parts: Sequence[Part]) -> list[Term]:
        """Terms of utility on train as the plain mean over the kinds of questions (Figure 4)."""
        kinds = self.kinds("retain", TRAIN)
        return [
            self.term(replace(part, weight=part.weight / len(kinds), kind=kind)) for part in parts for kind in kinds
        ]

    def row(self, name: str, fold: str, kind: str, terms: Sequence[Term]) -> dict[str, Any]:
        found, minus = self.draws.contrast(terms), THRESHOLD.get(name, 0.0)
        edges = {edge: getattr(found, edge) for edge in ("value", "low", "high")}
        return {
            "contrast": name,
            "context": self.context,
            "split": self.splits.steps[self.split].split,
            "method": self.method,
            "fold": fold,
            "kind": kind,
            **{edge: None if value is None else value - minus for edge, value in edges.items()},
            "measure": found.measure,
            "n_subjects": found.n_subjects,
            "n_seeds": len(found.by_seed),
            "by_seed": tuple(value - minus for value in found.by_seed),
            "reason": found.reason,
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every contrast of the method on the split."""
        asked = [self.draws.models.asked.get((self.context, self.split, side), {}) for side in ("forget", "retain")]
        folds = list(dict.fromkeys(fold for by_fold in asked for fold in by_fold))
        for fold in folds:
            for name, parts in EACH_FOLD.items():
                by_kind = parts[0].kind != ALL_KINDS
                if not by_kind or {FACTUAL, REASONING} <= set(self.kinds(SIDE[parts[0].measure], fold)):
                    terms = [self.term(replace(part, fold=fold)) for part in parts]
                    yield self.row(name, fold, "" if by_kind else ALL_KINDS, terms)
        if {TRAIN, HOLDOUT} <= set(folds):
            for name, parts in ACROSS_FOLDS.items():
                yield self.row(name, "", ALL_KINDS, [self.term(part) for part in parts])
        for name, parts in ON_TRAIN.items():
            yield self.row(name, TRAIN, ALL_KINDS, [self.term(part) for part in parts])
        if self.splits.steps[self.split].disease is not None:
            for name, parts in BY_DISEASE.items():
                yield self.row(name, TRAIN, MEAN_OF_KINDS, self.mean_of_kinds(parts))

    def growth(self, small: str) -> dict[str, Any]:
        """The gain in forgetting here, minus that on a smaller forget set inside this one."""
        both = (small, self.split)
        terms = [
            self.term(Part(sign * weight, model, AFE), split, both)
            for sign, split in ((1, self.split), (-1, small))
            for weight, model in ((1, M), (-1, T))
        ]
        return self.row(GROWTH, TRAIN, ALL_KINDS, terms)


def contrasts(draws: SweepDraws, splits: SweepSplits) -> pd.DataFrame:
    """Every contrast of every method on every split (:data:`COLUMNS`); one without a value says why."""
    rows: list[dict[str, Any]] = []
    for context in draws.models.contexts:
        for split in splits.steps:
            for method in _run(draws, context, split):
                rows += MethodOnSplit(draws, splits, context, split, method).rows()
        for sizes in _sizes(splits.steps):
            for method in draws.models.methods:
                run = [split for split in sizes if method in _run(draws, context, split)]
                if len(run) >= 2:
                    rows.append(MethodOnSplit(draws, splits, context, run[-1], method).growth(run[0]))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def mean_of_kinds(
    draws: SweepDraws, splits: SweepSplits, context: str, split: str, who: Who, group: str
) -> Contrast:
    """Utility of a group of retained subjects, the plain mean over the kinds of questions."""
    model = next(name for name, one in ((T, TARGET_MODEL), (R, RETRAINED_MODEL), (M, who)) if one == who)
    method = MethodOnSplit(draws, splits, context, split, who[1])
    return draws.contrast(method.mean_of_kinds([Part(1, model, MU, group=group)]))


def _run(draws: SweepDraws, context: str, split: str) -> list[str]:
    """Methods that were run on a split."""
    return [who[1] for who in draws.models.of(context, split) if who[1]]


def _sizes(steps: Mapping[str, Step]) -> Iterator[list[str]]:
    """Splits of each scope by size."""
    for scope in dict.fromkeys(step.scope for step in steps.values()):
        yield [name for name, step in steps.items() if step.scope == scope and step.percent is not None]
