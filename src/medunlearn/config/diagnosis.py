"""Settings of diagnoses: measurements of `train` after epochs, and `audit diagnosis`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from medunlearn.config.settings import (
    MOST_REPLICATES,
    AllowBroken,
    Numbers,
    Settings,
)

Gold = Literal["principal", "any"]


class AskedSettings(Settings):
    """Settings for prompts and scoring of diagnoses."""

    part: str = Field("test", description="part of the benchmark to evaluate")
    k: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Numbers] = Field(
        (1, 2, 3), min_length=1, description="a response is right at k if one of its first k diagnoses is"
    )
    gold: Gold = Field(
        "principal",
        description="which diagnosis must be among them: the principal diagnosis, or any; the paper does not say",
    )
    synonyms: Path | None = Field(
        None, description="YAML of synonyms, name: [synonym, ...], besides the small list of our own"
    )
    max_new_tokens: int | None = Field(None, ge=1, description="longest response; none: a little over any answer")
    batch_size: int = Field(64, ge=1, description="admissions asked at a time; changes memory, no number")
    replicates: int = Field(2000, ge=1, le=MOST_REPLICATES, description="bootstrap draws of patients")
    seed: int = Field(0, description="seed of the draws, and of the sample of probes")

    @field_validator("k")
    @classmethod
    def _once(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(value)))


class WatchSettings(AskedSettings):
    """Measurements of `train` after every evaluated epoch, besides the validation loss (other panels of Figure
    7).
    """

    part: str = Field("none", description="part whose diagnoses are evaluated; none: none")
    prefix_tokens: int = Field(
        0, ge=0, description="prefix length in tokens of memorization probes from training records; 0: no probes"
    )
    new_tokens: int = Field(500, ge=1, description="tokens that a probe generates")
    limit: int | None = Field(None, ge=1, description="seeded sample of this many records; none: all")
    probe_batch_size: int = Field(32, ge=1, description="probes at a time; changes memory, no number")


class DiagnoseSettings(AskedSettings):
    """Top-k diagnostic accuracy of trained models, overall and by specialty."""

    least_patients: int = Field(
        100, ge=1, description="least number of patients for a specialty to be shown separately; the paper's number"
    )
    template: Literal["plain", "chat", "clinical"] | None = Field(
        None, description="prompt template; left out: the one of training"
    )
    weights: Literal["fp32", "bf16"] = Field("fp32", description="type of the weights in memory")
    allow_broken: AllowBroken = False
