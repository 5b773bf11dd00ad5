"""The model under attack, loaded on first use, and what the runner offers to an attack."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from medunlearn.attacks.recovery.attacked_model import AttackedModel
from medunlearn.config import AttackSettings, EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question
from medunlearn.data.responses import LogProbs, Response
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.sequences import Rendering
from medunlearn.results.runs import Run
from medunlearn.training.processes import Processes


class Asker(Protocol):
    """A model that answers questions; its responses are stored and generated once."""

    def ask(self, questions: Sequence[Question]) -> tuple[Path, dict[str, Response], dict[str, str]]:
        """The store of responses, the responses, and facts for the run's record."""
        ...

    def rate(
        self, questions: Sequence[Question], metrics: Sequence[str]
    ) -> tuple[dict[str, LogProbs], dict[str, str]]:
        """Log-probabilities of each option of the questions with options."""
        ...


@dataclass
class ModelHolder(ABC):
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

    @abstractmethod
    def asker(self, settings: EvaluateSettings, rendering: Rendering, variant: str) -> Asker:
        """The unattacked model; loaded only if a response is missing.

        Args:
            variant: of the questions' wording, for stored responses.
        """

    @abstractmethod
    def attacked_model(self, attack: Any) -> AttackedModel:
        """The model in memory, with the questions of a recovery attack."""
