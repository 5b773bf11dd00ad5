"""One subject, or a few, against others: how far off they are from what another one of these would be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.95
LEAST_OTHERS = 3
"""Others from whose spread anything can be told."""


@dataclass(frozen=True, slots=True)
class OthersGap:
    """Difference of a few subjects' mean from the mean of others.

    Attributes:
        value: the difference.
        low, high: each a one-sided 95% bound, so that ``high`` below a margin is a test at 5% (Schuirmann 1987,
            Journal of Pharmacokinetics and Biopharmaceutics 15(6): two one-sided tests).
        p: one-sided: chance of a difference as large where the few are drawn as the others are.
        others: how many there were.
    """

    value: float
    low: float
    high: float
    p: float
    others: int


@dataclass(frozen=True, slots=True)
class Surprise:
    """Result of exact tests on one subject.

    Attributes:
        mean: of -ln p over her tests, nats, >= 0; about 1 if nothing is known of her, higher = known better.
        tests: how many there were.
    """

    mean: float
    tests: int


def chance_of_surprise(few: Sequence[Surprise], others: Sequence[Surprise]) -> float | None:
    """Chance that a few subjects' tests are as surprising where nothing is known of them, 0-1.

    The larger of two. How often others drawn alike are as surprising (:func:`compare_with_others`) holds where p is
    not uniform, or where tests of one subject depend on each other. Fisher's combination, by which 2 n mean has the
    chi-squared distribution with 2 n degrees of freedom, holds for few tests and in the tail, of which few others
    tell nothing. On this scale a fact that is likelier than all 59 alternatives counts 4 nats, a rank in the middle
    0.7, while a mean of ranks hardly tells two known facts from two lucky ones. None of fewer than 3 others.

    Source: Fisher 1932, Statistical Methods for Research Workers, 4th edition, Section 21.1.
    """
    from scipy.special import gammaincc

    gap = compare_with_others([subject.mean for subject in few], [subject.mean for subject in others])
    if gap is None:
        return None
    tests = sum(subject.tests for subject in few)
    return max(gap.p, float(gammaincc(tests, math.fsum(subject.tests * subject.mean for subject in few))))


def compare_with_others(
    few: Sequence[float], others: Sequence[float], *, least_spread: float = 0.0
) -> OthersGap | None:
    """The difference of a few subjects' mean from others', by the spread of the others alone.

    With m of the few, n others of mean M and standard deviation s, (mean - M) / (s sqrt(1/m + 1/n)) has Student's
    distribution with n - 1 degrees of freedom where all are drawn alike from a normal distribution; so a single
    subject has an interval, which holds how her probes depend on each other. None of fewer than 3 others.

    Args:
        few, others: a number per subject.
        least_spread: s is at least this, where the others hardly differ.

    Source: the prediction interval of Hahn 1969, Journal of the American Statistical Association 64(327).
    """
    from scipy.special import stdtr, stdtrit

    m, n = len(few), len(others)
    if m == 0 or n < LEAST_OTHERS:
        return None
    centre = math.fsum(others) / n
    value = math.fsum(few) / m - centre
    spread = math.sqrt(math.fsum((other - centre) ** 2 for other in others) / (n - 1))
    error = max(spread, least_spread) * math.sqrt(1 / m + 1 / n)
    if error == 0.0:
        return OthersGap(value, value, value, 1.0 if value <= 0 else 0.0, n)
    half = float(stdtrit(n - 1, LEVEL)) * error
    return OthersGap(value, value - half, value + half, float(stdtr(n - 1, -value / error)), n)
