"""Intervals and tests that account for the dependence of questions on one subject."""

from medunlearn.statistics.agreement import cohen_kappa, confusion, fleiss_kappa, observed_agreement, row_agreement
from medunlearn.statistics.bootstrap import Resampled, bootstrap_mean, resample_means
from medunlearn.statistics.intervals import Estimate
from medunlearn.statistics.paired import ResampledPairs, paired_difference, resample_pairs

__all__ = [
    "Estimate",
    "Resampled",
    "ResampledPairs",
    "bootstrap_mean",
    "cohen_kappa",
    "confusion",
    "fleiss_kappa",
    "observed_agreement",
    "paired_difference",
    "resample_means",
    "resample_pairs",
    "row_agreement",
]
