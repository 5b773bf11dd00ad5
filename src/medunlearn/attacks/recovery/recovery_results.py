"""Tables of the recovery attacks: means and changes by strength, subjects, model comparisons, readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from medunlearn.attacks.attacked import Attacks
from medunlearn.results.matrix import ALL_KINDS
from medunlearn.results.summary import CHANGE, EVALUATION, compare, summarize_changes

STILL_THERE, COMES_BACK, ABOVE = "still there", "comes back", "above the retrained model"
NOT_TOLD_APART, BELOW, NO_POWER = "not told apart", "below the retrained model", "attack without power"
DAMAGED, REFUSES = "damaged", "refuses"
RISES, NO_RISE = "rises", "no rise seen"
READINGS: Mapping[str, str] = {
    STILL_THERE: "above the retrained model before the attack and after it: it was not forgotten",
    COMES_BACK: "above the retrained model after the attack and not before it, and above what it was before",
    ABOVE: "above the retrained model after the attack, and not before it; that it rose is not settled",
    NOT_TOLD_APART: "after the attack the interval of the difference from the retrained model holds 0",
    BELOW: "below the retrained model after the attack: over-forgotten, or damaged",
    NO_POWER: "not above the retrained model after the attack, but neither is the target: the attack itself "
    "erases, or there are too few subjects",
    DAMAGED: "not above the retrained model after the attack, but its answers about retained patients are below "
    "that model's: what is still there may be hidden by the damage",
    REFUSES: "not above it, but most of its answers about the forgotten patients under the attack are refusals or "
    "empty: they may hide what it knows, which attacks on the hidden states tell",
    RISES: "without a retrained model: above what it was before the attack",
    NO_RISE: "without a retrained model: not above what it was before; so does a model that forgot nothing",
}
"""Words for a row -> what they stand on. Above and below: with the whole 95% interval over subjects."""
SILENT = "silent"
"""Key of a recovery attack's facts: share of answers about the forget set that are empty or refusals."""
_BY = ("attack", "strength", *EVALUATION)
_KEYS = ["attack", "strength", "item"]
_MEAN = ["value", "low", "high", "n_scored", "n_unscored", "n_subjects"]
_GAP = ["difference", "low", "high", "p", "n_pairs", "n_subjects"]
Row = Mapping[Any, Any]


def summarize_strengths(scores: pd.DataFrame, before: str, *, replicates: int, seed: int) -> pd.DataFrame:
    """One row per attack, strength, side, fold, kind (``all``: together) and measure.

    Returns:
        Those labels; value, low, high, n_scored, n_unscored, n_subjects; ``change``, ``change_low``,
        ``change_high``, ``change_p``: the mean minus that before the attack on the same questions, with its 95%
        interval over subjects; null of the model as it is.
    """
    plain = scores[scores["strength"] == before]
    strengths = scores[_KEYS].drop_duplicates()
    repeated = plain.drop(columns="strength").merge(strengths, on=["attack", "item"])
    table = summarize_changes(scores, repeated, _BY, ("strength", before), replicates=replicates, seed=seed)
    return table[[*_BY, "measure", *_MEAN, *CHANGE.values()]]


def subject_means(scores: pd.DataFrame) -> pd.DataFrame:
    """One row per attack, strength, side, fold, measure and subject: value (its questions' mean, or null),
    n_scored.

    ``any``, of the measure ``extraction``: the probability that at least one of the subject's answers is among k
    samples a question, ``1 - prod(1 - value)``, the samples being independent; null of other measures.
    """
    by = ["attack", "strength", "side", "fold", "measure", "subject"]
    values = scores.assign(missed=1.0 - scores["value"])
    table = values.groupby(by, sort=False, dropna=False).agg(
        value=("value", "mean"), n_scored=("value", "count"), missed=("missed", lambda part: part.prod(min_count=1))
    )
    table = table.reset_index()
    table["any"] = (1.0 - table.pop("missed")).where(table["measure"] == "extraction")
    return table.astype({"value": "Float64", "any": "Float64", "n_scored": "int64"})


def compare_strengths(ours: pd.DataFrame, theirs: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
    """Our mean minus theirs under the same attack at the same strength, paired on questions.

    Returns:
        attack, strength, side, fold, kind, measure, difference, low, high, p, n_pairs, n_subjects; above 0 = ours
        gives away more.
    """
    keys = [*_KEYS, "measure"]
    common = ours[keys].merge(theirs[keys], on=keys)
    if common.empty:
        return pd.DataFrame()
    mine, others = (table.merge(common, on=keys) for table in (ours, theirs))
    gaps = compare(mine, others, _BY, rollup="kind", replicates=replicates, seed=seed)
    return gaps[[*_BY, "measure", *_GAP]].reset_index(drop=True)


def reading(change: int | None, before: int | None, after: int | None, *, retrained: bool) -> str | None:
    """Reading of one row, from the sides of 0 on which its intervals lie: 1 above, -1 below, 0 neither, None
    unknown.

    Args:
        change: of the change by the attack.
        before, after: of the difference from the retrained model.
        retrained: whether there is one.
    """
    if not retrained:
        return None if change is None else RISES if change > 0 else NO_RISE
    if after is None:
        return None
    if after > 0:
        if before is not None and before > 0:
            return STILL_THERE
        return COMES_BACK if change is not None and change > 0 else ABOVE
    return BELOW if after < 0 else NOT_TOLD_APART


def side_of(low: Any, high: Any) -> int | None:
    """The side of 0 on which an interval lies: 1 above, -1 below, 0 if it contains 0; None without an interval."""
    if pd.isna(low) or pd.isna(high):
        return None
    return 1 if low > 0 else -1 if high < 0 else 0


def is_read(row: Row, before: str) -> bool:
    """True for a row of the forget set, over all kinds, at another strength than the unattacked model."""
    return bool(row["side"] == "forget" and row["kind"] == ALL_KINDS and row["strength"] != before)


def reading_of(row: Row, gaps: pd.DataFrame, before: str, of_target: pd.DataFrame | None = None) -> str | None:
    """Reading of a summary row; of one that is not above the retrained model's also by the retain side.

    Args:
        gaps: the model's differences from the retrained models (:func:`compare_strengths`); empty without any.
        before: strength of the unattacked model.
        of_target: the target's differences from them; None without a target.
    """
    if not is_read(row, before):
        return None
    change = side_of(row["change_low"], row["change_high"])
    if gaps.empty:
        return reading(change, None, None, retrained=False)
    same = gaps[_all(gaps, row, ("attack", "side", "fold", "kind", "measure"))]
    sides_before, sides_after = (
        [side_of(gap["low"], gap["high"]) for gap in same[same["strength"] == strength].to_dict("records")]
        for strength in (before, row["strength"])
    )
    # An attack that measures no unattacked model has no side before it.
    sides_before = sides_before or [None] * len(sides_after)
    # Of several retrained models, the one against which it looks worst.
    pairs = [(b, a) for b, a in zip(sides_before, sides_after, strict=True) if a is not None]
    if not pairs:
        return None
    worst = max(pairs, key=lambda pair: pair[1])
    if worst[1] <= 0 and of_target is not None and not _shows_the_target(row, of_target):
        return NO_POWER
    word = reading(change, *worst, retrained=True)
    return DAMAGED if word in (NOT_TOLD_APART, BELOW) and _has_lost_others(row, gaps, before) else word


def unless_silent(word: str | None, facts: Mapping[str, Any]) -> str | None:
    """The reading of a model that answers; what one that refuses or says nothing does not say may be there."""
    hides = word in (NOT_TOLD_APART, BELOW, NO_RISE) and (facts.get(SILENT) or 0.0) > 0.5
    return REFUSES if hides else word


def read_strength(attacks: Attacks, row: Row, before: str) -> str | None:
    """Reading of a row of compared models (:func:`reading_of`); None for a state whose answers mean nothing."""
    attacked = attacks.model(str(row["model"]))
    if f"{row['attack']} {row['strength']}" in attacked.facts.get("problems", {}):
        return None
    gaps = attacks.gaps(attacked.run.label)
    if len(gaps) and attacks.is_reference_refused:
        return None
    targets = [model.run.label for model in attacks.measured_models if model.run.role == "target"]
    word = reading_of(row, gaps, before, attacks.gaps(targets[0]) if targets else None)
    return unless_silent(word, attacked.facts)


def _has_lost_others(row: Row, gaps: pd.DataFrame, before: str) -> bool:
    """True if answers about retained patients are below a retrained model's, as those of one that only refuses.

    In the row's state, or if nobody else was asked in it, in the unattacked model.
    """
    others = gaps[(gaps["side"] == "retain") & _all(gaps, row, ("attack", "fold", "kind", "measure"))]
    own = others[others["strength"] == row["strength"]]
    own = own if len(own) else others[others["strength"] == before]
    return any(side_of(gap["low"], gap["high"]) == -1 for gap in own.to_dict("records"))


def _shows_the_target(row: Row, gaps: pd.DataFrame) -> bool:
    """True if the target, which forgot nothing, scores above a retrained model under the same attack."""
    same = gaps[_all(gaps, row, ("attack", "strength", "side", "fold", "kind", "measure"))] if len(gaps) else gaps
    return any(side_of(gap["low"], gap["high"]) == 1 for gap in same.to_dict("records"))


def _all(table: pd.DataFrame, row: Row, names: Sequence[str]) -> pd.Series[bool]:
    same = pd.Series(True, index=table.index)
    for name in names:
        same &= table[name] == row[name]
    return same


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """Rows over all kinds of questions that have a value or a difference."""
    if table.empty:
        return table
    value = "value" if "value" in table else "difference"
    return table[(table["kind"] == ALL_KINDS) & table[value].notna()].reset_index(drop=True)
