"""Ranks of facts by subject, their calibration, and whether the target model ever knew the facts.

A fact's p-value (:func:`medunlearn.data.fact_ranks.p_value`) is exact if true value and alternatives are
exchangeable. This is tested on unseen subjects, whose p-values are then uniform. If they are not, a subject's ranks
are compared with those of unseen subjects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import e, exp, fsum, log
from typing import Any, Literal

import numpy as np
import pandas as pd

from medunlearn.data.fact_ranks import FactRank, p_value
from medunlearn.seeds import generator

FILE = "facts.parquet"
ALPHA = 0.05
_EXACT_FLIPS, _FLIPS = 12, 9999
_LEAST = 1e-9
"""Two p-values that are nearer are the same."""


def fact_table(ranks: Mapping[str, Sequence[FactRank]], labels: pd.DataFrame, context: str) -> pd.DataFrame:
    """One row per fact: item (question or record), place, fact (its kind), rank, of, p, reason, context, labels.

    Args:
        labels: from :func:`medunlearn.results.scores.question_labels` or ``record_labels``.
        context: text before the facts: ``closed_book``, ``note``, or ``record`` for the record's own text.
    """
    rows = [
        {
            "item": question,
            "place": place,
            "fact": fact.kind,
            "rank": fact.rank,
            "of": fact.of,
            "p": p_value(fact),
            "reason": fact.reason,
            "context": context,
        }
        for question, facts in ranks.items()
        for place, fact in enumerate(facts)
    ]
    columns = ["item", "place", "fact", "rank", "of", "p", "reason", "context"]
    table = pd.DataFrame(rows, columns=columns).astype(
        {"item": "str", "fact": "str", "rank": "Int64", "p": "Float64", "reason": "string", "context": "str"}
    )
    return table.merge(labels.astype({"item": "str"}), on="item", how="left", validate="many_to_one")


def combined_p(p_values: Sequence[float]) -> float:
    """Combined p-value of a subject's facts, valid under any dependence.

    e times their geometric mean, at most 1; for a single fact its own. Facts of one patient are not independent, so
    Fisher's sum is not used.

    Source: Vovk & Wang 2020, "Combining p-values via averaging", Biometrika 107 (arXiv 1212.4966): the geometric
    mean scaled up by e.
    """
    if not p_values:
        raise ValueError("a subject without a ranked fact has no p-value")
    factor = e if len(p_values) > 1 else 1.0
    return min(1.0, factor * exp(fsum(map(log, p_values)) / len(p_values)))


def subject_table(facts: pd.DataFrame, unseen: pd.DataFrame | None = None) -> pd.DataFrame:
    """One row per subject: subject, facts, first, p, p_unseen.

    Args:
        facts: one model's facts from :func:`fact_table`.
        unseen: facts of subjects unseen by a model, with the same kinds of questions.

    Returns:
        ``facts``: number of ranked ones; ``first``: number ranked first; ``p``: :func:`combined_p`; ``p_unseen``:
            share of unseen subjects (and the subject itself) whose facts rank as high on average; null without any.
    """
    ranked = facts.dropna(subset=["p"])
    others = None if unseen is None else mean_logs(unseen.dropna(subset=["p"])).to_numpy(dtype=np.float64)
    rows = []
    for subject, own in ranked.groupby("subject", sort=True):
        mine = float(np.log(own["p"].astype(float)).mean())
        alike = None if others is None else (1 + int((others <= mine + _LEAST).sum())) / (1 + len(others))
        rows.append(
            {
                "subject": str(subject),
                "facts": len(own),
                "first": int((own["rank"] == 1).sum()),
                "p": combined_p(own["p"].astype(float).tolist()),
                "p_unseen": alike,
            }
        )
    columns = ["subject", "facts", "first", "p", "p_unseen"]
    return pd.DataFrame(rows, columns=columns).astype({"p": "Float64", "p_unseen": "Float64"})


def mean_logs(facts: pd.DataFrame) -> pd.Series[Any]:
    """Mean logarithm of the p-values of each subject's ranked facts, by subject."""
    logs = pd.DataFrame({"subject": facts["subject"], "log": np.log(facts["p"].to_numpy(dtype=np.float64))})
    return logs.groupby("subject", sort=True)["log"].mean()


@dataclass(frozen=True, slots=True)
class Calibration:
    """Test whether p-values of facts that a model never saw are uniform.

    Attributes:
        distance: Kolmogorov-Smirnov: the largest gap between the facts' p-values and the uniform distribution on
            their steps, 0-1, 0 = uniform.
        p: p-value of a Kolmogorov-Smirnov test on one fact per subject (seeded), since facts of one subject are not
            independent; conservative, since p-values are discrete.
        facts, subjects: their numbers.
        first: share of facts ranked first.
        due: expected share for uniform p-values: the mean of each fact's smallest possible p, 1 / (alternatives +
            1), or more if alternatives equal the true value.
    """

    distance: float
    p: float
    facts: int
    subjects: int
    first: float
    due: float

    def facts_for_report(self) -> dict[str, Any]:
        """Numbers by name, and whether p-values are uniform."""
        return {**asdict(self), "uniform": self.uniform}

    @property
    def uniform(self) -> bool:
        """True if uniformity is not rejected."""
        return self.p > ALPHA


def calibration(unseen: pd.DataFrame, seed: int = 0) -> Calibration | None:
    """Calibration on facts of unseen subjects; None without a ranked fact.

    Args:
        unseen: facts from :func:`fact_table`.
    """
    from scipy.stats import kstwo

    ranked = unseen.dropna(subset=["p"])
    if ranked.empty:
        return None
    order = generator("calibration", seed).permutation(len(ranked))
    single = ranked.iloc[order].drop_duplicates("subject")
    return Calibration(
        distance=_distance(ranked),
        p=float(kstwo.sf(_distance(single), len(single))),
        facts=len(ranked),
        subjects=len(single),
        first=float((ranked["rank"] == 1).mean()),
        due=float(least_p(ranked).mean()),
    )


def least_p(ranked: pd.DataFrame) -> pd.Series[Any]:
    """The p-value of each fact if ranked first, which is also the chance of that without knowledge.

    Args:
        ranked: facts with a rank, from :func:`fact_table`.
    """
    p, rank, of = (ranked[name].astype("float64") for name in ("p", "rank", "of"))
    return p - (rank - 1) / of


def _distance(facts: pd.DataFrame) -> float:
    """Largest gap between the distribution of p and that of uniform ranks, at the possible values of p."""
    p, steps = (facts[name].to_numpy(dtype=np.float64) for name in ("p", "of"))
    gaps = [
        abs(float(np.mean(p <= step + _LEAST)) - float(np.mean(np.floor(step * steps + _LEAST) / steps)))
        for step in np.unique(p)
    ]
    below = [
        abs(float(np.mean(p < step - _LEAST)) - float(np.mean(np.ceil(step * steps - _LEAST - 1) / steps)))
        for step in np.unique(p)
    ]
    return max(*gaps, *below)


def calibration_by_kind(unseen: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """One row per kind of fact: fact, and the numbers of its :class:`Calibration` by name."""
    kinds = {kind: calibration(own, seed) for kind, own in unseen.groupby("fact", sort=True)}
    rows = [{"fact": kind, **checked.facts_for_report()} for kind, checked in kinds.items() if checked]
    names = ["fact", "distance", "p", "facts", "subjects", "first", "due", "uniform"]
    return pd.DataFrame(rows, columns=names)


@dataclass(frozen=True, slots=True)
class KnownBefore:
    """Test that a target model ranks the forget set's facts higher than a model that never saw them.

    Attributes:
        p: one-sided p-value of "no higher". With a retrained model from sign flips of each subject's difference in
            the mean logarithm of p (exact up to twelve subjects). Without one from Fisher's method on one fact per
            subject (seeded), since facts of one subject are dependent.
        least_p: smallest possible p for this number of subjects.
        first, unseen_first: share of facts that the target and the retrained model rank first; the latter is null
            without one.
        subjects: number of subjects.
    """

    p: float
    least_p: float
    first: float
    unseen_first: float | None
    subjects: int

    @property
    def verdict(self) -> Literal["known", "nothing", "open"]:
        """``known``: the target knew the facts; ``nothing``: nothing to forget, according to ranks; ``open``: too
        few subjects.
        """
        if self.p <= ALPHA:
            return "known"
        return "open" if self.least_p > ALPHA else "nothing"

    def facts_for_report(self) -> dict[str, Any]:
        """Numbers by name, and the verdict."""
        return {**asdict(self), "verdict": self.verdict}


def known_before(target: pd.DataFrame, unseen: pd.DataFrame | None = None, seed: int = 0) -> KnownBefore | None:
    """The test on the forget set's facts; None without ranks.

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
    flips = 2 ** len(differences) if len(differences) <= _EXACT_FLIPS else _FLIPS + 1
    return KnownBefore(p, 1 / flips, first, float((there["rank"] == 1).mean()), len(differences))


def _fisher(p_values: pd.Series[Any]) -> float:
    """Fisher's combination of independent p-values."""
    from scipy.stats import chi2

    logs = np.log(p_values.to_numpy(dtype=np.float64))
    return float(chi2.sf(-2 * logs.sum(), 2 * len(logs)))


def _sign_flips(differences: np.ndarray[Any, np.dtype[np.float64]], seed: int) -> float:
    """Share of sign patterns with a sum at most that of the differences."""
    count = len(differences)
    if count <= _EXACT_FLIPS:
        signs = 1 - 2 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
    else:
        flips = generator("sign flips", seed).integers(0, 2, (_FLIPS, count))
        signs = np.vstack([np.ones((1, count), dtype=np.int64), 1 - 2 * flips])
    sums = signs @ differences
    return float(np.mean(sums <= differences.sum() + 1e-12))
