"""Settings of `tune`: what its file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from medunlearn.config.settings import Listed, Numbers, Settings

Axis = Literal["utility", "forgetting", "ranks"]


class TuneSettings(Settings):
    """Settings of each method, found with an equal budget."""

    name: str = Field(description="title of the report")
    out: Path = Field(description="folder of all trials and final models")
    benchmark: dict[str, Any] = Field(description="settings of `build`, with builder: amnesia or lume; or folder:")
    split: str = Field(description="what is forgotten")
    train: dict[str, Any] = Field(description="settings of `train`")
    retrain: bool = Field(
        True,
        description="train the retrained model, which the objective is the distance to; false: ranks of forgotten "
        "facts, under a floor of utility",
    )
    unlearn: dict[str, Any] = Field(
        description="settings of `unlearn`, with methods: [...]; METHOD.KEY sets a key for one method. They are "
        "the first trial, and what a method keeps where nothing is searched"
    )
    space: dict[str, Any] = Field(
        default_factory=dict,
        description="ranges other than the default ones: lr: [1e-5, 1e-3] for all methods, npo.beta: [0.01, 1] for "
        "one; {choices: [...]}; null: not searched",
    )
    runs: int | None = Field(
        None, ge=1, description="trials of all methods together, divided equally; a failed one counts"
    )
    flops: float | None = Field(
        None, gt=0, description="instead of runs: FLOPs of all methods' trials together, divided equally"
    )
    halving: int = Field(
        3,
        ge=0,
        description="successive halving: of the trials that reach an epoch of 1, n, n^2, ... the best 1 / n go on; "
        "0: every trial runs to its end",
    )
    axes: Annotated[tuple[Axis, ...], Listed] = Field(
        ("utility", "forgetting", "ranks"), min_length=1, description="axes of the distance to the retrained model"
    )
    utility_floor: float = Field(
        0.95, ge=0, le=1, description="without a retrained model: the least utility, as a share of the target's"
    )
    rank_level: float | None = Field(
        None,
        ge=0,
        le=1,
        description="without a retrained model: share of facts ranked first that subjects unseen in training have; "
        "none: that of exchangeable alternatives",
    )
    evaluate: dict[str, Any] = Field(default_factory=dict, description="settings of `evaluate`")
    seeds: Annotated[tuple[int, ...], Numbers] = Field(
        (),
        min_length=1,
        description="trials have the first one; each trains a target and unlearns it with the best and the default "
        "settings; none: 0",
    )
    seed: int | None = Field(None, description="one seed instead of seeds")

    @model_validator(mode="after")
    def _one_budget(self) -> TuneSettings:
        if (self.runs is None) == (self.flops is None):
            raise ValueError("give a budget: runs=60, or flops=1e15, one of them")
        if self.halving == 1:
            raise ValueError("halving=1 lets every trial go on: give 0 for that, or 2 and more")
        return self
