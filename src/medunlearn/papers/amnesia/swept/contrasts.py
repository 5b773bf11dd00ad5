"""The differences that the findings and analyses of a sweep are read from.

Each is a weighted sum of the numbers shown in the report, under draws of subjects that its terms share. U is
utility on retain, F forgetting on forget (MU and AFE, or what of them was measured), LS the leakage score; m is the
unlearned model, t the target, r the retrained model:

- ``reasoning - factual (utility | forgetting)``: of one fold.
- ``holdout - train (utility | forgetting)``: of all kinds together.
- ``same - other disease (utility)``: train fold, mean of the kinds.
- ``forgetting gained``: F(m) - F(t), by fold.
- ``forgetting - retrained``, ``utility - retrained``: m - r, by fold.
- ``forgetting past half-way``: F(m) - F(t)/2 - F(r)/2. Above 0: closer to the retrained model than to the target.
- ``forgetting to gain``: F(r) - F(t), by fold. Above 0: the target knows what the retrained model does not.
- ``utility above 0.8 of target``: U(m) - 0.8 U(t).
- ``growth of forgetting``: F(m) - F(t) on the largest forget set of a scope, minus the same on the smallest.
- ``lost by same disease``: U(m) - U(t) of the retained subjects with the disease.
- ``lost by same more than by other``: that, minus the same of the others.
- ``utility of others above 0.8 of target``.
- ``holdout gain below half of train gain``: half of the gain on train, minus the gain on holdout.
- ``leakage below a tenth of target``: LS(t)/10 - LS(m).
- ``degradation above half``: DS(m) - 0.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from medunlearn.papers.amnesia.report.content import (
    EVERYONE,
    MEAN_OF_KINDS,
    OTHER,
    RETRAINED,
    SAME,
    TARGET,
    UNLEARNED,
    Contrast,
    Step,
)
from medunlearn.papers.amnesia.swept.draws import FORGETTING, UTILITY, Draws, Stratum, Term
from medunlearn.results.composites import DEGRADATION
from medunlearn.results.matrix import ALL_KINDS

LEAKAGE = "ls"
KEPT = 0.8
HALF = 0.5
NEAR_ZERO = 0.1
TRAIN, HOLDOUT = "train", "holdout"
FACTUAL, REASONING = "factual", "reasoning"
_T, _R = (TARGET, ""), (RETRAINED, "")
_SIDE = {UTILITY: "retain", FORGETTING: "forget", LEAKAGE: "forget", DEGRADATION: "forget"}


@dataclass(frozen=True, slots=True)
class _Where:
    """One method on one split: whose contrasts are being made."""

    context: str
    split: str
    method: str

    @property
    def model(self) -> tuple[str, str]:
        return (UNLEARNED, self.method)

    def term(
        self,
        weight: float,
        who: tuple[str, str],
        measure: str,
        fold: str = TRAIN,
        kind: str = ALL_KINDS,
        group: str = EVERYONE,
    ) -> Term:
        stratum = Stratum(self.context, (self.split,), _SIDE[measure], group)
        return Term(weight, stratum, self.split, who, fold, kind, measure)


def contrasts(draws: Draws) -> pd.DataFrame:
    """Every contrast of every method on every split; one without a value says why.

    Returns:
        contrast, context, split, method, fold, kind, metric, value, low, high, n_subjects, n_seeds, by_seed,
        reason.
    """
    rows: list[dict[str, Any]] = []
    for context in draws.cells.contexts:
        for split, step in draws.cells.steps.items():
            for who in draws.cells.of(context, split):
                if who[0] == UNLEARNED:
                    where = _Where(context, split, who[1])
                    rows += _of_split(draws, where)
                    rows += _of_disease(draws, where, step)
        rows += _of_scopes(draws, context)
    columns = "contrast context split method fold kind metric value low high n_subjects n_seeds by_seed reason"
    return pd.DataFrame(rows, columns=columns.split())


def _of_split(draws: Draws, at: _Where) -> Iterator[dict[str, Any]]:
    folds = _folds(draws, at)
    t, r, m = _T, _R, at.model
    for fold in folds:
        for measure in (UTILITY, FORGETTING):
            if {FACTUAL, REASONING} <= _kinds(draws, at, _SIDE[measure], fold):
                pair = [at.term(1, m, measure, fold, REASONING), at.term(-1, m, measure, fold, FACTUAL)]
                yield _row(draws, f"reasoning - factual ({measure})", at, fold, "", pair)
            pair = [at.term(1, m, measure, fold), at.term(-1, r, measure, fold)]
            yield _row(draws, f"{measure} - retrained", at, fold, ALL_KINDS, pair)
        gained = [at.term(1, m, FORGETTING, fold), at.term(-1, t, FORGETTING, fold)]
        yield _row(draws, "forgetting gained", at, fold, ALL_KINDS, gained)
        to_gain = [at.term(1, r, FORGETTING, fold), at.term(-1, t, FORGETTING, fold)]
        yield _row(draws, "forgetting to gain", at, fold, ALL_KINDS, to_gain)
    if {TRAIN, HOLDOUT} <= set(folds):
        for measure in (UTILITY, FORGETTING):
            pair = [at.term(1, m, measure, HOLDOUT), at.term(-1, m, measure)]
            yield _row(draws, f"holdout - train ({measure})", at, "", ALL_KINDS, pair)
        notes = [at.term(HALF, m, FORGETTING), at.term(-HALF, t, FORGETTING)]
        notes += [at.term(-1, m, FORGETTING, HOLDOUT), at.term(1, t, FORGETTING, HOLDOUT)]
        yield _row(draws, "holdout gain below half of train gain", at, "", ALL_KINDS, notes)
    half_way = [at.term(1, m, FORGETTING), at.term(-HALF, t, FORGETTING), at.term(-HALF, r, FORGETTING)]
    yield _row(draws, "forgetting past half-way", at, TRAIN, ALL_KINDS, half_way)
    kept = [at.term(1, m, UTILITY), at.term(-KEPT, t, UTILITY)]
    yield _row(draws, "utility above 0.8 of target", at, TRAIN, ALL_KINDS, kept)
    leaked = [at.term(NEAR_ZERO, t, LEAKAGE), at.term(-1, m, LEAKAGE)]
    yield _row(draws, "leakage below a tenth of target", at, TRAIN, ALL_KINDS, leaked)
    collapsed = [at.term(1, m, DEGRADATION)]
    yield _row(draws, "degradation above half", at, TRAIN, ALL_KINDS, collapsed, minus=HALF)


def _of_disease(draws: Draws, at: _Where, step: Step) -> Iterator[dict[str, Any]]:
    if step.disease is None:
        return

    def group(weight: float, who: tuple[str, str], name: str) -> list[Term]:
        return mean_of_kinds(draws, at.context, at.split, who, name, weight)

    m, t = at.model, _T
    same = [*group(1, m, SAME), *group(-1, t, SAME)]
    other = [*group(-1, m, OTHER), *group(1, t, OTHER)]
    found = {
        "same - other disease (utility)": [*group(1, m, SAME), *group(-1, m, OTHER)],
        "lost by same disease": same,
        "lost by same more than by other": [*same, *other],
        "utility of others above 0.8 of target": [*group(1, m, OTHER), *group(-KEPT, t, OTHER)],
    }
    for name, terms in found.items():
        yield _row(draws, name, at, TRAIN, MEAN_OF_KINDS, terms)


def mean_of_kinds(
    draws: Draws, context: str, split: str, who: tuple[str, str], group: str, weight: float = 1.0
) -> list[Term]:
    """The utility of a group on the train fold as the plain mean over the kinds of questions (Figure 4)."""
    at = _Where(context, split, who[1])
    kinds = sorted(_kinds(draws, at, "retain", TRAIN))
    return [at.term(weight / len(kinds), who, UTILITY, TRAIN, kind, group) for kind in kinds]


def _of_scopes(draws: Draws, context: str) -> Iterator[dict[str, Any]]:
    """The growth of forgetting with the forget set, of scopes that were run in two sizes or more."""
    steps = draws.cells.steps
    for scope in dict.fromkeys(step.scope for step in steps.values()):
        names = [name for name, step in steps.items() if step.scope == scope and step.percent is not None]
        for method in draws.cells.methods:
            who = (UNLEARNED, method)
            there = [name for name in names if who in draws.cells.of(context, name)]
            if len(there) >= 2:
                small, large = there[0], there[-1]
                # The smaller set lies in the larger one: patients in both are drawn once for both.
                stratum = Stratum(context, (small, large), _SIDE[FORGETTING])
                terms = [
                    Term(sign * weight, stratum, split, one, TRAIN, ALL_KINDS, FORGETTING)
                    for sign, split in ((1, large), (-1, small))
                    for weight, one in ((1, who), (-1, _T))
                ]
                at = _Where(context, large, method)
                yield _row(draws, "growth of forgetting", at, TRAIN, ALL_KINDS, terms)


def _row(
    draws: Draws, name: str, at: _Where, fold: str, kind: str, terms: Sequence[Term], *, minus: float = 0.0
) -> dict[str, Any]:
    found, by_seed = draws.contrast(terms) if terms else (Contrast(None, reason="no such questions"), ())
    value, low, high = (None if one is None else one - minus for one in (found.value, found.low, found.high))
    return {
        "contrast": name,
        "context": at.context,
        "split": draws.cells.steps[at.split].split,
        "method": at.method,
        "fold": fold,
        "kind": kind,
        "metric": found.metric,
        "value": value,
        "low": low,
        "high": high,
        "n_subjects": found.n_subjects,
        "n_seeds": len(by_seed),
        "by_seed": tuple(one - minus for one in by_seed),
        "reason": found.reason,
    }


def _folds(draws: Draws, at: _Where) -> list[str]:
    places = draws.cells.any(at.context, at.split).places
    return list(dict.fromkeys(fold for side in ("forget", "retain") for fold, _ in places(side)))


def _kinds(draws: Draws, at: _Where, side: str, fold: str) -> set[str]:
    places = draws.cells.any(at.context, at.split).places(side)
    return {kind for found, kind in places if found == fold} - {ALL_KINDS}
