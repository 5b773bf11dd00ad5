"""Which epoch is best, by a rule that is stated: pure functions of the table of epochs.

Training goes by the validation loss (:data:`VALIDATION_RULE`): the least is best. Unlearning goes by utility and
forgetting together (:func:`forgetting_rule`): an epoch's number is a harmonic mean, so that neither utility alone
nor forgetting alone makes an epoch good. Its parts are, on the fold that was named first among those asked:

- where the benchmark's paper breaks its measures down by node (LUME: regurgitation and knowledge of each task):
  each of them on retain as it is, and on forget as 1 minus it; knowledge by type of identifier, which is a task's
  knowledge once more, is none;
- otherwise the composites of all kinds together: MU on retain and AFE on forget, or what they are called where
  parts of theirs are missing.

A part without a value is left out; an epoch that lacks parts which another has cannot be compared with it and has
no number. Of equal numbers the earlier epoch's is the better. The target, epoch 0, is not chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from medunlearn.data.builders import IDENTIFIER
from medunlearn.results.composites import COMPOSITES, harmonic_mean
from medunlearn.results.matrix import ALL_KINDS


@dataclass(frozen=True)
class Standing:
    """One epoch by the rule.

    Attributes:
        parts: what the number is made of, 0-1, higher = better.
        value: harmonic mean of the parts, 0-1, higher = more utility and forgetting together; None without a part
            of each side, or where another epoch has parts that this one lacks. By the validation loss: the loss.
        least: the least value is the best, not the largest.
    """

    epoch: int
    parts: dict[str, float]
    value: float | None
    least: bool = False

    def beats(self, other: Standing | None) -> bool:
        """Whether this one is better; an equal one is not, and one without a number is neither."""
        if self.value is None or other is None or other.value is None:
            return self.value is not None
        return self.value < other.value if self.least else self.value > other.value

    def facts(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "value": self.value, "parts": self.parts}


def standings(epochs: pd.DataFrame, fold: str) -> list[Standing]:
    """Every epoch behind the target, in order.

    Args:
        epochs: the table of epochs (:mod:`medunlearn.pipeline.epochs.epochs`).
        fold: whose rows count.
    """
    rows = epochs[(epochs["epoch"] > 0) & (epochs["fold"] == fold) & (epochs["level"] != IDENTIFIER)]
    found = {epoch: _parts(rows[rows["epoch"] == epoch]) for epoch in rows["epoch"].unique().tolist()}
    every = set().union(*found.values()) if found else set()
    whole = {side for name in every for side in ("forget", "retain") if name.endswith(f" on {side}")}
    return [
        Standing(
            epoch,
            parts,
            harmonic_mean(list(parts.values())) if len(whole) == 2 and parts.keys() == every else None,
        )
        for epoch, parts in sorted(found.items())
    ]


def _parts(rows: pd.DataFrame) -> dict[str, float]:
    """Name of each part, with its side, -> its value in the direction in which more is better."""
    by_node = rows[(rows["node"] != "") & rows["value"].notna()]
    if (rows["node"] != "").any():
        return {
            f"{'1-' if side == 'forget' else ''}{measure} of {node} on {side}": _inside(value, side == "forget")
            for node, measure, side, value in by_node[["node", "measure", "side", "value"]].itertuples(index=False)
        }
    found = {}
    whole = rows[(rows["kind"] == ALL_KINDS) & (rows["parts"] != "") & rows["value"].notna()]
    for composite in COMPOSITES:
        for metric, parts, value in whole.loc[
            whole["side"] == composite.side, ["metric", "parts", "value"]
        ].itertuples(index=False):
            if metric == composite.shown_as(str(parts).split(",")):
                found[f"{metric} on {composite.side}"] = _inside(value, False)
    return found


def _inside(value: Any, inverted: bool) -> float:
    return 1.0 - float(value) if inverted else float(value)


def best_of(found: Sequence[Standing]) -> Standing | None:
    """The best so far; None where no epoch has a number."""
    best: Standing | None = None
    for one in found:
        if one.beats(best):
            best = one
    return best


def is_over(found: Sequence[Standing], patience: int) -> bool:
    """Whether ``patience`` epochs or more have gone by since the best one; never with a patience of 0.

    Without any number there is nothing to have improved on, and the first epoch counts as the best.
    """
    if not patience or not found:
        return False
    best = best_of(found) or found[0]
    return found[-1].epoch - best.epoch >= patience


RULE = (
    "harmonic mean of utility on retain and forgetting on forget ({parts}), fold {fold}; higher is better, of "
    "equal epochs the earlier"
)


def rule(found: Sequence[Standing], fold: str) -> str:
    """The rule in words, with the parts that it came to."""
    parts = max((list(one.parts) for one in found), key=len, default=[])
    return RULE.format(parts=", ".join(parts) or "no part was scored", fold=fold)


@dataclass(frozen=True)
class Rule:
    """What makes an epoch the best.

    Attributes:
        standings: the table of epochs -> every epoch behind the first, in order.
        words: the rule in words, given what it came to.
    """

    standings: Callable[[pd.DataFrame], list[Standing]]
    words: Callable[[Sequence[Standing]], str]


def forgetting_rule(fold: str) -> Rule:
    """Utility on retain and forgetting on forget, on one fold."""
    return Rule(lambda epochs: standings(epochs, fold), lambda found: rule(found, fold))


VALIDATION_LOSS = "validation loss"
"""What rows of the table of epochs call it (:mod:`medunlearn.papers.memorization.diagnosis.validation`)."""


def by_validation_loss(epochs: pd.DataFrame) -> list[Standing]:
    """Every epoch behind the first with its validation loss."""
    rows = epochs[(epochs["epoch"] > 0) & (epochs["measure"] == VALIDATION_LOSS)]
    values = {
        int(epoch): None if pd.isna(value) else float(value)
        for epoch, value in zip(rows["epoch"], rows["value"], strict=True)
    }
    return [
        Standing(epoch, {} if value is None else {VALIDATION_LOSS: value}, value, least=True)
        for epoch, value in sorted(values.items())
    ]


VALIDATION_RULE = Rule(by_validation_loss, lambda found: "least validation loss; of equal epochs the earlier")
"""Source: Memorization in Large Language Models in Medicine, Section 3.3 (early stopping)."""


def stop_epoch(found: Sequence[Standing], patience: int) -> int | None:
    """The epoch at whose end a run with this patience ends; None where it goes on to its last."""
    return next((one.epoch for place, one in enumerate(found, 1) if is_over(found[:place], patience)), None)
