"""Rules that turn records into questions and splits, and name the metrics to read: one file a benchmark."""

from __future__ import annotations

from collections.abc import Mapping

BENCHMARKS: Mapping[str, str] = {
    "amnesia": "medunlearn.benchmarks.amnesia:build",
    "lume": "medunlearn.benchmarks.lume:build",
}

DEFAULT_METRICS: Mapping[str, tuple[str, ...]] = {
    "amnesia": ("rouge_l", "em", "te", "cs", "es", "token_f1", "answer_probability"),
    "lume": ("rouge_l", "exact_match", "em", "te", "token_f1", "answer_probability"),
}


def default_metrics_of(builder: str) -> tuple[str, ...]:
    """The metrics of the paper behind a benchmark; AMNESIA's for a builder that is not ours."""
    return DEFAULT_METRICS.get(builder, DEFAULT_METRICS["amnesia"])
