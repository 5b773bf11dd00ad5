"""Numbers of the forgetting check: contrasts of an unlearned model with its target and retrained model."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from medunlearn.data.records import RECORD
from medunlearn.results.composites import REGISTRY
from medunlearn.results.contrasts import Contrast, Draws, Stratum, Term
from medunlearn.results.forgetting_check import (
    INFORMATIVE,
    LEAST,
    TRAINED_FOLD,
    ControlSet,
    ForgettingCheck,
    RankControl,
)
from medunlearn.results.remembered import ROLES, remembered_subjects
from medunlearn.seeds import stable_seed
from medunlearn.statistics.bootstrap import REPLICATES

FORGETTING = "AFE"
RANKED = "ranked_first"
ONE_WAY = "es"
"""The part of AFE that asks another question on the retain side than on the forget side."""
CHOSEN_BY = "choosing"
"""Fold by which settings were chosen, so that it is no test of them."""

Weights = Mapping[tuple[str, str, str], float]
"""(Role, side, fold) -> weight of its number in a contrast."""


def check_forgetting(
    unlearned: pd.DataFrame,
    target: pd.DataFrame,
    retrained: pd.DataFrame,
    *,
    seeds: str | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> ForgettingCheck:
    """Check one unlearned model beside its target and retrained model.

    Args:
        unlearned, target, retrained: score tables on the same items, with side and fold; kinds count together.
        seeds: the label of training seeds, if the tables have several.
        replicates, seed: bootstrap replicates and seed.
    """
    tables = zip(ROLES, (unlearned, target, retrained), strict=True)
    scores = pd.concat([table.assign(role=role) for role, table in tables], ignore_index=True)
    scores = scores[(scores["measure"] != ONE_WAY) & (scores["fold"] != CHOSEN_BY)]
    return _ForgettingNumbers(scores, seeds, replicates, seed).check()


class _ForgettingNumbers:
    """Contrasts of the three models, with each side's subjects drawn once for all of them."""

    def __init__(self, scores: pd.DataFrame, seeds: str | None, replicates: int, seed: int) -> None:
        self.scores, self.seed = scores, seed
        trained = scores[(scores["side"] == "forget") & (scores["fold"] == TRAINED_FOLD) & scores["value"].notna()]
        measured = [str(name) for name in dict.fromkeys(trained["measure"]) if name != RANKED]
        self.parts = REGISTRY[FORGETTING].measured_parts(measured) or tuple(measured[:1])
        """Measures of knowledge: the parts of AFE, else the first measure that was scored."""
        composite = bool(REGISTRY[FORGETTING].measured_parts(measured)) or not measured
        self.measure, self.sign = (FORGETTING, 1.0) if composite else (measured[0], -1.0)
        self.draws = Draws(
            scores[scores["measure"].isin([*self.parts, RANKED])],
            ("role", "side", "fold"),
            seeds=seeds,
            composites=(FORGETTING,),
            replicates=replicates,
            seed=seed,
        )

    def check(self) -> ForgettingCheck:
        gone = _change("unlearned", "target", "forget", TRAINED_FOLD)
        moved, to_forget = self.forgetting(gone), self.forgetting(_RETRAINED_OVER_TARGET)
        past_half = self.forgetting(_sum(gone, _scaled(_RETRAINED_OVER_TARGET, -LEAST)))
        share = None
        if moved.value is not None and to_forget.value is not None and to_forget.value > 0.0:
            share = moved.value / to_forget.value
        forgotten = self.scores[self.scores["side"] == "forget"]
        answered = forgotten[(forgotten["fold"] == TRAINED_FOLD) | (forgotten["measure"] == RANKED)]
        return ForgettingCheck(
            to_forget.measure or self.measure,
            to_forget,
            share,
            past_half,
            tuple(self._control(fold) for fold in self._folds("retain")),
            tuple(self._ranks(fold) for fold in self._folds("forget", RANKED)),
            remembered_subjects(answered, (self.parts, (RANKED,))),
            self._gap_beyond_damage(),
        )

    def forgetting(self, weights: Weights) -> Contrast:
        """A weighted sum of forgetting, higher = knows less."""
        return self._contrast(_scaled(weights, self.sign), self.measure)

    def _contrast(self, weights: Weights, measure: str) -> Contrast:
        terms = [
            Term(
                weight,
                {"role": role, "side": side, "fold": fold},
                measure,
                Stratum.of(stable_seed("forgetting", side, self.seed), side=side),
            )
            for (role, side, fold), weight in weights.items()
        ]
        return self.draws.contrast(terms)

    def _folds(self, side: str, measure: str | None = None) -> list[str]:
        """Folds of a side with scores, the trained one first; records only if a measure is named."""
        rows = self.scores[(self.scores["side"] == side) & self.scores["value"].notna()]
        rows = rows[rows["fold"] != RECORD] if measure is None else rows[rows["measure"] == measure]
        return sorted(map(str, rows["fold"].unique()), key=lambda fold: (fold != TRAINED_FOLD, fold))

    def _sizes(self, fold: str) -> tuple[float, float] | str:
        """The amount to be forgotten (A) and the amount of a control set to be lost (B), in the measures that
        both have; else why they are not known.
        """
        same_parts = _all_cells(fold)
        to_forget, of_target, of_unseen = (
            self.forgetting(_sum(same_parts, weights))
            for weights in (
                _RETRAINED_OVER_TARGET,
                {("target", "retain", fold): 1.0},
                {("retrained", "forget", TRAINED_FOLD): 1.0},
            )
        )
        if to_forget.value is None or of_target.value is None or of_unseen.value is None:
            return to_forget.reason
        nothing_known = 1.0 if self.measure == FORGETTING else 0.0
        return to_forget.value, (of_unseen.value if fold == TRAINED_FOLD else nothing_known) - of_target.value

    def _control(self, fold: str) -> ControlSet:
        sizes = self._sizes(fold)
        if isinstance(sizes, str):
            return ControlSet(fold, reason=sizes)
        to_forget, left = sizes
        if to_forget <= 0.0:
            return ControlSet(fold, reason="there is nothing to forget")
        if left < INFORMATIVE * to_forget:
            few = "the target knows too little of them to lose any"
            return ControlSet(fold, reason=few, nothing_to_lose=True)
        lost = _change("unlearned", "target", "retain", fold)
        same_loss = _scaled(lost, -to_forget / left)
        gone = _change("unlearned", "target", "forget", TRAINED_FOLD)
        half = _scaled(_RETRAINED_OVER_TARGET, LEAST)
        beyond = self.forgetting(_sum(_all_cells(fold), gone, same_loss, _scaled(half, -1.0)))
        kept = self.forgetting(_sum(_all_cells(fold), half, same_loss))
        share = None if kept.value is None else LEAST - kept.value / to_forget
        return ControlSet(fold, share, beyond, kept, "" if share is not None else kept.reason)

    def _ranks(self, fold: str) -> RankControl:
        own, target, retrained = ((role, "forget", fold) for role in ROLES)
        contrasts: tuple[Weights, ...] = (
            {own: 1.0},
            {retrained: 1.0},
            {own: 1.0, retrained: -1.0},
            {target: LEAST, retrained: LEAST, own: -1.0},
            {target: 1.0, retrained: -1.0},
        )
        return RankControl(fold, *(self._contrast(weights, RANKED) for weights in contrasts))

    def _gap_beyond_damage(self) -> float | None:
        """Forgetting minus the retrained model's, less the share lost of trained retained questions."""
        sizes = self._sizes(TRAINED_FOLD)
        if isinstance(sizes, str) or sizes[1] <= 0.0:
            return None
        gap = self.forgetting(_change("unlearned", "retrained", "forget", TRAINED_FOLD)).value
        lost = self.forgetting(_change("unlearned", "retrained", "retain", TRAINED_FOLD)).value
        return None if gap is None or lost is None else gap - max(lost, 0.0) * sizes[0] / sizes[1]


def _change(role: str, over: str, side: str, fold: str) -> Weights:
    """One model's number minus another's."""
    return {(role, side, fold): 1.0, (over, side, fold): -1.0}


_RETRAINED_OVER_TARGET = _change("retrained", "target", "forget", TRAINED_FOLD)


def _all_cells(fold: str) -> Weights:
    """Weights of 0, with which a contrast takes only the measures that a control set shares with the forget set."""
    cells = [*((role, "forget", TRAINED_FOLD) for role in ROLES)]
    cells += [(role, "retain", fold) for role in ("unlearned", "target")]
    return dict.fromkeys(cells, 0.0)


def _scaled(weights: Weights, by: float) -> Weights:
    return {cell: by * weight for cell, weight in weights.items()}


def _sum(*sums: Weights) -> Weights:
    """One weighted sum from several; a cell's weights are added."""
    total: dict[tuple[str, str, str], float] = {}
    for weights in sums:
        for cell, weight in weights.items():
            total[cell] = total.get(cell, 0.0) + weight
    return total
