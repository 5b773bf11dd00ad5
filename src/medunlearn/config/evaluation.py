"""Settings of `evaluate` and `attack`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from medunlearn.config.base import Context, Listed, Settings, Template, Words


class EvaluateSettings(Settings):
    """Ask a model the benchmark's questions and score what it says."""

    split: str = Field(description="split of the benchmark, or an ad-hoc request level=node,node")
    metrics: Words = Field((), description="names from `medunlearn list measures`; none: the benchmark's")
    folds: Annotated[tuple[Literal["train", "holdout", "rephrase", "utility"], ...], Listed] = Field(
        ("train", "holdout"), description="folds to ask"
    )
    template: Template | None = Field(None, description="prompt template; left out: the model's own")
    context: Context | None = Field(None, description="context mode; left out: the model's own")
    limit: int | None = Field(None, ge=1, description="ask about this many subjects a side (seeded); none: all")
    max_new_tokens: int | None = Field(
        None, ge=1, description="longest response; none: the longest reference answer and a quarter"
    )
    batch_size: int = Field(64, ge=1, description="prompts decoded together")
    weights: Literal["fp32", "bf16"] = Field("fp32", description="type of the weights in memory")
    encoder: str | None = Field(None, description="sentence encoder for CS: folder or hub id")
    nli: str | None = Field(None, description="entailment model for ES: folder or hub id")
    bert: str | None = Field(None, description="encoder for BERTScore: folder or hub id")
    bart: str | None = Field(None, description="sequence-to-sequence model for BARTScore: folder or hub id")
    extractor: str = Field("offline", description="finds the keywords of LS: offline, scispacy, or module:Class")
    keywords: Path | None = Field(
        None, description="keywords of LS as `medunlearn build keywords --out` writes them; none: found when needed"
    )
    replicates: int = Field(1000, ge=2, description="bootstrap replicates over subjects")
    seed: int = Field(0, description="seed of the subset and the bootstrap")


class AttackSettings(Settings):
    """Attack a model: find out what an adversary can still tell from it."""

    split: str = Field(description="split of the benchmark, or an ad-hoc request level=node,node")
    attacks: Words = Field(
        ("membership",), description="names or kinds from `medunlearn list attacks`; a kind is all of its attacks"
    )
    arguments: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="settings of single attacks, by attack; --min_k.k 0.4"
    )
    reference: str | None = Field(
        None, description="model for the attack `reference`, not trained on the documents: folder, run or hub id"
    )
    batch_size: int = Field(32, ge=1, description="sequences in one pass")
    weights: Literal["fp32", "bf16"] = Field("fp32", description="type of the weights in memory")
    replicates: int = Field(1000, ge=2, description="bootstrap replicates over subjects")
    seed: int = Field(0, description="seed of the bootstrap")
