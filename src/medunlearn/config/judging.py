"""Settings of `judge`."""

from __future__ import annotations

from pydantic import Field

from medunlearn.config.base import Settings, Words


class JudgeSettings(Settings):
    """Settings of a judging run."""

    per_group: int | None = Field(None, ge=1, description="judge so many cases of each group (seeded); none: all")
    limit: int | None = Field(
        None, ge=1, description="judge one case of each group from so many subjects (seeded); none: all"
    )
    groups: Words = Field((), description="judge these groups only (categories; kinds of question)")
    split: str | None = Field(None, description="of responses: the evaluation to take; none: the one there is")
    temperature: float | None = Field(0.0, ge=0, description="of the judges; null for servers that refuse it")
    max_tokens: int = Field(1024, ge=16, description="longest answer of a judge, its thoughts included")
    replicates: int = Field(1000, ge=2, description="bootstrap replicates over subjects")
    seed: int = Field(0, description="seed of the sample, the judges and the bootstrap")
