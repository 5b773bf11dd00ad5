"""ROC curves of scores that should separate members from non-members, with intervals over subjects.

A higher score says "member". Ties count half in the area and are not separated by any threshold.

Notation: n records, M of them members and N not; U distinct scores; B replicates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError
from medunlearn.seeds import generator
from medunlearn.statistics.bootstrap import REPLICATES, cluster_codes, times_drawn
from medunlearn.statistics.intervals import LEVEL, UNBOUNDED, UNIT, Array, Estimate, effective_subjects, from_draws

Flags = npt.NDArray[np.bool_]
Measure = Callable[[Array, Array], Array]
"""Weights of members and of non-members at each score, from the highest down, [B, U] each -> [B]."""

_CELLS_PER_BLOCK = 4_000_000


@dataclass(frozen=True, slots=True)
class Roc:
    """A ROC curve: a point per threshold, from (0, 0) to (1, 1).

    Attributes:
        fpr: share of non-members that score at least the threshold, [U + 1].
        tpr: share of members that score at least the threshold, [U + 1].
        thresholds: from infinity down through every distinct score, [U + 1].
    """

    fpr: Array
    tpr: Array
    thresholds: Array


def roc_curve(scores: npt.ArrayLike, members: Sequence[bool]) -> Roc:
    """The ROC curve of scores, [n], higher = more likely a member; NaN scores are dropped.

    Raises:
        InputError: lengths that differ, or no scored member or non-member.
    """
    values, flags = _check_scores(scores, members)
    scored = ~np.isnan(values)
    values, flags = values[scored], flags[scored]
    if flags.all() or not flags.any():
        raise InputError("A ROC curve needs scored members and scored non-members.")
    ours, theirs = _stairs(values, flags)(np.ones((1, len(values))))
    start = [0.0]
    return Roc(
        fpr=np.concatenate([start, np.cumsum(theirs[0]) / theirs.sum()]),
        tpr=np.concatenate([start, np.cumsum(ours[0]) / ours.sum()]),
        thresholds=np.concatenate([[np.inf], np.unique(values)[::-1]]),
    )


def nonmembers_needed(fpr: float) -> int:
    """The smallest number of non-members for which one false positive does not exceed a false positive rate."""
    return math.ceil(round(1.0 / fpr, 9))


@dataclass(frozen=True)
class RocSample:
    """Records with bootstrap draws of their subjects, shared by all scores compared on them.

    Resampling is stratified into subjects with only members, only non-members, and both, so that a replicate always
    has members and non-members (Davison & Hinkley 1997, Section 3.2, on several samples).

    ``members`` and ``clusters`` (subject id of each record, str or int) have shape [n].

    Raises:
        InputError: lengths that differ, a missing cluster id.
    """

    members: Sequence[bool]
    clusters: Sequence[object]
    replicates: int = REPLICATES
    level: float = LEVEL
    seed: int = 0

    def auc(self, scores: npt.ArrayLike) -> Estimate:
        """Area under the curve: share of pairs in which the member scores higher, ties half. 0-1, 0.5 =
        guessing.
        """
        return self._estimate(scores, area)

    def tpr_at(self, scores: npt.ArrayLike, fpr: float) -> Estimate:
        """The largest true positive rate at a false positive rate of at most ``fpr``. 0-1.

        No value with fewer than :func:`nonmembers_needed` non-members. There is no interpolation between
        thresholds; see Carlini et al. 2022, "Membership inference attacks from first principles", Section IV.
        """
        values, flags = _check_scores(scores, self.members)
        scored = int((~np.isnan(values) & ~flags).sum())
        if scored < nonmembers_needed(fpr):
            n = int((~np.isnan(values)).sum())
            return Estimate(None, None, None, n, self._fewest(~np.isnan(values)))
        return self._estimate(values, lambda ours, theirs: rate_at(ours, theirs, fpr))

    def auc_difference(self, scores: npt.ArrayLike, others: npt.ArrayLike, *, relative: bool = False) -> Estimate:
        """AUC of ``scores`` minus AUC of ``others``, on records scored by both, with the same draws.

        Args:
            relative: divide by the AUC of ``others``; draws in which that is 0 are dropped.
        """
        return self._difference(*self._scored_by_both(scores, others), area, relative)

    def tpr_difference(self, scores: npt.ArrayLike, others: npt.ArrayLike, fpr: float) -> Estimate:
        """The same difference of :meth:`tpr_at`; no value with fewer than :func:`nonmembers_needed` non-members."""
        first, second = self._scored_by_both(scores, others)
        scored = ~np.isnan(first)
        if int((scored & ~self._flags).sum()) < nonmembers_needed(fpr):
            return Estimate(None, None, None, int(scored.sum()), self._fewest(scored))
        return self._difference(first, second, lambda ours, theirs: rate_at(ours, theirs, fpr), False)

    def _scored_by_both(self, scores: npt.ArrayLike, others: npt.ArrayLike) -> tuple[Array, Array]:
        """Both scores, NaN where either is."""
        first, _ = _check_scores(scores, self.members)
        second, _ = _check_scores(others, self.members)
        unscored = np.isnan(first) | np.isnan(second)
        return np.where(unscored, np.nan, first), np.where(unscored, np.nan, second)

    def _difference(self, scores: Array, others: Array, measure: Measure, relative: bool) -> Estimate:
        scored = ~np.isnan(scores)
        (own, own_draws), (other, other_draws) = self._values(scores, measure), self._values(others, measure)
        n, fewest = int(scored.sum()), self._fewest(scored)
        value, gaps = own - other, own_draws - other_draws
        if relative:
            value = value / other if other else math.nan
            gaps = gaps / np.where(other_draws == 0.0, np.nan, other_draws)
        if not np.isfinite(value):
            return Estimate(None, None, None, n, fewest)
        gaps = gaps[np.isfinite(gaps)]
        bounds = UNBOUNDED if relative else (-1.0, 1.0)
        uncertainty = from_draws(float(value), gaps, fewest, bounds, self._effective(scored))
        return Estimate.of(float(value), uncertainty, n, fewest, self.replicates - len(gaps), self.level)

    @cached_property
    def _flags(self) -> Flags:
        return np.asarray(self.members, dtype=np.bool_)

    @cached_property
    def _codes(self) -> tuple[npt.NDArray[np.intp], int]:
        if len(self.members) != len(self.clusters):
            raise InputError(f"{len(self.members)} records do not fit {len(self.clusters)} cluster ids.")
        return cluster_codes(self.clusters)

    @cached_property
    def _weights(self) -> npt.NDArray[np.float32]:
        """Number of times each replicate draws each record, [B, n]."""
        codes, count = self._codes
        holds = np.zeros((count, 2), dtype=np.bool_)
        holds[codes, self._flags.astype(np.intp)] = True
        stratum = holds[:, 0] + 2 * holds[:, 1].astype(np.intp)
        times = np.zeros((self.replicates, count), dtype=np.float32)
        rng = generator("roc bootstrap", self.seed)
        for kind in np.unique(stratum):
            places = np.flatnonzero(stratum == kind)
            times[:, places] = times_drawn(len(places), self.replicates, rng)
        return times[:, codes]

    def _fewest(self, scored: Flags) -> int:
        """Number of clusters of scored members or of scored non-members, whichever is smaller."""
        codes = self._codes[0]
        return min(len(np.unique(codes[scored & side])) for side in (self._flags, ~self._flags))

    def _effective(self, scored: Flags) -> float:
        """Effective number of clusters of scored members or of scored non-members, whichever is smaller."""
        codes = self._codes[0]
        records = (np.bincount(codes[scored & side]).astype(np.float64) for side in (self._flags, ~self._flags))
        return min(float(effective_subjects(counts)) for counts in records)

    def _estimate(self, scores: npt.ArrayLike, measure: Measure) -> Estimate:
        values, _ = _check_scores(scores, self.members)
        scored = ~np.isnan(values)
        n, fewest = int(scored.sum()), self._fewest(scored)
        if fewest == 0:
            return Estimate(None, None, None, n, fewest)
        value, draws = self._values(values, measure)
        draws = draws[np.isfinite(draws)]
        uncertainty = from_draws(value, draws, fewest, UNIT, self._effective(scored))
        return Estimate.of(value, uncertainty, n, fewest, self.replicates - len(draws), self.level)

    def _values(self, values: Array, measure: Measure) -> tuple[float, Array]:
        """The measure of the data, and of each replicate, [B]; NaN without members or non-members."""
        scored = ~np.isnan(values)
        if not (scored & self._flags).any() or not (scored & ~self._flags).any():
            return math.nan, np.full(self.replicates, np.nan)
        stairs = _stairs(values[scored], self._flags[scored])
        weights, block = self._weights[:, scored], max(1, _CELLS_PER_BLOCK // int(scored.sum()))
        draws = [
            measure(*stairs(weights[start : start + block].astype(np.float64)))
            for start in range(0, self.replicates, block)
        ]
        return float(measure(*stairs(np.ones((1, int(scored.sum())))))[0]), np.concatenate(draws)


def area(ours: Array, theirs: Array) -> Array:
    """Weights of members and non-members from the highest score down, [B, U] -> area under the curve, [B]."""
    total = theirs.sum(axis=1, keepdims=True)
    below = total - np.cumsum(theirs, axis=1)
    with np.errstate(invalid="ignore"):
        return np.asarray((ours * (below + theirs / 2)).sum(axis=1) / (ours.sum(axis=1) * total[:, 0]))


def rate_at(ours: Array, theirs: Array, fpr: float) -> Array:
    """Like :func:`area`, the true positive rate at a false positive rate of at most ``fpr``, [B]."""
    with np.errstate(invalid="ignore"):
        false = np.cumsum(theirs, axis=1) / theirs.sum(axis=1, keepdims=True)
        true = np.cumsum(ours, axis=1) / ours.sum(axis=1, keepdims=True)
    # A rate of exactly fpr must not fall out by rounding.
    return np.asarray(np.where(false <= fpr + 1e-12, true, 0.0).max(axis=1))


def _stairs(values: Array, flags: Flags) -> Callable[[Array], tuple[Array, Array]]:
    """A function from weights of records, [B, n], to weights of members and non-members at each score, [B, U]."""
    order = np.argsort(-values, kind="stable")
    ranked = values[order]
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    ours = flags[order].astype(np.float64)

    def stairs(weights: Array) -> tuple[Array, Array]:
        sorted_weights = weights[:, order]
        return (
            np.add.reduceat(sorted_weights * ours, starts, axis=1),
            np.add.reduceat(sorted_weights * (1.0 - ours), starts, axis=1),
        )

    return stairs


def _check_scores(scores: npt.ArrayLike, members: Sequence[bool]) -> tuple[Array, Flags]:
    values, flags = np.asarray(scores, dtype=np.float64), np.asarray(members, dtype=np.bool_)
    if values.shape != flags.shape or values.ndim != 1:
        raise InputError(
            f"Scores of shape {values.shape} do not fit {len(flags)} records: one score is needed for each."
        )
    return values, flags
