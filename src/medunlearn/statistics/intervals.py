"""The interval policy: one rule for the uncertainty of all numbers over subjects.

A number between known bounds (a share, a score of 0-1, a composite, an AUC, a difference of these) has a
Clopper-Pearson interval with the sample size that its standard error over subjects implies (Korn & Graubard 1998,
"Confidence intervals for proportions with small expected number of positive counts estimated from survey data",
Survey Methodology 24(2)). A share of subjects, one yes or no each, has the plain Clopper-Pearson interval. If all
subjects are equal, the share of different ones is bounded like 0 of S, with values anywhere between the bounds: 0
of 30 patients is reported as at most 11.6%. Any other number has Student's t over subjects.

Unequal subjects count as fewer: K = (sum of sizes)^2 / (sum of squared sizes) (Kish 1965, "Survey sampling",
Section 11.7). Standard errors are unbiased for unequal sizes (Bell & McCaffrey 2002, Survey Methodology 28(2)), and
Student's t has K - 1 degrees of freedom. Fewer than five effective subjects have no interval.

Rare leakage: below five subjects' worth and a quarter of the range, the standard error cannot know of the
subjects that leak much, since the sample may have none. The upper limit is then at least that of a sample with
one more subject at the upper bound (Gaffke 2005, "Three test statistics for a nonparametric one-sided hypothesis
on the mean of a nonnegative variable", Mathematical Methods of Statistics 14(4); Learned-Miller & Thomas 2020,
arXiv 1905.06208): for equal subjects this is the rule of three, for shares it is Clopper & Pearson's. The lower
limit near the upper bound is its mirror image.

Bootstrap percentiles are not used: they stay at 0 if no subject leaks, and are too narrow below 30 subjects.
``benchmarks_perf/interval_coverage.py`` measures the coverage of each interval.

Notation: S subjects, of K effective ones; alpha = 1 - level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError

Array = npt.NDArray[np.float64]
Bounds = tuple[float, float]
Limits = tuple[float | None, float | None]

LEVEL = 0.95
MIN_SUBJECTS = 5
"""Fewer effective subjects than this have no interval."""
RARE, RARE_SHARE = 5.0, 0.25
"""Below five subjects' worth and a quarter of its range, a number may hide subjects that leak much."""

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

    @property
    def size(self) -> float:
        """Effective number of subjects."""
        ...

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
        effective: effective number of subjects (:func:`effective_subjects`); None for ``subjects``.
    """

    value: float
    error: float
    subjects: int
    bounds: Bounds = UNBOUNDED
    share: bool = False
    effective: float | None = None

    def limits(self, alpha: float) -> Limits:
        """Clopper-Pearson with bounds, Student's t without; none for fewer than :data:`MIN_SUBJECTS`."""
        size = self.size
        if too_few(size) or not math.isfinite(self.error):
            return None, None
        if math.isinf(self.bounds[1] - self.bounds[0]):
            half = _student(size - 1.0, alpha) * self.error
            return (self.value - half, self.value + half) if half > 0 else (None, None)
        least, width = self.bounds[0], self.bounds[1] - self.bounds[0]
        share, error = min(max((self.value - least) / width, 0.0), 1.0), self.error / width
        if self.share:
            low, high = clopper_pearson(share, size, alpha)
        elif error <= _ROUNDING:
            low, high = 1.0 - _with_unseen(1.0 - share, 0.0, size, alpha), _with_unseen(share, 0.0, size, alpha)
        else:
            low, high = clopper_pearson(share, self._implied_size(share, error, alpha), alpha)
            # A signed number is not rare where it is far from 0.
            amount = least >= 0.0
            if amount and _is_rare(share, size):
                high = max(high, _with_unseen(share, error, size, alpha))
            if amount and _is_rare(1.0 - share, size):
                low = min(low, 1.0 - _with_unseen(1.0 - share, error, size, alpha))
        return least + width * low, least + width * high

    @property
    def is_rare(self) -> bool:
        """True for an amount near its lower bound, where subjects unlike all that were seen decide the interval."""
        least, width = self.bounds[0], self.bounds[1] - self.bounds[0]
        return least >= 0.0 and math.isfinite(width) and _is_rare((self.value - least) / width, self.size)

    @property
    def size(self) -> float:
        """Effective number of subjects."""
        return float(self.subjects) if self.effective is None else self.effective

    def _implied_size(self, share: float, error: float, alpha: float) -> float:
        """Number of subjects with yes or no that would have this standard error."""
        from scipy.special import ndtri

        ratio = -float(ndtri(alpha / 2)) / _student(self.size - 1.0, alpha)
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

    @property
    def size(self) -> float:
        return self.gain.size

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
        low, high: interval over clusters, in the units of ``value``; None with fewer than five effective clusters,
            or if clusters do not differ in a number without bounds.
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

    @property
    def n_effective(self) -> float | None:
        """Effective number of clusters, at most ``n_clusters``; None without observations."""
        return None if self.uncertainty is None else self.uncertainty.size


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


def effective_subjects(counts: Array) -> Array:
    """Effective number of subjects with these numbers of items, [S] -> scalar, or [S, k] -> [k]; 0 without items.

    Equal subjects count as themselves; one with 200 items beside 29 with four counts with them as 2.5. Kish 1965,
    "Survey sampling", Section 11.7, for values that differ between subjects more than within.
    """
    squares = (counts * counts).sum(axis=0)
    return np.asarray(counts.sum(axis=0) ** 2 / np.maximum(squares, 1.0), dtype=np.float64)


def too_few(subjects: float) -> bool:
    """True for fewer than five effective subjects, not by rounding."""
    return subjects < MIN_SUBJECTS - 1e-9


def why_no_interval(subjects: int, effective: float | None) -> str:
    """Why a number over subjects has no interval; "" if they are enough for one."""
    if too_few(subjects):
        return f"fewer than {MIN_SUBJECTS} subjects: no interval"
    if effective is not None and too_few(effective):
        return (
            f"{subjects} subjects of unequal size count as {effective:.1f}, fewer than {MIN_SUBJECTS}: no interval"
        )
    return ""


def mean_over_subjects(sums: Array, counts: Array, bounds: Bounds = UNBOUNDED) -> SubjectMean | None:
    """The mean of all items, with its standard error over subjects; None without items.

    The error is that of a ratio of sums (:func:`linearized_covariance`); for subjects of equal size it is the usual
    one.

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
    equal = np.ptp(counts[there]) == 0
    share = bounds == UNIT and bool(np.isin(own, (0.0, 1.0)).all()) and bool(equal)
    size = float(subjects) if equal else float(effective_subjects(counts))
    return SubjectMean(value, error, subjects, bounds, share, size)


def linearized_errors(sums: Array, counts: Array) -> float:
    """Standard error of ``sum(sums) / sum(counts)`` over subjects; infinite for a single one."""
    return math.sqrt(max(linearized_covariance(sums, sums, counts), 0.0))


def linearized_covariance(sums: Array, others: Array, counts: Array) -> float:
    """Covariance over subjects of two means on the same items; infinite for a single subject.

    By linearization (Cochran 1977, "Sampling techniques", Section 6.3). A large subject pulls the mean towards
    itself, so that its residual is too small: each is divided by its expected part for subject means of equal
    variance (Bell & McCaffrey 2002, Survey Methodology 28(2)), for equal sizes S / (S - 1).
    """
    subjects, total = int((counts > 0).sum()), float(counts.sum())
    if subjects < 2:
        return math.inf
    first = sums - sums.sum() / total * counts
    second = others - others.sum() / total * counts
    parts = counts / total
    expected = 1.0 - 2.0 * parts + float(parts @ parts)
    return float((first * second / expected).sum()) / total**2


def from_draws(
    value: float, draws: Array, subjects: int, bounds: Bounds = UNBOUNDED, effective: float | None = None
) -> SubjectMean:
    """A statistic with the standard error of its bootstrap replicates, times sqrt(K / (K - 1)).

    Args:
        draws: replicates, [B], all finite. With bounds their standard deviation is used; without, that of the
            normal distribution with the same 95% range, which is robust to outliers of a ratio.
        effective: K; None for ``subjects``.
    """
    size = float(subjects) if effective is None else effective
    if subjects < 2 or size <= 1.0 or len(draws) == 0:
        return SubjectMean(value, math.inf, subjects, bounds, effective=effective)
    if math.isinf(bounds[1] - bounds[0]):
        low, high = np.quantile(draws, [0.025, 0.975])
        error = float(high - low) / (2 * 1.959963984540054)
    else:
        error = float(np.std(draws))
    return SubjectMean(value, error * math.sqrt(size / (size - 1.0)), subjects, bounds, effective=effective)


def paired_over_subjects(gains: Array, losses: Array, counts: Array, bounds: Bounds) -> PairedDifference:
    """A difference of bounded means from each subject's sums of gains and of losses, both at least 0, [S] each."""
    most = (0.0, bounds[1] - bounds[0])
    width = most[1]
    scaled = [mean_over_subjects(part / width, counts, UNIT) for part in (gains, losses)]
    parts = [
        replace(mean, value=mean.value * width, error=mean.error * width, bounds=most)
        for mean in scaled
        if mean is not None
    ]
    errors = parts[0].error * parts[1].error
    covariance = linearized_covariance(gains, losses, counts)
    correlation = covariance / errors if math.isfinite(covariance) and errors > _ROUNDING**2 else 0.0
    return PairedDifference(parts[0], parts[1], min(max(correlation, -1.0), 1.0))


def _is_rare(share: float, size: float) -> bool:
    return share < min(RARE_SHARE, RARE / size)


def _with_unseen(share: float, error: float, size: float, alpha: float) -> float:
    """Upper limit of a mean of 0-1, as if one more subject with 1 had been seen.

    The weights of K subjects and of the added one are uniform on the simplex; their mean has a beta distribution
    where subjects are equal or 0 and 1, and nearly so elsewhere (by its first two moments, from two standard
    deviations of the subjects below their mean).
    """
    from scipy.special import betaincinv

    spread = error * math.sqrt(size)
    least = max(0.0, share - 2.0 * spread)
    if least >= 1.0:
        return 1.0
    width = 1.0 - least
    mean, variance = (share - least) / width, (spread / width) ** 2 * (size - 1.0) / size
    centre = (size * mean + 1.0) / (size + 1.0)
    square = (size * (mean**2 + variance) + 1.0) / (size + 1.0) - centre**2
    if square <= 0.0:
        return 1.0
    weight = centre * (1.0 - centre) * (size + 2.0) / square - 1.0
    return least + width * (1.0 - float(betaincinv((1.0 - centre) * weight, centre * weight, alpha / 2)))


def _student(degrees: float, alpha: float) -> float:
    """Upper alpha / 2 quantile of Student's distribution."""
    from scipy.special import stdtrit

    return -float(stdtrit(degrees, alpha / 2))
