"""Coverage of nominal 95% intervals over subjects, by method and number of subjects.

    python benchmarks_perf/interval_coverage.py [--trials 600]

Each trial draws subjects from a known distribution and asks whether the interval holds the truth. Methods:

- percentile: of a bootstrap over subjects, what the package prints today;
- t: Student's t with the bootstrap's standard error, times sqrt(S / (S - 1));
- Korn-Graubard: Clopper-Pearson with the effective sample size that this standard error implies (Korn & Graubard
  1998), S where the bootstrap cannot move. For values in [0, 1]; a difference is mapped there from [-1, 1].
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

Array = npt.NDArray[np.float64]
Interval = tuple[float, float]
SUBJECTS = (2, 3, 5, 10, 30, 100)
REPLICATES = 400


@dataclass(frozen=True)
class Sample:
    """A statistic of one data set and of its bootstrap replicates."""

    value: float
    draws: Array
    subjects: int
    bounds: Interval | None = (0.0, 1.0)

    @property
    def error(self) -> float:
        """Standard error, corrected for the bootstrap's division by S."""
        return float(np.std(self.draws)) * (self.subjects / (self.subjects - 1)) ** 0.5

    @property
    def quantile(self) -> float:
        """Student's 97.5% point."""
        return float(stats.t.ppf(0.975, self.subjects - 1))


Trial = Callable[[int, np.random.Generator], Sample]
"""Draws a data set of so many subjects."""


def percentile(sample: Sample) -> Interval:
    low, high = np.quantile(sample.draws, (0.025, 0.975))
    return float(low), float(high)


def student(sample: Sample) -> Interval:
    half = sample.quantile * sample.error
    return sample.value - half, sample.value + half


def korn_graubard(sample: Sample) -> Interval:
    if sample.bounds is None:
        return np.nan, np.nan
    least, most = sample.bounds
    share, error = (sample.value - least) / (most - least), sample.error / (most - least)
    size = float(sample.subjects)
    if error > 0:
        size = share * (1 - share) / error**2 * (stats.norm.ppf(0.975) / sample.quantile) ** 2
    hits = share * size
    low = stats.beta.ppf(0.025, hits, size - hits + 1) if hits > 0 else 0.0
    high = stats.beta.ppf(0.975, hits + 1, size - hits) if hits < size else 1.0
    return least + (most - least) * float(low), least + (most - least) * float(high)


METHODS = {"percentile": percentile, "t": student, "Korn-Graubard": korn_graubard}


def weights(subjects: int, rng: np.random.Generator) -> Array:
    """How often each replicate draws each subject, over the number of subjects: shape [B, S]."""
    return rng.multinomial(subjects, np.full(subjects, 1 / subjects), size=REPLICATES) / subjects


def harmonic(means: Array) -> Array:
    """Harmonic mean over the last axis."""
    return means.shape[-1] / np.sum(1 / np.maximum(means, 1e-12), axis=-1)


def mean_of(draw: Callable[[int, np.random.Generator], Array], bounds: Interval | None = (0.0, 1.0)) -> Trial:
    """Trials of a mean with one value a subject."""

    def trial(subjects: int, rng: np.random.Generator) -> Sample:
        values = draw(subjects, rng)
        return Sample(float(values.mean()), weights(subjects, rng) @ values, subjects, bounds)

    return trial


def rate(share: float, most_items: int) -> Trial:
    """Trials of a rate over items: 1 to ``most_items`` a subject, intraclass correlation 0.3."""
    odds = 1 / 0.3 - 1

    def trial(subjects: int, rng: np.random.Generator) -> Sample:
        items = rng.integers(1, most_items + 1, subjects).astype(np.float64)
        hits = rng.binomial(items.astype(int), rng.beta(share * odds, (1 - share) * odds, subjects)).astype(float)
        drawn = weights(subjects, rng)
        return Sample(float(hits.sum() / items.sum()), (drawn @ hits) / (drawn @ items), subjects)

    return trial


def composite(centre: float) -> Trial:
    """Trials of the harmonic mean of three correlated metrics."""

    def trial(subjects: int, rng: np.random.Generator) -> Sample:
        own = rng.normal(size=(subjects, 1))
        values = stats.norm.cdf(centre + 0.7 * own + 0.7 * rng.normal(size=(subjects, 3)))
        return Sample(float(harmonic(values.mean(axis=0))), harmonic(weights(subjects, rng) @ values), subjects)

    return trial


def area(shift: float) -> Trial:
    """Trials of the AUC of as many members as non-members, one document each."""

    def trial(subjects: int, rng: np.random.Generator) -> Sample:
        wins = (rng.normal(shift, 1, subjects)[:, None] > rng.normal(0, 1, subjects)[None]).astype(float)
        members, others = weights(subjects, rng), weights(subjects, rng)
        return Sample(float(wins.mean()), np.sum(members @ wins * others, axis=1), subjects)

    return trial


def difference(ours: float, theirs: float) -> Trial:
    """Trials of the paired difference of two independent shares, one item a subject."""
    return mean_of(lambda n, rng: (rng.random(n) < ours) * 1.0 - (rng.random(n) < theirs), (-1.0, 1.0))


def share_of(value: float) -> Trial:
    """Trials of a share of subjects."""
    return mean_of(lambda n, rng: (rng.random(n) < value) * 1.0)


CASES = {
    "mean, Gaussian": (mean_of(lambda n, rng: rng.normal(size=n), None), 0.0),
    "mean, exponential": (mean_of(lambda n, rng: rng.exponential(size=n), None), 1.0),
    "mean, beta(0.5, 2)": (mean_of(lambda n, rng: rng.beta(0.5, 2, n)), 0.2),
    **{f"share of subjects, {share}": (share_of(share), share) for share in (0.02, 0.05, 0.5)},
    **{f"rate, unequal sizes, {share}": (rate(share, 19), share) for share in (0.02, 0.05, 0.5)},
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
    trials = parser.parse_args().trials
    print("| case | subjects | " + " | ".join(METHODS) + " |\n|---|---|" + "---|" * len(METHODS))
    for case, (trial, truth) in CASES.items():
        for subjects in SUBJECTS:
            rng = np.random.default_rng(subjects)
            hits = dict.fromkeys(METHODS, 0.0)
            for _ in range(trials):
                sample = trial(subjects, rng)
                for name, method in METHODS.items():
                    low, high = method(sample)
                    hits[name] += np.nan if np.isnan(low) else low <= truth <= high
            shown = ("-" if np.isnan(count) else f"{100 * count / trials:.1f}%" for count in hits.values())
            print(f"| {case} | {subjects} | " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    main()
