"""Settings of `utility` and `export tasks`: lm-evaluation-harness."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from medunlearn.config.base import Context, Listed, Settings, Words


class UtilitySettings(Settings):
    """What a model is still good for: tasks of lm-evaluation-harness."""

    tasks: Words = Field(
        min_length=1, description="tasks or groups of lm-evaluation-harness (mmlu, ...), or of include="
    )
    include: Path | None = Field(None, description="folder with task files (YAML) of your own")
    fewshot: int | None = Field(None, ge=0, description="examples in the prompt; none: the task's own number, or 0")
    limit: int | None = Field(None, ge=1, description="ask this many items a task, its first ones; none: all")
    metric: str | None = Field(
        None, description="metric that counts (acc, acc_norm, ...); none: the first of each task"
    )
    chat: bool = Field(False, description="put prompts into the model's chat template")
    batch_size: int = Field(32, ge=1, description="sequences in one pass")
    weights: Literal["fp32", "bf16"] = Field("fp32", description="type of the weights in memory")
    replicates: int = Field(1000, ge=2, description="bootstrap replicates over items")
    seed: int = Field(0, description="seed of examples in prompts and of the bootstrap")


class TaskExportSettings(Settings):
    """A benchmark's questions as tasks of lm-evaluation-harness."""

    split: str = Field(description="split of the benchmark; a task is of one side of it")
    folds: Annotated[tuple[Literal["train", "holdout", "rephrase", "utility"], ...], Listed] = Field(
        ("train", "holdout"), description="folds to ask"
    )
    metrics: Words = Field((), description="metrics that need the response alone; none: those of the benchmark's")
    template: Literal["plain", "clinical"] | None = Field(
        None, description="prompt template; left out: that of like, or plain"
    )
    context: Context | None = Field(None, description="context mode; left out: that of like, or closed_book")
    like: Path | None = Field(
        None, description="a run whose template, context and tokenizer are taken, so that numbers are evaluate's"
    )
    limit: int | None = Field(None, ge=1, description="ask about this many subjects a side (seeded); none: all")
    max_new_tokens: int | None = Field(
        None,
        ge=1,
        description="longest response; none: as evaluate with like, else twice the longest answer's words",
    )
    seed: int = Field(0, description="seed of the subset")
