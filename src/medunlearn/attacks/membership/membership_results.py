"""Tables of membership scores: areas with intervals, rates at low false positive rates, curves, differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.attacks.attacked import Attacks
from medunlearn.attacks.membership.passage import Passage, PassageScorer, lacking
from medunlearn.attacks.membership.sample import EVERY, Candidate
from medunlearn.errors import InputError
from medunlearn.metrics.measure import Score
from medunlearn.results.evaluated import joined
from medunlearn.results.scores import numbers, score_table
from medunlearn.statistics.intervals import Estimate
from medunlearn.statistics.roc import RocSample, nonmembers_needed, roc_curve

CURVES = "membership_curves.parquet"
MEASURE = "membership"
"""The name of the family, and of the measure of its scores."""
EPOCH_MEASURE = "membership_auc"
"""Measure of the areas in a run's table of epochs."""
AUC = "auc"
RATES: Mapping[str, float] = {"tpr_at_1pct_fpr": 0.01, "tpr_at_0.1pct_fpr": 0.001}
CHANCE = 0.5
ABOVE, WITHIN, BELOW = "above", "not told apart", "below"
OVER_FORGOTTEN, LEAKS, NOT_TOLD_APART = "over-forgotten", "still leaks", "not told apart"

READINGS: Mapping[str, str] = {
    LEAKS: "documents of the forget set are told by a higher score than the retrained model gives them",
    OVER_FORGOTTEN: "they are told by a lower score: the model avoids them, which shows them as well",
}
"""Words for an area -> what they stand on: the interval from the retrained model's, else from 0.5."""

_MOST_POINTS = 500


def score_candidates(
    candidates: Sequence[Candidate], passages: Sequence[Passage], attacks: Mapping[str, PassageScorer]
) -> pd.DataFrame:
    """The score table of membership: an item per document; labels ``node``, ``member``, ``attack``."""
    rows = [
        (who.record.record_id, who.subject, MEASURE, who.group, who.member, name, score.value, score.reason)
        for who, passage in zip(candidates, passages, strict=True)
        for name, attack in attacks.items()
        for score in (_score(attack, passage),)
    ]
    columns = ["item", "subject", "measure", "node", "member", "attack", "value", "reason"]
    return score_table(pd.DataFrame(rows, columns=columns))


def _score(attack: PassageScorer, passage: Passage) -> Score:
    if reason := lacking(attack, passage):
        return Score.unscored(reason)
    score = attack.score(passage)
    undefined = score.value is not None and np.isnan(score.value)
    return Score.unscored("the score is no number (NaN)") if undefined else score


def summarize(scores: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
    """One row per group, attack and measure.

    Columns: group, attack, measure (``auc``, ``tpr_at_1pct_fpr``, ``tpr_at_0.1pct_fpr``), value, low, high, reason
    (why there is no value), against_chance (of an area: ``above``, ``below`` where the interval leaves 0.5 out on
    that side, else ``not distinguished``), n_members and n_nonmembers (scored ones), n_unscored, n_subjects (of
    members or non-members, whichever are fewer).
    """
    rows = [
        {
            "group": group,
            "attack": attack,
            "measure": measure,
            "value": estimate.value,
            "low": estimate.low,
            "high": estimate.high,
            "reason": reason,
            "against_chance": _side(estimate.low, estimate.high, CHANCE) if measure == AUC else None,
            "n_members": int((part["value"].notna() & part["member"]).sum()),
            "n_nonmembers": int((part["value"].notna() & ~part["member"]).sum()),
            "n_unscored": int(part["value"].isna().sum()),
            "n_subjects": estimate.n_clusters,
        }
        for (group, attack), part in scores.groupby(["node", "attack"], sort=False)
        for measure, estimate, reason in _measures(part, replicates, seed)
    ]
    types = dict.fromkeys(("value", "low", "high"), "Float64") | dict.fromkeys(
        ("reason", "against_chance"), "string"
    )
    return pd.DataFrame(rows).astype(types)


def _measures(part: pd.DataFrame, replicates: int, seed: int) -> Iterator[tuple[str, Estimate, str | None]]:
    sample = RocSample(part["member"].tolist(), part["subject"].tolist(), replicates, seed=seed)
    values, reasons = numbers(part), part["reason"].dropna()
    area = sample.auc(values)
    if area.value is None:
        reason = str(reasons.mode().iloc[0]) if len(reasons) else "no document is scored on one side"
        yield from ((measure, area, reason) for measure in (AUC, *RATES))
        return
    yield AUC, area, None
    outside = int((part["value"].notna() & ~part["member"]).sum())
    for measure, fpr in RATES.items():
        rate, least = sample.tpr_at(values, fpr), nonmembers_needed(fpr)
        few = f"not measurable: a false positive rate of {fpr:.1%} takes {least:,} non-members, not {outside}"
        yield measure, rate, few if rate.value is None else None


def curves(scores: pd.DataFrame) -> pd.DataFrame:
    """Points of the ROC curves: group, attack, fpr, tpr, threshold; at most 500 a curve, the corners kept."""
    tables = []
    for key, part in scores.groupby(["node", "attack"], sort=False):
        group, attack = map(str, key)
        try:
            curve = roc_curve(numbers(part), part["member"].tolist())
        except InputError:
            continue  # nothing is scored on one side; the summary says why
        table = pd.DataFrame({"fpr": curve.fpr, "tpr": curve.tpr, "threshold": curve.thresholds})
        tables.append(_corners(table).assign(group=group, attack=attack))
    return joined(tables)


def _corners(curve: pd.DataFrame) -> pd.DataFrame:
    """The end points and those where the curve turns, thinned evenly to the maximum number of plotted points."""
    steps = curve[["fpr", "tpr"]].diff().fillna(0.0).to_numpy()
    straight = steps[1:, 0] * steps[:-1, 1] == steps[1:, 1] * steps[:-1, 0]
    points = np.union1d([0], np.flatnonzero(np.concatenate([~straight, [True]])))
    if len(points) > _MOST_POINTS:
        points = points[np.unique(np.linspace(0, len(points) - 1, _MOST_POINTS).astype(int))]
    return curve.iloc[points]


def compare(
    scores: pd.DataFrame, others: pd.DataFrame, *, replicates: int, seed: int, relative: bool = False
) -> pd.DataFrame:
    """Differences of two models' AUCs and true positive rates on the same documents.

    Args:
        relative: divide the difference by the other model's AUC; of areas alone.

    Returns:
        One row per group, attack and measure (``auc``, and the rates that are measurable): group, attack, measure,
        difference, low, high, p, reading (``above``, ``below`` where the interval leaves 0 out on
        that side, else ``not distinguished``), n_pairs, n_subjects.
    """
    keys = ["item", "subject", "node", "member", "attack"]
    pairs = scores.merge(others[[*keys, "value"]], on=keys, suffixes=("", "_other"), validate="one_to_one")
    rows: list[dict[str, Any]] = []
    for (group, attack), part in pairs.groupby(["node", "attack"], sort=False):
        sample = RocSample(part["member"].tolist(), part["subject"].tolist(), replicates, seed=seed)
        ours, theirs = (part[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in ("value", "value_other"))
        gaps = {AUC: sample.auc_difference(ours, theirs, relative=relative)}
        if not relative:
            rates = {name: sample.tpr_difference(ours, theirs, fpr) for name, fpr in RATES.items()}
            gaps |= {name: gap for name, gap in rates.items() if gap.value is not None}
        rows += [_gap_row(group, attack, measure, gap) for measure, gap in gaps.items()]
    return pd.DataFrame(rows).astype(dict.fromkeys(("difference", "low", "high", "p"), "Float64"))


def _gap_row(group: Any, attack: Any, measure: str, gap: Estimate) -> dict[str, Any]:
    labels = {"group": group, "attack": attack, "measure": measure}
    numbers = {"difference": gap.value, "low": gap.low, "high": gap.high, "p": gap.p}
    counts = {"n_pairs": gap.n, "n_subjects": gap.n_clusters}
    return {**labels, **numbers, "reading": _side(gap.low, gap.high, 0.0), **counts}


def read_area(attacks: Attacks, row: Mapping[Any, Any]) -> str | None:
    """Reading of an unlearned model's area, against the retrained models', else against 0.5."""
    if row["measure"] != AUC or attacks.is_reference_refused:
        return None
    sides = [row["against_chance"]]
    gaps = attacks.gaps(str(row["model"]))
    if len(gaps):
        same = (gaps["group"] == row["group"]) & (gaps["attack"] == row["attack"]) & (gaps["measure"] == AUC)
        sides = gaps.loc[same, "reading"].tolist() or sides
    return reading(sides)


def recovered_rows(attacks: Attacks, titles: Mapping[str, str]) -> pd.DataFrame:
    """Rows of the page of what comes back: each attack's area beside the retrained model's, on either side.

    Args:
        titles: name of an attack -> its title.
    """
    rows = []
    for row in attacks.table().to_dict("records") if attacks.models else ():
        if row["measure"] != AUC or pd.isna(row["value"]):
            continue
        gaps = attacks.gaps(str(row["model"]))
        if len(gaps):
            same = (gaps["group"] == row["group"]) & (gaps["attack"] == row["attack"]) & (gaps["measure"] == AUC)
            gaps = gaps[same].dropna(subset=["difference"])
        # Of several retrained models, the one from which it lies farthest on either side.
        gap = max(gaps.to_dict("records"), key=lambda one: abs(one["difference"]), default={})
        group = "" if row["group"] == EVERY else f", {str(row['group']).replace('_', ' ')}"
        rows.append(
            {
                "attack": row["attack"],
                "title": f"{attacks.family.title}, {titles.get(str(row['attack']), row['attack'])}{group}",
                "measure": AUC,
                "states": 1,
                **{name: row[name] for name in ("model", "role", "value", "low", "high", "n_subjects", "reading")},
                "before": None,
                "against": gap.get("against"),
                "p": gap.get("p"),
                "reason": None,
                "difference": gap.get("difference"),
                **{f"difference_{end}": gap.get(end) for end in ("low", "high")},
            }
        )
    return pd.DataFrame(rows)


def reading(sides: Sequence[object]) -> str | None:
    """Reading of an AUC from the sides of its references on which it lies; None if no side is known."""
    side_names = {side for side in sides if isinstance(side, str)}
    if not side_names:
        return None
    if BELOW in side_names:
        return OVER_FORGOTTEN
    return LEAKS if ABOVE in side_names else NOT_TOLD_APART


def epoch_rows(summary: pd.DataFrame, level: str) -> list[dict[str, Any]]:
    """The AUC of each attack on each group of documents, for a table of epochs; ``metric`` is the attack."""
    return [
        {
            "level": "" if row["group"] == EVERY else level,
            "node": "" if row["group"] == EVERY else row["group"],
            "measure": EPOCH_MEASURE,
            "metric": row["attack"],
            **{name: row[name] for name in ("value", "low", "high", "n_unscored", "n_subjects")},
            "n_scored": row["n_members"] + row["n_nonmembers"],
        }
        for row in summary.to_dict("records")
        if row["measure"] == AUC
    ]


def privacy_leaks(scores: pd.DataFrame, retrained: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
    """Privacy leakage against the retrained model, in our orientation and in MUSE's, with intervals.

    Returns:
        Columns of :func:`compare`, with ``value`` in the place of ``difference``: (area - the retrained model's) /
        the retrained model's, -1 and up; 0 = leaks as little, above 0 = still leaks membership, below 0 =
        over-unlearned, which leaks membership too. Null where the retrained model's area is 0. ``muse_value``,
        ``muse_low``, ``muse_high``: MUSE's PrivLeak in percent, of areas in which members rank *lower*: 100 (r - u)
            / (1 - r) for areas u of the model and r of the retrained one; -100 = membership leaks completely. Null
            where r is 1.

    Source: MUSE (Shi et al. 2024, arXiv 2407.06460), Section 3.3; the orientation is that of swj0419/muse_bench,
    ``metrics/privleak.py``, and of OpenUnlearning's ``privleak``, ``(1 - u) - (1 - r)`` over ``1 - r``.
    """
    gaps, reversed_gaps = (
        compare(_times(scores, sign), _times(retrained, sign), replicates=replicates, seed=seed, relative=True)
        for sign in (1, -1)
    )
    muse = {f"muse_{to}": 100 * reversed_gaps[name] for to, name in zip(_LEAK, _GAP, strict=True)}
    return gaps.rename(columns={"difference": "value"}).drop(columns="measure").assign(**muse)


_LEAK, _GAP = ("value", "low", "high"), ("difference", "low", "high")


def _times(scores: pd.DataFrame, sign: int) -> pd.DataFrame:
    return scores.assign(value=scores["value"] * sign)


def _side(low: float | None, high: float | None, of: float) -> str | None:
    """Side of ``of`` on which an interval lies; None without an interval."""
    if low is None or high is None:
        return None
    return ABOVE if low > of else BELOW if high < of else WITHIN
