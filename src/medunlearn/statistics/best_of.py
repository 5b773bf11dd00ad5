"""Numbers for k samples, computed from n >= k samples or from the answer's likelihood."""

from __future__ import annotations

import math
from collections.abc import Sequence


def sample_numbers(samples: int) -> tuple[int, ...]:
    """Numbers k to show for n samples: 1, a quarter of them, and all; from 128 on also a sixteenth."""
    few = samples // 16 if samples >= 128 else 0
    return tuple(sorted({1, few, samples // 4, samples} - {0}))


def best_of(values: Sequence[float], k: int) -> float:
    """Expected maximum of k of the n values, over all choices; in the values' range.

    With the values sorted, x_1 <= ... <= x_n: the sum over i of x_i C(i - 1, k - 1) / C(n, k). It is an unbiased
    estimate of the best of k samples, and uses all n.

    Raises:
        ValueError: fewer values than k, or k below 1.
    """
    if not 1 <= k <= len(values):
        raise ValueError(f"cannot take the best of {k} of {len(values)} values")
    every = math.comb(len(values), k)
    return math.fsum(
        value * (math.comb(place, k - 1) / every) for place, value in enumerate(sorted(values)) if place >= k - 1
    )


def any_of(hits: int, samples: int, k: int) -> float:
    """Share of all choices of k samples with a hit: 1 - C(samples - hits, k) / C(samples, k). 0-1.

    Source: Chen et al. 2021 (arXiv 2107.03374), equation 1 ("pass@k"), which is unbiased.

    Raises:
        ValueError: fewer samples than k or than hits, or k below 1.
    """
    if not 1 <= k <= samples or not 0 <= hits <= samples:
        raise ValueError(f"cannot have {hits} hits in {samples} samples, or draw {k} of them")
    return 1.0 - math.comb(samples - hits, k) / math.comb(samples, k)


def extraction_probability(log_likelihood: float, k: int) -> float:
    """Probability that at least one of k samples is the text: 1 - (1 - p)^k with p its likelihood. 0-1.

    Args:
        log_likelihood: log p, natural, of the text's tokens under the decoding; -inf if it is never sampled.

    Source: Hayes et al. 2024 (arXiv 2410.19482), Section 3, (n, p)-discoverable extraction: a text is
    extractable in n samples with probability p where this number, for k = n, is at least p.
    """
    if math.isnan(log_likelihood):
        return math.nan
    # log(1 - p) by the branch that keeps the digits: p may be 1e-30 as well as 1 - 1e-16.
    log_likelihood = min(log_likelihood, 0.0)
    if log_likelihood == 0.0:
        return 1.0
    missed = (
        math.log1p(-math.exp(log_likelihood)) if log_likelihood < -0.6931 else math.log(-math.expm1(log_likelihood))
    )
    return -math.expm1(k * missed)
