"""The interval policy: one rule for the uncertainty of all numbers over subjects.

A number between known bounds (a share, a score of 0-1, a composite, an AUC, a difference of these) has a
Clopper-Pearson interval with the sample size that its standard error over subjects implies (Korn & Graubard 1998,
"Confidence intervals for proportions with small expected number of positive counts estimated from survey data",
Survey Methodology 24(2)). A share of subjects, one yes or no each, has the plain Clopper-Pearson interval. If all
subjects are equal, the share of different ones is bounded like 0 of S, with values anywhere between the bounds: 0
of 30 patients is reported as at most 11.6%. Any other number has Student's t over subjects. Fewer than five
subjects have no interval.

Bootstrap percentiles are not used: they stay at 0 if no subject leaks, and are too narrow below 30 subjects.
``benchmarks_perf/interval_coverage.py`` measures the coverage of each interval.

Notation: S subjects; alpha = 1 - level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError

Array = npt.NDArray[np.float64]
Bounds = tuple[float, float]
Limits = tuple[float | None, float | None]

LEVEL = 0.95
MIN_SUBJECTS = 5
"""Fewer subjects than this have no interval."""

UNIT: Bounds = (0.0, 1.0)
UNBOUNDED: Bounds = (-math.inf, math.inf)

# A standard error below this share of the range is rounding: the subjects do not differ.
_ROUNDING = 1e-12
LEAST_P = 1e-12
"""P-values are not distinguished below this."""


class Uncertainty(Protocol):
    """A number with intervals of any coverage."""

    @property
    def value(self) -> float: ...

    @property
    def subjects(self) -> int: ...

    def limits(self, alpha: float) -> Limits:
        """The interval of coverage 1 - alpha, in the number's unit; (None, None) without one."""
        ...


@dataclass(frozen=True, slots=True)
class SubjectMean:
    """A number over subjects with its standard error.

    Attributes:
        value, error: number and its standard error over subjects, not items.
        subjects: number of subjects.
        bounds: range of the number, in its unit.
        share: the value is a share of the subjects, each of which counts 0 or 1.
    """

    value: float
    error: float
    subjects: int
    bounds: Bounds = UNBOUNDED
    share: bool = False

    def limits(self, alpha: float) -> Limits:
        """Clopper-Pearson with bounds, Student's t without; none for fewer than :data:`MIN_SUBJECTS`."""
        if self.subjects < MIN_SUBJECTS or not math.isfinite(self.error):
            return None, None
        if math.isinf(self.bounds[1] - self.bounds[0]):
            half = _student(self.subjects, alpha) * self.error
            return (self.value - half, self.value + half) if half > 0 else (None, None)
        least, width = self.bounds[0], self.bounds[1] - self.bounds[0]
        share = min(max((self.value - least) / width, 0.0), 1.0)
        if self.share:
            low, high = clopper_pearson(share, self.subjects, alpha)
        elif self.error <= _ROUNDING * width:
            others = clopper_pearson(0.0, self.subjects, alpha)[1]
            low, high = share * (1.0 - others), share + others * (1.0 - share)
        else:
            low, high = clopper_pearson(share, self._size(share, self.error / width, alpha), alpha)
        return least + width * low, least + width * high

    def _size(self, share: float, error: float, alpha: float) -> float:
        """Effective number of subjects for a share with a standard error."""
        from scipy.special import ndtri

        ratio = -float(ndtri(alpha / 2)) / _student(self.subjects, alpha)
        return share * (1.0 - share) / error**2 * ratio**2


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A difference of two bounded means on the same items: the mean gain minus the mean loss.

    The intervals of the two parts are joined by MOVER with their correlation (Zou & Donner 2008,
    "Construction of confidence limits about effect measures", Statistics in Medicine 27(10)), so that two models
    that never differ on 30 subjects differ by at most 11.6%, not by 0.
    """

    gain: SubjectMean
    loss: SubjectMean
    correlation: float

    @property
    def value(self) -> float:
        return self.gain.value - self.loss.value

    @property
    def subjects(self) -> int:
        return self.gain.subjects

    def limits(self, alpha: float) -> Limits:
        """MOVER of the two parts' intervals."""
        (gain_low, gain_high), (loss_low, loss_high) = self.gain.limits(alpha), self.loss.limits(alpha)
        if gain_low is None or gain_high is None or loss_low is None or loss_high is None:
            return None, None
        below = self._joined(self.gain.value - gain_low, loss_high - self.loss.value)
        above = self._joined(gain_high - self.gain.value, self.loss.value - loss_low)
        return self.value - below, self.value + above

    def _joined(self, first: float, second: float) -> float:
        return math.sqrt(max(first**2 + second**2 - 2.0 * self.correlation * first * second, 0.0))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number over subjects, or a difference of two, with its interval.

    Attributes:
        value: the number; None without observations.
        low, high: interval over clusters, in the units of ``value``; None with fewer than five clusters, or if
            clusters do not differ in a number without bounds.
        n: number of observations, for a difference those in both (for several columns: rows observed in all of
            them).
        n_clusters: number of clusters (for several columns: the smallest).
        replicates_dropped: number of replicates without a value, since a column had no observation.
        uncertainty: basis of the interval; None without observations.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int = 0
    n_clusters: int = 0
    replicates_dropped: int = 0
    uncertainty: Uncertainty | None = None

    @staticmethod
    def of(
        value: float,
        uncertainty: Uncertainty | None,
        n: int,
        n_clusters: int,
        dropped: int = 0,
        level: float = LEVEL,
    ) -> Estimate:
        """An estimate with its interval at a level of coverage.

        Raises:
            InputError: a level outside (0, 1).
        """
        return Estimate(value, *interval(uncertainty, level), n, n_clusters, dropped, uncertainty)

    @property
    def p(self) -> float | None:
        """Two-sided p-value of "the number is 0", 1e-12 to 1, by inverting the interval; None without one."""
        return p_value(self.uncertainty)


def clopper_pearson(share: float, size: float, alpha: float) -> tuple[float, float]:
    """The exact interval of a share of ``size`` subjects (not always a whole number), 0-1.

    Source: Clopper & Pearson 1934, Biometrika 26(4); by quantiles of the beta distribution.
    """
    from scipy.special import betaincinv

    hits, misses = share * size, (1.0 - share) * size
    low = float(betaincinv(hits, misses + 1.0, alpha / 2)) if hits > 0 else 0.0
    high = 1.0 - float(betaincinv(misses, hits + 1.0, alpha / 2)) if misses > 0 else 1.0
    return low, high


def interval(uncertainty: Uncertainty | None, level: float = LEVEL) -> Limits:
    """The interval of a number at a level of coverage.

    Raises:
        InputError: a level outside (0, 1).
    """
    if not 0.0 < level < 1.0:
        raise InputError(f"level is the coverage of the interval, between 0 and 1, not {level}.")
    return (None, None) if uncertainty is None else uncertainty.limits(1.0 - level)


def p_value(uncertainty: Uncertainty | None, null: float = 0.0) -> float | None:
    """Two-sided p-value of "the number is ``null``", 1e-12 to 1, by inverting the interval.

    The largest alpha at which the interval of coverage 1 - alpha still contains ``null``, to a relative 1e-6; None
    without an interval.
    """
    if uncertainty is None or uncertainty.limits(0.05)[0] is None:
        return None

    def holds(log_alpha: float) -> bool:
        low, high = uncertainty.limits(math.exp(log_alpha))
        return low is not None and high is not None and low <= null <= high

    # At alpha = 1 there is no interval left.
    inside, outside = math.log(LEAST_P), -1e-6
    if holds(outside):
        return 1.0
    if not holds(inside):
        return LEAST_P
    while outside - inside > 1e-6:
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return math.exp(inside)


def holm(p_values: list[float]) -> list[float]:
    """Holm-corrected p-values, in the given order, 0-1.

    The chance of any false finding below alpha is at most alpha (Holm 1979, Scandinavian Journal of
    Statistics 6(2)).
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, highest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return corrected


def subjects_needed(bound: float, level: float = LEVEL) -> int:
    """The smallest number of subjects, all without a leak, that shows a rate of at most ``bound`` (0-1, exclusive).

    Raises:
        InputError: a bound outside (0, 1).
    """
    if not 0.0 < bound < 1.0:
        raise InputError(f"A bound on a rate is between 0 and 1, not {bound}.")
    return max(MIN_SUBJECTS, math.ceil(math.log((1.0 - level) / 2.0) / math.log1p(-bound)))


def mean_over_subjects(sums: Array, counts: Array, bounds: Bounds = UNBOUNDED) -> SubjectMean | None:
    """The mean of all items, with its standard error over subjects; None without items.

    The error is that of a ratio of sums, by linearization (Cochran 1977, "Sampling techniques", Section 6.3), with
    S / (S - 1); for subjects of equal size it is the usual one.

    Args:
        sums, counts: sum of values and number of items of each subject, shape [S]; subjects without items are
            dropped.
    """
    there = counts > 0
    subjects, total = int(there.sum()), float(counts.sum())
    if not subjects:
        return None
    value, error = float(sums.sum()) / total, linearized_errors(sums, counts)
    own = sums[there] / counts[there]
    share = bounds == UNIT and bool(np.isin(own, (0.0, 1.0)).all()) and np.ptp(counts[there]) == 0
    return SubjectMean(value, error, subjects, bounds, share)


def linearized_errors(sums: Array, counts: Array) -> float:
    """Standard error of ``sum(sums) / sum(counts)`` over subjects; infinite for a single one."""
    return math.sqrt(max(linearized_covariance(sums, sums, counts), 0.0))


def linearized_covariance(sums: Array, others: Array, counts: Array) -> float:
    """Covariance over subjects of two means on the same items; infinite for a single subject."""
    subjects, total = int((counts > 0).sum()), float(counts.sum())
    if subjects < 2:
        return math.inf
    first = sums - sums.sum() / total * counts
    second = others - others.sum() / total * counts
    return float(first @ second) / total**2 * subjects / (subjects - 1)


def from_draws(value: float, draws: Array, subjects: int, bounds: Bounds = UNBOUNDED) -> SubjectMean:
    """A statistic with the standard error of its bootstrap replicates, times sqrt(S / (S - 1)).

    Args:
        draws: replicates, [B], all finite. With bounds their standard deviation is used; without, that of the
            normal distribution with the same 95% range, which is robust to outliers of a ratio.
    """
    if subjects < 2 or len(draws) == 0:
        return SubjectMean(value, math.inf, subjects, bounds)
    if math.isinf(bounds[1] - bounds[0]):
        low, high = np.quantile(draws, [0.025, 0.975])
        error = float(high - low) / (2 * 1.959963984540054)
    else:
        error = float(np.std(draws))
    return SubjectMean(value, error * math.sqrt(subjects / (subjects - 1)), subjects, bounds)


def paired_over_subjects(gains: Array, losses: Array, counts: Array, bounds: Bounds) -> PairedDifference:
    """A difference of bounded means from each subject's sums of gains and of losses, both at least 0, [S] each."""
    most = (0.0, bounds[1] - bounds[0])
    width = most[1]
    scaled = [mean_over_subjects(part / width, counts, UNIT) for part in (gains, losses)]
    parts = [
        SubjectMean(mean.value * width, mean.error * width, mean.subjects, most, mean.share)
        for mean in scaled
        if mean is not None
    ]
    errors = parts[0].error * parts[1].error
    covariance = linearized_covariance(gains, losses, counts)
    correlation = covariance / errors if math.isfinite(covariance) and errors > _ROUNDING**2 else 0.0
    return PairedDifference(parts[0], parts[1], min(max(correlation, -1.0), 1.0))


def _student(subjects: int, alpha: float) -> float:
    """Upper alpha / 2 quantile of Student's distribution with S - 1 degrees of freedom."""
    from scipy.special import stdtrit

    return -float(stdtrit(subjects - 1, alpha / 2))
