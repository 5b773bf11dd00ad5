"""The reference check: whether target and retrained model differ by the forget set alone.

Comparison with a retrained model has premises, each a contrast with an interval over subjects:

- *learned*: the two know the retain set alike. Each must have more than :data:`LEARNED` of the other's utility,
  with the whole interval (two one-sided tests). A retrained model that was trained too briefly is close to any
  destroyed model, which then looks best; a target that was trained too briefly is beaten by any model that trained
  on. Our rules count a method with 0.8 of the target's utility as useful; the reference is allowed half of that
  loss, so that its own deficit does not decide the result.
- *alike on unseen questions*, where these were asked and at least five subjects have them: the two differ by less
  than :data:`UNSEEN` of the target's utility on the retain set, both ways. What neither was trained on shows
  whether they are the same kind of model.
- *memorized*: the target answers the forget set better than the retrained model, with the whole interval above 0.
  Otherwise there is nothing to forget, and an unchanged model is close, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from medunlearn.data.origins import decisive
from medunlearn.data.records import Side
from medunlearn.results.composites import DEGRADATION_PART, REGISTRY, Composite
from medunlearn.results.contrasts import Contrast, Draws, Stratum, Term
from medunlearn.results.matrix import ALL_KINDS
from medunlearn.seeds import stable_seed
from medunlearn.statistics.bootstrap import REPLICATES

LEARNED = 0.9
UNSEEN = 0.2
ROUNDING = 1e-9
"""Differences below this are rounding."""
TRAINED_FOLD = "train"
UNSEEN_FOLDS: Mapping[str, str] = {"holdout": "unseen", "rephrase": "rephrased", "utility": "general"}
"""Folds that no model is trained on -> their questions in words."""
_UTILITY, _FORGETTING = "MU", "AFE"


@dataclass(frozen=True, slots=True)
class UnseenGap:
    """Target and retrained model on questions of the retain side that neither was trained on.

    Attributes:
        retrained: :data:`UNSEEN` of the target's utility on retain, plus the retrained model's here minus the
            target's; above 0 = no worse.
        target: the same the other way round.
    """

    fold: str
    retrained: Contrast
    target: Contrast


@dataclass(frozen=True, slots=True)
class ReferenceCheck:
    """Premises of a comparison with the retrained model.

    Attributes:
        learned: the retrained model's utility on retain minus :data:`LEARNED` of the target's; above 0 = learned.
        memorized: the target's knowledge of the forget set minus the retrained model's; above 0 = memorized.
        target_learned: the target's utility on retain minus :data:`LEARNED` of the retrained model's; None in
            checks made before it was measured.
        unseen: what was asked of both without training.
    """

    learned: Contrast
    memorized: Contrast
    target_learned: Contrast | None = None
    unseen: tuple[UnseenGap, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons why the retrained model is not a valid reference; empty if all premises hold."""
        share = f"({LEARNED:g} of its score)"
        premises = [(self.learned, f"the retrained model knows the retain set as the target does {share}")]
        if self.target_learned is not None:
            premises.append(
                (self.target_learned, f"the target knows the retain set as the retrained model does {share}")
            )
        for gap in self.unseen:
            on = f"on {UNSEEN_FOLDS[gap.fold]} questions (within {UNSEEN:g} of its score on retain)"
            premises += [
                (contrast, f"{worse} is no worse than {better} {on}")
                for contrast, worse, better in (
                    (gap.retrained, "the retrained model", "the target"),
                    (gap.target, "the target", "the retrained model"),
                )
                if contrast.low is not None
            ]
        premises.append((self.memorized, "the target knows the forget set better than the retrained model"))
        return tuple(_reason(contrast, premise) for contrast, premise in premises if not holds(contrast))

    @property
    def caveats(self) -> tuple[str, ...]:
        """The reasons as sentences for the top of a page."""
        return tuple(f"Nothing is decided against the retrained model. {reason}" for reason in self.reasons)

    @property
    def passed(self) -> bool:
        """True if the retrained model is a valid reference."""
        return not self.reasons


def holds(premise: Contrast) -> bool:
    """True if a premise is confirmed: its whole interval is above 0, or it holds for every single subject alike.

    The interval of subjects that do not differ allows for rare ones that would (:mod:`~.statistics.intervals`),
    which no few subjects can exclude. A premise is about the models as they are on these.
    """
    if premise.value is None or premise.low is None:
        return False
    error = getattr(premise.uncertainty, "error", None)
    alike = error is not None and float(error) < ROUNDING
    return premise.low > 0.0 or (alike and premise.value > ROUNDING)


def check_reference(
    target: pd.DataFrame,
    retrained: pd.DataFrame,
    *,
    seeds: str | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> ReferenceCheck:
    """Check a target and its retrained model, over all kinds.

    The measures are the composites MU on retain and AFE on forget, or their available parts; without any of those,
    the first measure of both models, higher = knows more.

    Args:
        target, retrained: score tables of both models on the same items, with side, fold and kind.
        seeds: the label of training seeds, if the tables have several.
        replicates, seed: bootstrap replicates and seed.
    """
    scores = pd.concat([target.assign(role="target"), retrained.assign(role="retrained")], ignore_index=True)
    trained = scores[scores["fold"] == TRAINED_FOLD]
    if trained.empty:
        nothing = Contrast(None, reason="nothing of the train fold was scored")
        return ReferenceCheck(nothing, nothing)
    labels, composites = ("role", "side", "fold", "kind"), (_UTILITY, _FORGETTING)
    draws = Draws(
        scores, labels, rollup="kind", seeds=seeds, composites=composites, replicates=replicates, seed=seed
    )

    def contrast(side: Side, measure: str, weights: Mapping[tuple[str, str], float]) -> Contrast:
        folds = tuple(dict.fromkeys(fold for _, fold in weights))
        stratum = Stratum.of(stable_seed("reference", side, seed), side=side, fold=folds)
        terms = [
            Term(weight, {"role": role, "side": side, "fold": fold, "kind": ALL_KINDS}, measure, stratum)
            for (role, fold), weight in weights.items()
        ]
        return draws.contrast(terms)

    utility, forgetting = (_measure(trained, side) for side in ("retain", "forget"))
    gained = 1.0 if forgetting == _FORGETTING else -1.0
    of_target, of_retrained = ("target", TRAINED_FOLD), ("retrained", TRAINED_FOLD)

    def unseen(fold: str) -> UnseenGap:
        margin, here = {of_target: UNSEEN}, {("retrained", fold): 1.0, ("target", fold): -1.0}
        other_way = {cell: -weight for cell, weight in here.items()}
        no_worse = (contrast("retain", utility, {**margin, **gap}) for gap in (here, other_way))
        return UnseenGap(fold, *no_worse)

    asked = scores.loc[(scores["side"] == "retain") & scores["value"].notna(), "fold"]
    return ReferenceCheck(
        contrast("retain", utility, {of_retrained: 1.0, of_target: -LEARNED}),
        contrast("forget", forgetting, {of_retrained: gained, of_target: -gained}),
        contrast("retain", utility, {of_target: 1.0, of_retrained: -LEARNED}),
        tuple(unseen(fold) for fold in UNSEEN_FOLDS if (asked == fold).any()),
    )


def _measure(scores: pd.DataFrame, side: Side) -> str:
    """The composite of a side, or a measure if none of the composite's parts was measured."""
    composite: Composite = REGISTRY[_UTILITY if side == "retain" else _FORGETTING]
    rows = scores[(scores["side"] == side) & scores["value"].notna()]
    measured = decisive(dict.fromkeys(rows["measure"]))
    parts = [name for name in composite.parts if name in measured and name != DEGRADATION_PART]
    return composite.name if parts or not measured else measured[0]


def _reason(contrast: Contrast, premise: str) -> str:
    if contrast.value is None or contrast.low is None or contrast.high is None:
        why = contrast.reason or "no interval"
        return f"It is not known whether {premise}: {why}."
    numbers = (
        f"{contrast.measure}: {contrast.value:+.3f} [{contrast.low:+.3f}, {contrast.high:+.3f}], to be above 0"
    )
    return f"It {'does not hold' if contrast.high < 0.0 else 'is not settled'} that {premise} ({numbers})."
