"""The model under attack, loaded on first use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from medunlearn.config import AttackSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.results.runs import Run
from medunlearn.training.processes import Processes


@dataclass
class ModelHolder:
    """The model that all attacks on a run share, and the processes that hold it.

    Attributes:
        live: the model, if it is already in memory, in evaluation mode.
        processes: the processes that share the work; each holds the same live model, or loads it.
    """

    run: Run
    benchmark: Benchmark
    settings: AttackSettings
    device: str
    quiet: bool
    live: LanguageModel | None
    processes: Processes

    @cached_property
    def model(self) -> LanguageModel:
        return self.live or load_model(
            self.run.model,
            device=self.device,
            weights=self.settings.weights,
            images=self.benchmark.folder,
            allow_broken=self.settings.allow_broken,
        )

    @property
    def live_module(self) -> Any:
        """The live model's module; None if the model is loaded from its folder."""
        return None if self.live is None else self.live.model

    @property
    def silent(self) -> bool:
        """True if this process shows no progress bar."""
        return self.quiet or not self.processes.main

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of the model's weights; empty if the model was not loaded."""
        return self.model.problems if "model" in vars(self) else ()
