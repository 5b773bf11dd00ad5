"""A test by ranks of whether the target model ever knew the forget set; if not, there is nothing to forget."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from medunlearn.results.fact_table import ALPHA, least_p, mean_logs
from medunlearn.seeds import generator

_EXACT = 12
_DRAWS = 9999


@dataclass(frozen=True, slots=True)
class KnownBefore:
    """Test that a target model ranks the forget set's facts higher than a model that never saw them.

    Attributes:
        p: one-sided, of "no higher". Beside a retrained model of sign flips of each subject's difference in the
            mean logarithm of p (exact up to twelve subjects). Without one Fisher's, on one fact a subject (seeded),
            since subjects are independent and facts of one are not.
        least_p: the smallest p that so many subjects can have.
        first, unseen_first: share of facts that the target and the retrained model rank first; the latter is null
            without one.
        subjects: how many there were.
    """

    p: float
    least_p: float
    first: float
    unseen_first: float | None
    subjects: int

    @property
    def verdict(self) -> Literal["known", "nothing", "open"]:
        """``known``: it knew; ``nothing``: nothing to forget, as far as ranks tell; ``open``: too few subjects."""
        if self.p <= ALPHA:
            return "known"
        return "open" if self.least_p > ALPHA else "nothing"

    def facts_for_report(self) -> dict[str, Any]:
        """Its numbers by name, and its verdict."""
        return {**asdict(self), "verdict": self.verdict}


def known_before(target: pd.DataFrame, unseen: pd.DataFrame | None = None, seed: int = 0) -> KnownBefore | None:
    """The test on the forget set's facts; None where no fact was ranked.

    Args:
        target: facts of the target model (:func:`medunlearn.results.fact_table.fact_table`).
        unseen: the same facts of a retrained model; None without one.
    """
    ranked = target.dropna(subset=["p"])
    if unseen is not None:
        there = unseen.dropna(subset=["p"])
        keys = ["item", "place"]
        ranked = ranked.merge(there[keys], on=keys, how="inner")
        there = there.merge(ranked[keys], on=keys, how="inner")
    if ranked.empty:
        return None
    first = float((ranked["rank"] == 1).mean())
    if unseen is None:
        order = generator("known before", seed).permutation(len(ranked))
        single = ranked.iloc[order].drop_duplicates("subject")
        p, least = _fisher(single["p"]), _fisher(least_p(single))
        return KnownBefore(p, least, first, None, len(single))
    differences = (mean_logs(ranked) - mean_logs(there)).to_numpy(dtype=np.float64)
    p = _sign_flips(differences, seed)
    flips = 2 ** len(differences) if len(differences) <= _EXACT else _DRAWS + 1
    return KnownBefore(p, 1 / flips, first, float((there["rank"] == 1).mean()), len(differences))


def _fisher(p_values: pd.Series[Any]) -> float:
    """Fisher's combination of independent p-values."""
    from scipy.stats import chi2

    logs = np.log(p_values.to_numpy(dtype=np.float64))
    return float(chi2.sf(-2 * logs.sum(), 2 * len(logs)))


def _sign_flips(differences: np.ndarray[Any, np.dtype[np.float64]], seed: int) -> float:
    """Share of sign patterns whose sum is as low as that of the differences themselves."""
    count = len(differences)
    if count <= _EXACT:
        signs = 1 - 2 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
    else:
        drawn = generator("sign flips", seed).integers(0, 2, (_DRAWS, count))
        signs = np.vstack([np.ones((1, count), dtype=np.int64), 1 - 2 * drawn])
    sums = signs @ differences
    return float(np.mean(sums <= differences.sum() + 1e-12))
