"""Scores of documents to tables: areas with intervals, rates at low false positive rates, curves, differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from medunlearn.attacks.membership.sample import Candidate
from medunlearn.attacks.protocol import MembershipAttack, Passage, lacking
from medunlearn.errors import InputError
from medunlearn.metrics.base import Score
from medunlearn.results.scores import numbers, score_table
from medunlearn.statistics.bootstrap import Estimate
from medunlearn.statistics.roc import RocSample, nonmembers_needed, roc_curve

MEASURE = "membership"
AUC = "auc"
RATES: Mapping[str, float] = {"tpr_at_1pct_fpr": 0.01, "tpr_at_0.1pct_fpr": 0.001}
CHANCE = 0.5
ABOVE, WITHIN, BELOW = "above", "not told apart", "below"

_MOST_POINTS = 500


def score_candidates(
    who: Sequence[Candidate], passages: Sequence[Passage], attacks: Mapping[str, MembershipAttack]
) -> pd.DataFrame:
    """The score table of membership: an item a document; labels ``node``, ``member``, ``attack``."""
    rows: list[dict[str, Any]] = []
    for one, passage in zip(who, passages, strict=True):
        about = {
            "item": one.record.record_id,
            "subject": one.subject,
            "measure": MEASURE,
            "node": one.group,
            "member": one.member,
        }
        for name, attack in attacks.items():
            score = _score(attack, passage)
            rows.append({**about, "attack": name, "value": score.value, "reason": score.reason})
    return score_table(pd.DataFrame(rows))


def _score(attack: MembershipAttack, passage: Passage) -> Score:
    reason = lacking(attack, passage)
    if reason is not None:
        return Score.unscored(reason)
    score = attack.score(passage)
    if score.value is not None and np.isnan(score.value):
        return Score.unscored("the score is no number (NaN)")
    return score


def summarize(scores: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
    """One row a group, attack and measure.

    Columns: group, attack, measure (``auc``, ``tpr_at_1pct_fpr``, ``tpr_at_0.1pct_fpr``), value, low, high, reason
    (why there is no value), against_chance (of an area: ``above``, ``below`` where the interval leaves 0.5 out on
    that side, else ``not told apart``), n_members and n_nonmembers (scored ones), n_unscored, n_subjects (of
    members or non-members, whichever are fewer).
    """
    rows: list[dict[str, Any]] = []
    for (group, attack), part in scores.groupby(["node", "attack"], sort=False):
        for measure, estimate, reason in _measures(part, replicates, seed):
            known = part["value"].notna()
            rows.append(
                {
                    "group": group,
                    "attack": attack,
                    "measure": measure,
                    "value": estimate.value,
                    "low": estimate.low,
                    "high": estimate.high,
                    "reason": reason,
                    "against_chance": _side(estimate.low, estimate.high, CHANCE) if measure == AUC else None,
                    "n_members": int((known & part["member"]).sum()),
                    "n_nonmembers": int((known & ~part["member"]).sum()),
                    "n_unscored": int((~known).sum()),
                    "n_subjects": estimate.n_clusters,
                }
            )
    strings = dict.fromkeys(("reason", "against_chance"), "string")
    return pd.DataFrame(rows).astype({**dict.fromkeys(("value", "low", "high"), "Float64"), **strings})


def _measures(part: pd.DataFrame, replicates: int, seed: int) -> Iterator[tuple[str, Estimate, str | None]]:
    sample = RocSample(part["member"].tolist(), part["subject"].tolist(), replicates, seed=seed)
    values = numbers(part)
    reasons = part["reason"].dropna()
    area = sample.auc(values)
    if area.value is None:
        yield from ((measure, area, _most_common(reasons)) for measure in (AUC, *RATES))
        return
    yield AUC, area, None
    outside = int((part["value"].notna() & ~part["member"]).sum())
    for measure, fpr in RATES.items():
        rate, needed = sample.tpr_at(values, fpr), nonmembers_needed(fpr)
        few = f"not measurable: a false positive rate of {fpr:.1%} takes {needed:,} non-members, not {outside}"
        yield measure, rate, few if rate.value is None else None


def _most_common(reasons: pd.Series[str]) -> str:
    return str(reasons.mode().iloc[0]) if len(reasons) else "no document is scored on one side"


def curves(scores: pd.DataFrame) -> pd.DataFrame:
    """Points of the ROC curves: group, attack, fpr, tpr, threshold; at most 500 a curve, the corners kept."""
    tables = []
    for key, part in scores.groupby(["node", "attack"], sort=False):
        group, attack = (str(name) for name in key)
        try:
            curve = roc_curve(numbers(part), part["member"].tolist())
        except InputError:
            continue  # nothing is scored on one side; the summary says why
        table = pd.DataFrame({"fpr": curve.fpr, "tpr": curve.tpr, "threshold": curve.thresholds})
        tables.append(_thinned(table).assign(group=group, attack=attack))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _thinned(curve: pd.DataFrame) -> pd.DataFrame:
    """The points where the curve turns: those inside a straight stretch draw nothing. Then every so many."""
    steps = curve[["fpr", "tpr"]].diff().fillna(0.0).to_numpy()
    straight = steps[1:, 0] * steps[:-1, 1] == steps[1:, 1] * steps[:-1, 0]
    kept = np.flatnonzero(np.concatenate([~straight, [True]]))
    kept = np.unique(np.concatenate([[0], kept]))
    if len(kept) > _MOST_POINTS:
        kept = kept[np.unique(np.linspace(0, len(kept) - 1, _MOST_POINTS).astype(int))]
    return curve.iloc[kept]


def compare(scores: pd.DataFrame, others: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
    """Area of one model minus area of another on the same documents, one row a group and attack.

    Columns: group, attack, difference, low, high, p, reading (``above``, ``below`` where the interval leaves 0 out
    on that side, else ``not told apart``), n_pairs, n_subjects.
    """
    return _compared(scores, others, replicates, seed, relative=False)


def privacy_leaks(scores: pd.DataFrame, retrained: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
    """MUSE's privacy leakage (:func:`medunlearn.metrics.privacy_leak.privacy_leak`) with intervals.

    Args:
        scores: as :func:`score_candidates` gives them, of the model in question.
        retrained: those of the retrained model on the same documents.

    Returns:
        Columns as of :func:`compare`, with ``value`` in the place of ``difference``: (area - the retrained
        model's) / the retrained model's, -1 and up; 0 = leaks as little. Null where the retrained model's is 0.
    """
    found = _compared(scores, retrained, replicates, seed, relative=True)
    return found.rename(columns={"difference": "value"})


def _compared(
    scores: pd.DataFrame, others: pd.DataFrame, replicates: int, seed: int, *, relative: bool
) -> pd.DataFrame:
    keys = ["item", "subject", "node", "member", "attack"]
    joined = scores.merge(others[[*keys, "value"]], on=keys, suffixes=("", "_other"), validate="one_to_one")
    rows: list[dict[str, Any]] = []
    for (group, attack), part in joined.groupby(["node", "attack"], sort=False):
        sample = RocSample(part["member"].tolist(), part["subject"].tolist(), replicates, seed=seed)
        values, reference = _floats(part["value"]), _floats(part["value_other"])
        gap = sample.auc_difference(values, reference, relative=relative)
        rows.append(
            {
                "group": group,
                "attack": attack,
                "difference": gap.difference,
                "low": gap.low,
                "high": gap.high,
                "p": gap.p,
                "reading": _side(gap.low, gap.high, 0.0),
                "n_pairs": gap.n_pairs,
                "n_subjects": gap.n_clusters,
            }
        )
    return pd.DataFrame(rows).astype(dict.fromkeys(("difference", "low", "high", "p"), "Float64"))


def _floats(values: pd.Series[float]) -> npt.NDArray[np.float64]:
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def _side(low: float | None, high: float | None, of: float) -> str | None:
    """On which side of a number an interval lies; None without one."""
    if low is None or high is None:
        return None
    return ABOVE if low > of else BELOW if high < of else WITHIN
