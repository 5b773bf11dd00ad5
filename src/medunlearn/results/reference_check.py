"""The reference check: may anything be read against this retrained model, and is there anything to forget?

A number is read against a retrained model on two premises, each a contrast with an interval over subjects:

- *learned*: the retrained model knows the retain set as the target does. A model that was trained too briefly
  stands near any destroyed model, which then looks closest. Its utility must be above :data:`LEARNED` of the
  target's, with the whole interval. Our rules count a method that keeps 0.8 of the target's utility as useful; the
  reference itself is allowed half of that loss, so that its own shortfall cannot decide what a method kept.
- *memorized*: the target answers the forget set better than the retrained model, with the whole interval above 0.
  Otherwise there is nothing to forget, and a model that did nothing is close, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

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
    """Both premises of a verdict against the retrained model.

    Attributes:
        learned: the retrained model's utility on retain minus :data:`LEARNED` of the target's; above 0 = learned.
        memorized: what the target knows of the forget set beyond the retrained model; above 0 = memorized.
    """

    learned: Contrast
    memorized: Contrast

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons that nothing may be read against the retrained model; empty if both premises hold."""
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
        """True if models may be read against this retrained model."""
        return not self.reasons


def holds(premise: Contrast) -> bool:
    """True if a premise is settled: its whole interval is above 0."""
    return premise.low is not None and premise.low > 0.0


def check_reference(
    target: pd.DataFrame,
    retrained: pd.DataFrame,
    *,
    seeds: str | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> ReferenceCheck:
    """Check a target and its retrained model on the train fold, all kinds together.

    The measures are the composites MU on retain and AFE on forget, or their available parts; where none of those
    was measured, the first measure that both models have, higher = knows more.

    Args:
        target, retrained: score tables of both models on the same items, with side, fold and kind.
        seeds: the label of training seeds, where the tables hold several.
        replicates, seed: of the draws of subjects.
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
    """The composite of a side, or a measure where none of the composite's parts was measured."""
    composite: Composite = REGISTRY[_UTILITY if side == "retain" else _FORGETTING]
    rows = scores[(scores["side"] == side) & scores["value"].notna()]
    measured = list(dict.fromkeys(rows["measure"]))
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
