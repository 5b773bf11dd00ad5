"""The memorization paper's statistics by name: 100 draws of 100 instances, and a rank-sum test over their means.

Here so that numbers can be set beside the paper's, not because they are right. The test takes each draw's mean as
an observation of its own. But all draws of a model come from one set of instances, so that the test answers whether
two *sets of instances* have the same mean, which they never have exactly: with enough draws every difference
becomes significant, also that of two models that memorize equally. (At 100 draws it rejects a true null about seven
times in ten, not one in twenty; the tests show it.) The interval has another fault: it is that of a mean over 100
instances, however many were observed, and knows nothing of subjects. :mod:`~medunlearn.statistics.paired` has
neither.

Source: Memorization in Large Language Models in Medicine, Section 3.1, "Bootstrapping and statistical analysis".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError
from medunlearn.seeds import generator
from medunlearn.statistics.bootstrap import LEVEL, Array, interval

SIZE, DRAWS = 100, 100
WARNING = (
    "The paper's rank-sum test over bootstrap means rejects a true null in most cases, and its intervals are those "
    "of 100 instances and know no subjects. Read them beside the paper's numbers alone."
)


@dataclass(frozen=True, slots=True)
class PaperBootstrap:
    """The paper's bootstrap of one model on one corpus.

    Attributes:
        mean: of the draws' means.
        low, high: percentile interval of the draws' means.
        means: one a draw, [draws].
        n: instances that were drawn from.
    """

    mean: float
    low: float
    high: float
    means: Array
    n: int


def paper_bootstrap(
    values: npt.ArrayLike, *, size: int = SIZE, draws: int = DRAWS, seed: int = 0, level: float = LEVEL
) -> PaperBootstrap | None:
    """Means of ``size`` instances drawn with replacement, ``draws`` times; None where there is no instance.

    Args:
        values: one number an instance, [n]; NaN where there is none.
        seed: the same seed and data give the same draws.

    Raises:
        InputError: fewer than one instance a draw, or fewer than one draw.
    """
    if size < 1 or draws < 1:
        raise InputError(f"A bootstrap of {draws} draws of {size} instances is none: take at least one of each.")
    known = np.asarray(values, dtype=np.float64)
    known = known[~np.isnan(known)]
    if not len(known):
        return None
    places = generator("paper bootstrap", seed).integers(len(known), size=(draws, size))
    means = known[places].mean(axis=1)
    low, high = interval(means, level)
    assert low is not None
    assert high is not None
    return PaperBootstrap(float(means.mean()), low, high, means, len(known))


def rank_sum_test(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[float, float]:
    """Two-sided Wilcoxon rank-sum test: z, above 0 where a's values are larger, and p by the normal approximation.

    Tied values share their mean rank, and the variance is corrected for them (equal to SciPy's ``mannwhitneyu``
    with ``method="asymptotic", use_continuity=False``, and without ties to its ``ranksums``). Where all values are
    equal, z is 0 and p is 1.

    Raises:
        InputError: a side without values, or with one that is no number.

    Source: Wilcoxon 1945; Mann & Whitney 1947; Lehmann 1975, Section 1.4 (ties).
    """
    first, second = np.asarray(a, dtype=np.float64).ravel(), np.asarray(b, dtype=np.float64).ravel()
    both = np.concatenate([first, second])
    if not len(first) or not len(second) or np.isnan(both).any():
        raise InputError("A rank-sum test needs at least one value on each side, and numbers alone.")
    ranks, ties = _ranks(both)
    m, n, total = len(first), len(second), len(both)
    gap = ranks[:m].sum() - m * (total + 1) / 2
    variance = m * n / 12 * (total + 1 - (ties**3 - ties).sum() / (total * max(total - 1, 1)))
    if variance <= 0:
        return 0.0, 1.0
    z = float(gap / sqrt(variance))
    return z, erfc(abs(z) / sqrt(2))


def _ranks(values: Array) -> tuple[Array, Array]:
    """Mean rank of each value, from 1, and how many values each different one is shared by."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place], counts.astype(np.float64)
