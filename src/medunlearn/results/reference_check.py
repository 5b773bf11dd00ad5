"""The reference check: whether the retrained model is a valid reference, and whether there is anything to forget.

Comparison with a retrained model has two premises, each a contrast with an interval over subjects:

- *learned*: the retrained model knows the retain set as the target does. A model trained too briefly is close to
  any destroyed model, which then looks best. Its utility must be above :data:`LEARNED` of the target's, with the
  whole interval. Our rules count a method with 0.8 of the target's utility as useful; the reference is allowed half
  of that loss, so that its own deficit does not decide the result.
- *memorized*: the target answers the forget set better than the retrained model, with the whole interval above 0.
  Otherwise there is nothing to forget, and an unchanged model is close, too.
"""

from __future__ import annotations

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
TRAINED_FOLD = "train"
_UTILITY, _FORGETTING = "MU", "AFE"


@dataclass(frozen=True, slots=True)
class ReferenceCheck:
    """Both premises of a comparison with the retrained model.

    Attributes:
        learned: the retrained model's utility on retain minus :data:`LEARNED` of the target's; above 0 = learned.
        memorized: the target's knowledge of the forget set minus the retrained model's; above 0 = memorized.
    """

    learned: Contrast
    memorized: Contrast

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons why the retrained model is not a valid reference; empty if both premises hold."""
        premises = (
            (
                self.learned,
                f"the retrained model knows the retain set as the target does ({LEARNED:g} of its score)",
            ),
            (self.memorized, "the target knows the forget set better than the retrained model"),
        )
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
    """True if a premise is confirmed: its whole interval is above 0."""
    return premise.low is not None and premise.low > 0.0


def check_reference(
    target: pd.DataFrame,
    retrained: pd.DataFrame,
    *,
    seeds: str | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> ReferenceCheck:
    """Check a target and its retrained model on the train fold, over all kinds.

    The measures are the composites MU on retain and AFE on forget, or their available parts; without any of those,
    the first measure of both models, higher = knows more.

    Args:
        target, retrained: score tables of both models on the same items, with side, fold and kind.
        seeds: the label of training seeds, if the tables have several.
        replicates, seed: bootstrap replicates and seed.
    """
    scores = pd.concat([target.assign(role="target"), retrained.assign(role="retrained")], ignore_index=True)
    scores = scores[scores["fold"] == TRAINED_FOLD]
    if scores.empty:
        nothing = Contrast(None, reason="nothing of the train fold was scored")
        return ReferenceCheck(nothing, nothing)
    labels, composites = ("role", "side", "kind"), (_UTILITY, _FORGETTING)
    draws = Draws(
        scores, labels, rollup="kind", seeds=seeds, composites=composites, replicates=replicates, seed=seed
    )

    def contrast(side: Side, of_retrained: float, of_target: float, measure: str) -> Contrast:
        stratum = Stratum.of(stable_seed("reference", side, seed), side=side)
        weights = {"retrained": of_retrained, "target": of_target}
        terms = [
            Term(weight, {"role": role, "side": side, "kind": ALL_KINDS}, measure, stratum)
            for role, weight in weights.items()
        ]
        return draws.contrast(terms)

    utility, forgetting = (_measure(scores, side) for side in ("retain", "forget"))
    gained = 1.0 if forgetting == _FORGETTING else -1.0
    return ReferenceCheck(
        contrast("retain", 1.0, -LEARNED, utility),
        contrast("forget", gained, -gained, forgetting),
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
