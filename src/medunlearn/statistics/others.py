"""Comparison of one or a few subjects with others: how unusual they would be as another one of these."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.95
LEAST_OTHERS = 3
"""Others from whose spread anything can be told."""


@dataclass(frozen=True, slots=True)
class OthersGap:
    """Difference between a few subjects' mean and the mean of others.

    Attributes:
        value: the difference.
        low, high: each a one-sided 95% bound, so that ``high`` below a margin is a test at 5% (Schuirmann 1987,
            Journal of Pharmacokinetics and Biopharmaceutics 15(6): two one-sided tests).
        p: one-sided: chance of a difference as large if the few come from the others' distribution.
        others: number of others.
    """

    value: float
    low: float
    high: float
    p: float
    others: int


@dataclass(frozen=True, slots=True)
class Surprise:
    """Result of the exact tests of one subject.

    Attributes:
        mean: mean of -ln p over the subject's tests, nats, >= 0; about 1 if nothing is known, higher = known
            better.
        tests: number of tests.
    """

    mean: float
    tests: int


def chance_of_surprise(few: Sequence[Surprise], others: Sequence[Surprise]) -> float | None:
    """Chance that a few subjects' tests are as surprising if nothing is known of them, 0-1.

    The larger of two p-values. The comparison with others (:func:`compare_with_others`) is valid if p is not
    uniform, or tests of one subject are dependent. Fisher's combination (2 n mean is chi-squared with 2 n degrees
    of freedom) is valid for few tests and in the tail, where few others carry no information. On this scale a fact
    that is likelier than all 59 alternatives counts 4 nats, a median rank 0.7, while a mean of ranks hardly
    distinguishes two known facts from two lucky ones. None with fewer than 3 others.

    Source: Fisher 1932, Statistical Methods for Research Workers, 4th edition, Section 21.1.
    """
    sizes = [subject.tests for subject in few], [subject.tests for subject in others]
    gap = compare_with_others([own.mean for own in few], [other.mean for other in others], sizes=sizes)
    if gap is None:
        return None
    return max(gap.p, chance_by_fisher(few))


def chance_by_fisher(few: Sequence[Surprise]) -> float:
    """Chance that a few subjects' independent exact tests are as surprising if nothing is known of them, 0-1.

    Dependent tests make it too small. Source: as :func:`chance_of_surprise`.
    """
    from scipy.special import gammaincc

    tests = sum(subject.tests for subject in few)
    return float(gammaincc(tests, math.fsum(subject.tests * subject.mean for subject in few)))


def chance_of_share(share: float, tests: int, others: Sequence[tuple[float, int]]) -> float:
    """Upper bound of the chance of so large a mean of independent numbers from 0 to 1, 0-1.

    Each number has at most the expectation of the others', estimated by the rule of succession, so that others
    without a single hit do not make one hit impossible. exp(-n KL(share, rate)) also holds for rare events, where
    Student's distribution of a few others calls a single lucky answer impossible.

    Args:
        share: mean of the subject's numbers.
        tests: how many there are.
        others: mean and number of each other subject's.

    Source: Hoeffding 1963, Journal of the American Statistical Association 58(301), Theorem 1.
    """
    hits, number = math.fsum(mean * n for mean, n in others), sum(n for _, n in others)
    rate = (hits + 1.0) / (number + 1.0)
    if share <= rate:
        return 1.0
    divergence = share * math.log(share / rate)
    if share < 1.0:
        divergence += (1.0 - share) * math.log((1.0 - share) / (1.0 - rate))
    return math.exp(-tests * divergence)


def chance_of_hits(hits: int, tests: int, chance: float) -> float:
    """Chance of at least so many hits in independent tests of this chance, 0-1."""
    from scipy.special import bdtrc

    return 1.0 if hits == 0 else float(bdtrc(hits - 1, tests, chance))


def compare_with_others(
    few: Sequence[float],
    others: Sequence[float],
    *,
    sizes: tuple[Sequence[int], Sequence[int]] | None = None,
    least_spread: float = 0.0,
) -> OthersGap | None:
    """Difference between a few subjects' mean and that of others, using only the spread of the others.

    With m of the few, n others of mean M and standard deviation s, (mean - M) / (s sqrt(1/m + 1/n)) has Student's
    distribution with n - 1 degrees of freedom if all come from the same normal distribution; so even a single
    subject has an interval, which accounts for dependent probes. None with fewer than 3 others.

    Subjects whose numbers are means over more probes vary less: with sizes, a variance is proportional to 1 / size.
    A subject counts as no larger than the largest of the others, beyond which nothing is known of the spread.

    Args:
        few, others: one number per subject.
        sizes: number of probes of each of the few, and of the others; None: all alike.
        least_spread: lower bound of s, for others that hardly differ.

    Source: the prediction interval of Hahn 1969, Journal of the American Statistical Association 64(327).
    """
    from scipy.special import stdtr, stdtrit

    m, n = len(few), len(others)
    if m == 0 or n < LEAST_OTHERS:
        return None
    own, theirs = sizes or ([1] * m, [1] * n)
    total, largest = sum(theirs), max(theirs)
    centre = math.fsum(size * other for size, other in zip(theirs, others, strict=True)) / total
    value = math.fsum(few) / m - centre
    squares = math.fsum(size * (other - centre) ** 2 for size, other in zip(theirs, others, strict=True))
    shares = math.fsum(1 / min(size, largest) for size in own) / m**2 + 1 / total
    error = max(math.sqrt(squares / (n - 1) * shares), least_spread * math.sqrt(1 / m + 1 / n))
    if error == 0.0:
        return OthersGap(value, value, value, 1.0 if value <= 0 else 0.0, n)
    half = float(stdtrit(n - 1, LEVEL)) * error
    return OthersGap(value, value - half, value + half, float(stdtr(n - 1, -value / error)), n)
