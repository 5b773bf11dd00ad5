"""Settings of `utility`: which tasks of lm-evaluation-harness, and how."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from medunlearn.config.base import Settings, listed


class UtilitySettings(Settings):
    """What a model is still good for: tasks of lm-evaluation-harness."""

    tasks: tuple[str, ...] = Field(
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

    @field_validator("tasks", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        """One name, or several with commas, is as good as a list."""
        return listed(value)
