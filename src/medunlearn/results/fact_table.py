"""Ranks of facts by subject, and their calibration.

A fact's p-value (:func:`medunlearn.data.fact_ranks.p_value`) is exact if true value and alternatives are
exchangeable; facts of which this is not so are marked and count in no subject's p-value. The rest is tested on
unseen subjects, whose p-values are then uniform. If they are not, a subject's ranks are compared with those of
unseen subjects.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import e, exp, fsum, log
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.data.fact_ranks import FactRank, p_value
from medunlearn.seeds import generator

FILE = "facts.parquet"
ALPHA = 0.05
EARLIER = "it was ranked by an earlier version, whose alternatives were not exchangeable"
_LEAST = 1e-9
"""Two p-values that are nearer are the same."""


def fact_table(
    ranks: Mapping[str, Sequence[FactRank]], labels: pd.DataFrame, context: str, unseen: Collection[str] = ()
) -> pd.DataFrame:
    """One row per fact.

    Args:
        labels: from :func:`medunlearn.results.scores.question_labels` or ``record_labels``.
        context: text before the facts: ``closed_book``, ``note``, or ``record`` for the record's own text.
        unseen: subjects on whom no model is trained.

    Returns:
        ``item`` (question or record), ``place``, ``fact`` (its kind), ``rank``, ``of``, ``p``, ``reason`` (why it
            has no rank or, with a rank, no p: its value is usual), ``inexact`` (why its p counts for no subject),
            ``context``, ``unseen``, and the labels.
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
            "inexact": fact.inexact,
            "context": context,
        }
        for question, facts in ranks.items()
        for place, fact in enumerate(facts)
    ]
    columns = ["item", "place", "fact", "rank", "of", "p", "reason", "inexact", "context"]
    types = {"item": "str", "fact": "str", "rank": "Int64", "p": "Float64", "context": "str"}
    table = pd.DataFrame(rows, columns=columns).astype({**types, "reason": "string", "inexact": "string"})
    table = table.merge(labels.astype({"item": "str"}), on="item", how="left", validate="many_to_one")
    return table.assign(unseen=table["subject"].isin([*unseen]))


def with_later_columns(facts: pd.DataFrame) -> pd.DataFrame:
    """A table of an earlier version with the columns that it lacks; its p-values count for no subject."""
    if facts.empty or "inexact" in facts:
        return facts
    reasons = facts["rank"].map(lambda rank: EARLIER, na_action="ignore").astype("string")
    return facts.assign(inexact=reasons, unseen=False)


def exact_facts(facts: pd.DataFrame) -> pd.DataFrame:
    """Ranked facts whose alternatives are exchangeable with the true value."""
    return facts[facts["p"].notna() & facts["inexact"].isna()]


def combined_p(p_values: Sequence[float], least: Sequence[float] | None = None) -> float:
    """Combined p-value of a subject's facts, valid under any dependence.

    e times their geometric mean, at most 1; for a single fact its own. Facts of one patient are not independent, so
    Fisher's sum is not used. The mean is weighted by the logarithm of the smallest p that each fact can have: a
    value that many have can tell little, whatever its rank. Any weights that do not depend on the ranks are valid:
    the sum of weighted exponential variables has an expected shortfall of at most the weighted sum of theirs.

    Source: Vovk & Wang 2020, "Combining p-values via averaging", Biometrika 107 (arXiv 1212.4966): the geometric
    mean scaled up by e.

    Args:
        least: smallest p of each fact; None: the same for all.
    """
    if not p_values:
        raise ValueError("a subject without a ranked fact has no p-value")
    factor = e if len(p_values) > 1 else 1.0
    weights = [1.0] * len(p_values) if least is None else [-log(value) for value in least]
    logs = fsum(weight * log(value) for weight, value in zip(weights, p_values, strict=True))
    return min(1.0, factor * exp(logs / fsum(weights))) if any(weights) else 1.0


def subject_table(facts: pd.DataFrame, unseen: pd.DataFrame | None = None) -> pd.DataFrame:
    """One row per subject: subject, facts, first, exact, p, least_p, p_unseen.

    Args:
        facts: one model's facts from :func:`fact_table`.
        unseen: facts of subjects unseen by a model, with the same kinds of questions.

    Returns:
        ``facts``: number of ranked ones; ``first``: number ranked first; ``exact``: number of those that count in
            ``p``, their :func:`combined_p`; ``least_p``: the smallest that it could be; both null without any.
            ``p_unseen``: share of unseen subjects (and the subject itself) whose facts, exact or not, rank as high
            on average; null without any.
    """
    ranked = facts.dropna(subset=["p"])
    others = None if unseen is None else mean_logs(unseen.dropna(subset=["p"])).to_numpy(dtype=np.float64)
    means = mean_logs(ranked)
    rows = []
    for subject, own in ranked.groupby("subject", sort=True):
        mine, exact = float(means[subject]), exact_facts(own)
        least = least_p(exact).tolist()
        alike = None if others is None else (1 + int((others <= mine + _LEAST).sum())) / (1 + len(others))
        rows.append(
            {
                "subject": str(subject),
                "facts": len(own),
                "first": int((own["rank"] == 1).sum()),
                "exact": len(exact),
                "p": combined_p(exact["p"].astype(float).tolist(), least) if least else None,
                "least_p": combined_p(least, least) if least else None,
                "p_unseen": alike,
            }
        )
    columns = ["subject", "facts", "first", "exact", "p", "least_p", "p_unseen"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[4:], "Float64"))


def mean_logs(facts: pd.DataFrame) -> pd.Series[Any]:
    """Mean logarithm of the p-values of each subject's ranked facts, by subject; weighted as :func:`combined_p`."""
    weights = -np.log(least_p(facts).to_numpy(dtype=np.float64))
    logs = weights * np.log(facts["p"].to_numpy(dtype=np.float64))
    sums = pd.DataFrame({"subject": facts["subject"], "log": logs, "weight": weights})
    sums = sums.groupby("subject", sort=True)[["log", "weight"]].sum()
    return sums["log"] / sums["weight"].where(sums["weight"] > 0, 1.0)


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
        low: share of facts with a p-value of at most :data:`ALPHA`; no more than that if p-values are uniform.
        due: expected share for uniform p-values: the mean of each fact's smallest possible p, 1 / (alternatives +
            1), or more if alternatives equal the true value.
    """

    distance: float
    p: float
    facts: int
    subjects: int
    first: float
    low: float
    due: float

    def facts_for_report(self) -> dict[str, Any]:
        """Numbers by name, and whether p-values are uniform."""
        return {**asdict(self), "uniform": self.uniform}

    @property
    def uniform(self) -> bool:
        """True if uniformity is not rejected."""
        return self.p > ALPHA


def calibration(unseen: pd.DataFrame, seed: int = 0) -> Calibration | None:
    """Calibration on facts of unseen subjects; None without a fact whose alternatives are exact.

    Args:
        unseen: facts from :func:`fact_table`.
    """
    from scipy.stats import kstwo

    ranked = exact_facts(unseen)
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
        low=float((ranked["p"] <= ALPHA + _LEAST).mean()),
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
    names = ["fact", "distance", "p", "facts", "subjects", "first", "low", "due", "uniform"]
    return pd.DataFrame(rows, columns=names)
