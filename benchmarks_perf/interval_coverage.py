"""Coverage of nominal 95% intervals over subjects: the percentile bootstrap of 0.2, and the policy of today.

    python benchmarks_perf/interval_coverage.py [--trials 600]

Each trial draws subjects from a known distribution and asks whether the interval holds the truth. The table has,
of the trials with an interval: the share that holds it, the mean width, and the share that lies wholly below it
(understates leakage); and the share of trials that have an interval, if not all. Intervals of whole numbers of
subjects are exact: they hold the truth at least as often as they say, and of rare shares of few subjects always.
Fewer than five effective subjects have none.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from medunlearn.statistics import resample_pairs
from medunlearn.statistics.intervals import (
    UNBOUNDED,
    UNIT,
    Bounds,
    Limits,
    Uncertainty,
    from_draws,
    mean_over_subjects,
    paired_over_subjects,
)

Array = npt.NDArray[np.float64]
SUBJECTS = (4, 5, 10, 30, 100)
REPLICATES = 400


@dataclass(frozen=True)
class Sample:
    """A statistic of one data set: its bootstrap replicates, and how sure it is by today's policy."""

    draws: Array
    uncertainty: Uncertainty | None


Trial = Callable[[int, np.random.Generator], Sample]
"""Draws a data set of so many subjects."""


def percentile(sample: Sample) -> Limits:
    low, high = np.quantile(sample.draws, (0.025, 0.975))
    return float(low), float(high)


def policy(sample: Sample) -> Limits:
    return (None, None) if sample.uncertainty is None else sample.uncertainty.limits(0.05)


METHODS = {"percentile": percentile, "today": policy}


def weights(subjects: int, rng: np.random.Generator) -> Array:
    """How often each replicate draws each subject, over the number of subjects: shape [B, S]."""
    return rng.multinomial(subjects, np.full(subjects, 1 / subjects), size=REPLICATES) / subjects


def harmonic(means: Array) -> Array:
    """Harmonic mean over the last axis."""
    return means.shape[-1] / np.sum(1 / np.maximum(means, 1e-12), axis=-1)


def mean_of(draw: Callable[[int, np.random.Generator], Array], bounds: Bounds = UNIT) -> Trial:
    """Trials of a mean with one value a subject."""

    def trial(subjects: int, rng: np.random.Generator) -> Sample:
        values = draw(subjects, rng)
        return Sample(weights(subjects, rng) @ values, mean_over_subjects(values, np.ones(subjects), bounds))

    return trial


def rate(share: float, most_items: int) -> Trial:
    """Trials of a rate over items: 1 to ``most_items`` a subject, intraclass correlation 0.3."""
    odds = 1 / 0.3 - 1

    def trial(subjects: int, rng: np.random.Generator) -> Sample:
        items = rng.integers(1, most_items + 1, subjects).astype(np.float64)
        hits = rng.binomial(items.astype(int), rng.beta(share * odds, (1 - share) * odds, subjects)).astype(float)
        drawn = weights(subjects, rng)
        return Sample((drawn @ hits) / (drawn @ items), mean_over_subjects(hits, items, UNIT))

    return trial


def one_large(share: float) -> Trial:
    """Trials of a rate over items: 200 of the first subject, 4 of each other; intraclass correlation 0.3."""
    odds = 1 / 0.3 - 1

    def trial(subjects: int, rng: np.random.Generator) -> Sample:
        items = np.full(subjects, 4.0)
        items[0] = 200.0
        hits = rng.binomial(items.astype(int), rng.beta(share * odds, (1 - share) * odds, subjects)).astype(float)
        drawn = weights(subjects, rng)
        return Sample((drawn @ hits) / (drawn @ items), mean_over_subjects(hits, items, UNIT))

    return trial


RARE = 0.05 * 0.75 + 0.95 * 0.016


def rare(subjects: int, rng: np.random.Generator) -> Array:
    """Leakage of subjects: 0.5 to 1 of 5% of them, 0 to 0.032 of the others; the mean is ``RARE``."""
    leaks = rng.random(subjects) < 0.05
    return np.where(leaks, rng.uniform(0.5, 1.0, subjects), rng.uniform(0.0, 0.032, subjects))


def rare_difference(subjects: int, rng: np.random.Generator) -> Sample:
    """One trial of a model that leaks of few subjects, minus one that leaks of none."""
    gaps = rare(subjects, rng) - rng.uniform(0.0, 0.032, subjects)
    gains, losses = np.maximum(gaps, 0.0), np.maximum(-gaps, 0.0)
    return Sample(weights(subjects, rng) @ gaps, paired_over_subjects(gains, losses, np.ones(subjects), UNIT))


def rare_composite(subjects: int, rng: np.random.Generator) -> Sample:
    """One trial of the harmonic mean of three metrics that leak of the same few subjects."""
    values = rare(subjects, rng)[:, np.newaxis] * rng.uniform(0.9, 1.1, (subjects, 3))
    draws = harmonic(weights(subjects, rng) @ values)
    return Sample(draws, from_draws(float(harmonic(values.mean(axis=0))), draws, subjects, UNIT))


def rare_contrast(subjects: int, rng: np.random.Generator) -> Sample:
    """One trial of ``rare_composite`` minus that of a model that leaks of none."""
    values = np.stack([rare(subjects, rng), rng.uniform(0.0, 0.032, subjects)])
    drawn, own = weights(subjects, rng), values[..., np.newaxis] * rng.uniform(0.9, 1.1, (2, subjects, 3))
    draws, seed = harmonic(drawn @ own), int(rng.integers(2**31))
    pairs = resample_pairs(own[0], own[1], list(range(subjects)), replicates=REPLICATES, seed=seed)
    return Sample(draws[0] - draws[1], pairs.difference(range(3), harmonic, bounds=UNIT).uncertainty)


def composite(centre: float) -> Trial:
    """Trials of the harmonic mean of three correlated metrics."""

    def trial(subjects: int, rng: np.random.Generator) -> Sample:
        own = rng.normal(size=(subjects, 1))
        values = stats.norm.cdf(centre + 0.7 * own + 0.7 * rng.normal(size=(subjects, 3)))
        draws = harmonic(weights(subjects, rng) @ values)
        return Sample(draws, from_draws(float(harmonic(values.mean(axis=0))), draws, subjects, UNIT))

    return trial


def area(shift: float) -> Trial:
    """Trials of the AUC of as many members as non-members, one document each."""

    def trial(subjects: int, rng: np.random.Generator) -> Sample:
        wins = (rng.normal(shift, 1, subjects)[:, None] > rng.normal(0, 1, subjects)[None]).astype(float)
        members, others = weights(subjects, rng), weights(subjects, rng)
        draws = np.sum(members @ wins * others, axis=1)
        return Sample(draws, from_draws(float(wins.mean()), draws, subjects, UNIT))

    return trial


def difference(ours: float, theirs: float) -> Trial:
    """Trials of the paired difference of two independent shares, one item a subject."""

    def trial(subjects: int, rng: np.random.Generator) -> Sample:
        gaps = (rng.random(subjects) < ours) * 1.0 - (rng.random(subjects) < theirs)
        gains, losses = np.maximum(gaps, 0.0), np.maximum(-gaps, 0.0)
        return Sample(weights(subjects, rng) @ gaps, paired_over_subjects(gains, losses, np.ones(subjects), UNIT))

    return trial


def share_of(value: float) -> Trial:
    """Trials of a share of subjects."""
    return mean_of(lambda n, rng: (rng.random(n) < value) * 1.0)


CASES = {
    "mean, Gaussian": (mean_of(lambda n, rng: rng.normal(size=n), UNBOUNDED), 0.0),
    "mean, exponential": (mean_of(lambda n, rng: rng.exponential(size=n), UNBOUNDED), 1.0),
    "mean, beta(0.5, 2)": (mean_of(lambda n, rng: rng.beta(0.5, 2, n)), 0.2),
    **{f"share of subjects, {share}": (share_of(share), share) for share in (0.02, 0.05, 0.5)},
    **{f"rate, unequal sizes, {share}": (rate(share, 19), share) for share in (0.02, 0.05, 0.5)},
    **{f"rate, one of 200 items and others of 4, {share}": (one_large(share), share) for share in (0.05, 0.3)},
    "mean, beta(1, 20)": (mean_of(lambda n, rng: rng.beta(1, 20, n)), 1 / 21),
    "mean, beta(10, 10)": (mean_of(lambda n, rng: rng.beta(10, 10, n)), 0.5),
    "mean, 5% leak much": (mean_of(rare), RARE),
    "difference, 5% leak much": (rare_difference, RARE - 0.016),
    "composite, 5% leak much": (rare_composite, RARE),
    "difference of composites, 5% leak much": (rare_contrast, RARE - 0.016),
    "composite of three, 0.5": (composite(0.0), 0.5),
    "composite of three, 0.9": (composite(1.2), float(stats.norm.cdf(1.2 / (1 + 0.98) ** 0.5))),
    "difference 0.5 - 0.3": (difference(0.5, 0.3), 0.2),
    "difference 0.05 - 0": (difference(0.05, 0.0), 0.05),
    **{f"AUC {shift}": (area(shift), float(stats.norm.cdf(shift / 2**0.5))) for shift in (0.0, 1.0, 3.0)},
}
"""Case -> trial, true value."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=600)
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    settings = parser.parse_args()
    trials = settings.trials
    print("| case | subjects | " + " | ".join(METHODS) + " |\n|---|---|" + "---|" * len(METHODS))
    for case, (trial, truth) in CASES.items():
        if settings.case not in case:
            continue
        for subjects in SUBJECTS:
            rng = np.random.default_rng(subjects)
            limits: dict[str, list[tuple[float, float]]] = {name: [] for name in METHODS}
            for _ in range(trials):
                sample = trial(subjects, rng)
                for name, method in METHODS.items():
                    low, high = method(sample)
                    if low is not None and high is not None:
                        limits[name].append((low, high))
            shown = (in_words(np.array(found), truth, trials) for found in limits.values())
            print(f"| {case} | {subjects} | " + " | ".join(shown) + " |", flush=True)


def in_words(limits: Array, truth: float, trials: int) -> str:
    """``94.5% (0.07, 1.0% below)`` of intervals, shape [<= trials, 2]."""
    if not len(limits):
        return "none"
    low, high = limits.T
    held, below = np.mean((low <= truth) & (truth <= high)), np.mean(high < truth)
    share = "" if len(limits) == trials else f", of {len(limits) / trials:.0%} of trials"
    return f"{held:.1%} ({np.mean(high - low):.2f}, {below:.1%} below{share})"


if __name__ == "__main__":
    main()
