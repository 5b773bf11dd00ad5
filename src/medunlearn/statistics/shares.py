"""Shares of subjects with exact intervals, and exact tests of two shares: unpaired (Fisher) and paired
(McNemar).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from medunlearn.errors import InputError
from medunlearn.statistics.intervals import LEVEL, MIN_SUBJECTS, clopper_pearson

_TIES = 1e-9
"""Tables whose probabilities differ by less than this part are equally likely."""


@dataclass(frozen=True, slots=True)
class SubjectShare:
    """Number and share of subjects with some property.

    Attributes:
        hits, n: number of subjects with the property, and of all scored subjects.
        unscored: number of subjects without a score, which are in neither number.
    """

    hits: int
    n: int
    unscored: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.hits <= self.n:
            raise InputError(f"{self.hits} of {self.n} subjects is not a share.")

    @property
    def value(self) -> float | None:
        """The share, 0-1; None without subjects."""
        return self.hits / self.n if self.n else None

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """Clopper-Pearson interval at 95%, 0-1; (None, None) with fewer than five subjects."""
        if self.n < MIN_SUBJECTS:
            return None, None
        return clopper_pearson(self.hits / self.n, self.n, 1.0 - LEVEL)


@dataclass(frozen=True, slots=True)
class ShareDifference:
    """First share minus second share.

    Attributes:
        value: -1 to 1; None if one of the two has no subject.
        low, high: 95% interval; None if a share has none.
        p: two-sided and exact, 0-1; None if a share has no subject.
    """

    value: float | None
    low: float | None
    high: float | None
    p: float | None


def compare_shares(first: SubjectShare, second: SubjectShare) -> ShareDifference:
    """The difference between two disjoint groups' shares, with Fisher's exact test.

    The interval joins both Clopper-Pearson intervals by MOVER (Zou & Donner 2008, Statistics in Medicine 27(10)).

    Source: Fisher 1935, Journal of the Royal Statistical Society 98(1); two-sided by the sum over all tables that
    are at most as likely.
    """
    if first.value is None or second.value is None:
        return ShareDifference(None, None, None, None)
    value = first.value - second.value
    return ShareDifference(value, *_mover(first, second, value), fisher_p(first, second))


def compare_paired_shares(only_first: int, only_second: int, both: int, n: int) -> ShareDifference:
    """The difference of two models' shares on the same subjects, with McNemar's exact test.

    The interval is that of subjects gained minus subjects lost, joined as in
    :class:`~medunlearn.statistics.intervals.PairedDifference`.

    Args:
        only_first, only_second, both: numbers of subjects with the property under the first model only, the second
            only, both.
        n: number of all subjects.

    Source: McNemar 1947, Psychometrika 12(2); the binomial test of the subjects that differ.
    """
    if min(only_first, only_second, both) < 0 or only_first + only_second + both > n:
        raise InputError(f"{only_first}, {only_second} and {both} subjects do not fit into {n}.")
    if not n:
        return ShareDifference(None, None, None, None)
    value = (only_first - only_second) / n
    gained, losses = SubjectShare(only_first, n), SubjectShare(only_second, n)
    p_gained, p_lost = only_first / n, only_second / n
    spread = math.sqrt(p_gained * (1 - p_gained) * p_lost * (1 - p_lost))
    low, high = _mover(gained, losses, value, -p_gained * p_lost / spread if spread else 0.0)
    return ShareDifference(value, low, high, sign_test(only_first, only_second))


def fisher_p(first: SubjectShare, second: SubjectShare) -> float:
    """Two-sided p-value of Fisher's exact test, 0-1; 1 if no or all subjects are hits."""
    hits, n = first.hits + second.hits, first.n + second.n
    least, most = max(0, hits - second.n), min(hits, first.n)

    def log_chance(ours: int) -> float:
        return _log_choose(first.n, ours) + _log_choose(second.n, hits - ours) - _log_choose(n, hits)

    observed = log_chance(first.hits)
    return _sum_of_unlikely((log_chance(ours) for ours in range(least, most + 1)), observed)


def sign_test(first: int, second: int) -> float:
    """Two-sided exact p-value of the sign test for ``first`` against ``second`` discordant subjects, 0-1."""
    n = first + second
    chances = (_log_choose(n, heads) - n * math.log(2) for heads in range(n + 1))
    return _sum_of_unlikely(chances, _log_choose(n, first) - n * math.log(2))


def _sum_of_unlikely(log_chances: Iterable[float], observed: float) -> float:
    return min(1.0, math.fsum(math.exp(chance) for chance in log_chances if chance <= observed + _TIES))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _mover(
    first: SubjectShare, second: SubjectShare, value: float, correlation: float = 0.0
) -> tuple[float | None, float | None]:
    (first_low, first_high), (second_low, second_high) = first.limits, second.limits
    if first_low is None or first_high is None or second_low is None or second_high is None:
        return None, None
    a, b = first.hits / first.n, second.hits / second.n

    def joined(own: float, other: float) -> float:
        return math.sqrt(max(own**2 + other**2 - 2.0 * correlation * own * other, 0.0))

    return value - joined(a - first_low, second_high - b), value + joined(first_high - a, b - second_low)
