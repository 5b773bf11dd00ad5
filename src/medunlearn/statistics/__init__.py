"""Intervals and tests that know that questions on one subject are not independent."""

from medunlearn.statistics.bootstrap import Estimate, Resampled, bootstrap_mean, resample_means
from medunlearn.statistics.paired import Difference, ResampledPairs, paired_difference, resample_pairs

__all__ = [
    "Difference",
    "Estimate",
    "Resampled",
    "ResampledPairs",
    "bootstrap_mean",
    "paired_difference",
    "resample_means",
    "resample_pairs",
]
