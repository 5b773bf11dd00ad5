"""Settings of audits' reports: relations between audits, and sorting of memorized spans into kinds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from medunlearn.config.settings import Settings, Words


class AuditRelations(Settings):
    """Relations between audited models, by their labels. Nothing here is guessed from a name."""

    baselines: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict, description="a model: the models that it is held against (its backbone, say)"
    )
    larger: tuple[tuple[str, str], ...] = Field(
        (), description="pairs of a larger and a smaller model that were trained alike"
    )
    persistence: tuple[tuple[str, str], ...] = Field(
        (), description="pairs of a model before and after further fine-tuning"
    )
    epochs: Mapping[str, Mapping[str, int]] = Field(
        default_factory=dict, description="a training: each audited model of it and after which epoch it was saved"
    )
    epoch_table: Path | None = Field(
        None, description="Parquet with epoch, measure, value, low, high: memorization, validation loss, accuracy"
    )
    clinical: Words = Field((), description="corpora of patients' records")
    datasets: Words = Field((), description="corpora of questions with answers")

    def labels(self) -> set[str]:
        """Every model that is named."""
        named = {label for pair in (*self.larger, *self.persistence) for label in pair}
        named |= {label for model, others in self.baselines.items() for label in (model, *others)}
        return named | {label for series in self.epochs.values() for label in series}


class KindSettings(Settings):
    """Sort what was memorized into kinds."""

    at_least: int = Field(
        50, ge=1, description="shortest span that is sorted, in tokens; the paper sorted runs of 50"
    )
    clinical: Words = Field((), description="corpora of patients' records")
    datasets: Words = Field((), description="corpora of questions with answers")
    boilerplate: int = Field(
        5, ge=2, description="so many records of a corpus that hold a span make it a set phrase"
    )
    least: int = Field(2, ge=1, description="least weight of distinct terms that makes a kind")
