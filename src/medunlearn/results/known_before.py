"""Whether a target model ever knew the facts of a forget set, by their ranks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import comb
from typing import Any, Literal

import numpy as np
import pandas as pd

from medunlearn.results.fact_table import ALPHA, mean_logs
from medunlearn.seeds import generator

_EXACT_FLIPS, _DRAWS = 12, 9999


@dataclass(frozen=True, slots=True)
class KnownBefore:
    """Test that a target model ranks the forget set's facts higher than facts that a model never saw.

    Attributes:
        p: one-sided p-value of "no higher"; null without facts to compare with, since a model that never saw a
            subject may find a true value likelier than its alternatives. With a retrained model from sign flips of
            each subject's difference in the mean logarithm of p (exact up to twelve subjects); else from
            permutations of forgotten and unseen subjects.
        least_p: smallest possible p for this number of subjects; null likewise.
        first, unseen_first: share of facts ranked first by the target, and by the retrained model or of the unseen
            subjects.
        subjects: number of subjects.
        beside: what the facts are compared with.
        unseen: number of unseen subjects; 0 beside a retrained model.
    """

    p: float | None
    least_p: float | None
    first: float
    unseen_first: float | None
    subjects: int
    beside: Literal["retrained", "unseen"] | None
    unseen: int = 0

    @property
    def verdict(self) -> Literal["known", "nothing", "open", "unscored"]:
        """``known``: the target knew the facts; ``nothing``: nothing to forget, according to ranks; ``open``: too
        few subjects; ``unscored``: nothing to compare with.
        """
        if self.p is None or self.least_p is None:
            return "unscored"
        if self.p <= ALPHA:
            return "known"
        return "open" if self.least_p > ALPHA else "nothing"

    def facts_for_report(self) -> dict[str, Any]:
        """Numbers by name, and the verdict."""
        return {**asdict(self), "verdict": self.verdict}


def known_before(
    target: pd.DataFrame, retrained: pd.DataFrame | None = None, unseen: pd.DataFrame | None = None, seed: int = 0
) -> KnownBefore | None:
    """The test on the forget set's facts; None without ranks.

    Args:
        target: facts of the target model (:func:`medunlearn.results.fact_table.fact_table`).
        retrained: the same facts of a retrained model; None without one.
        unseen: facts of subjects that the target never saw; used without a retrained model, as far as they are of
            the same kinds.
    """
    ranked = target.dropna(subset=["p"])
    if retrained is not None:
        there = retrained.dropna(subset=["p"])
        keys = ["item", "place"]
        ranked = ranked.merge(there[keys], on=keys, how="inner")
        there = there.merge(ranked[keys], on=keys, how="inner")
        return None if ranked.empty else _beside_retrained(ranked, there, seed)
    if ranked.empty:
        return None
    if unseen is not None:
        others = unseen.dropna(subset=["p"])
        kinds = {*ranked["fact"]} & {*others["fact"]}
        same, others = ranked[ranked["fact"].isin(kinds)], others[others["fact"].isin(kinds)]
        if kinds:
            return _beside_unseen(same, others, seed)
    return KnownBefore(None, None, _first(ranked), None, ranked["subject"].nunique(), None)


def _first(ranked: pd.DataFrame) -> float:
    return float((ranked["rank"] == 1).mean())


def _beside_retrained(ranked: pd.DataFrame, there: pd.DataFrame, seed: int) -> KnownBefore:
    differences = (mean_logs(ranked) - mean_logs(there)).to_numpy(dtype=np.float64)
    flips = 2 ** len(differences) if len(differences) <= _EXACT_FLIPS else _DRAWS + 1
    p = _sign_flips(differences, seed)
    return KnownBefore(p, 1 / flips, _first(ranked), _first(there), len(differences), "retrained")


def _beside_unseen(ranked: pd.DataFrame, others: pd.DataFrame, seed: int) -> KnownBefore:
    """Permutation test of the means of forgotten and unseen subjects."""
    own, unseen = (mean_logs(facts).to_numpy(dtype=np.float64) for facts in (ranked, others))
    values = np.concatenate([own, unseen])
    rng = generator("unseen subjects", seed)
    order = np.array([rng.permutation(len(values))[: len(own)] for _ in range(_DRAWS)])
    p = (1 + int((values[order].sum(axis=1) <= own.sum() + 1e-12).sum())) / (1 + _DRAWS)
    least = max(1 / comb(len(values), len(own)), 1 / (1 + _DRAWS))
    return KnownBefore(p, least, _first(ranked), _first(others), len(own), "unseen", len(unseen))


def _sign_flips(differences: np.ndarray[Any, np.dtype[np.float64]], seed: int) -> float:
    """Share of sign patterns with a sum at most that of the differences."""
    count = len(differences)
    if count <= _EXACT_FLIPS:
        signs = 1 - 2 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
    else:
        flips = generator("sign flips", seed).integers(0, 2, (_DRAWS, count))
        signs = np.vstack([np.ones((1, count), dtype=np.int64), 1 - 2 * flips])
    sums = signs @ differences
    return float(np.mean(sums <= differences.sum() + 1e-12))
