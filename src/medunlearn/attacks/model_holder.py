"""The model under attack, loaded on first use, and what the runner offers to an attack."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from medunlearn.attacks.attack_protocol import SecondRole
from medunlearn.attacks.recovery.attacked_model import AttackedModel
from medunlearn.config import AttackSettings, EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question
from medunlearn.data.responses import LogProbs, Response
from medunlearn.errors import InputError
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.sequences import Rendering
from medunlearn.results.runs import Run
from medunlearn.training.processes import Processes

NO_SECOND = "it needs the {} model beside this one: name its run with --against"
OTHER_TOKENIZER = "the {} model has another tokenizer, so that its tokens cannot be compared"


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
        others: role -> the run of that role.
    """

    run: Run
    benchmark: Benchmark
    settings: AttackSettings
    device: str
    quiet: bool
    live: LanguageModel | None
    processes: Processes
    others: Mapping[str, Run] = field(default_factory=dict)
    _seconds: dict[str, LanguageModel] = field(default_factory=dict)

    @cached_property
    def model(self) -> LanguageModel:
        return self.live or self._load(self.run)

    def second(self, role: SecondRole) -> LanguageModel:
        """The model of another role, for an attack that compares two; loaded once for all attacks.

        It is the model itself where that has the role. Its weights must stay as they are.

        Raises:
            InputError: no run of that role was named, or its tokenizer differs.
        """
        if role not in self.others:
            raise InputError(NO_SECOND.format(role))
        other = self.others[role]
        if other.fingerprint == self.run.fingerprint:
            return self.model
        if role not in self._seconds:
            second = self._load(other)
            if second.tokenizer.get_vocab() != self.model.tokenizer.get_vocab():
                raise InputError(OTHER_TOKENIZER.format(role))
            self._seconds[role] = second
        return self._seconds[role]

    def drop_others(self) -> None:
        """Free the memory of the other models."""
        self._seconds.clear()

    def _load(self, run: Run) -> LanguageModel:
        return load_model(
            run.model,
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
