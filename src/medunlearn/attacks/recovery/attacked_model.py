"""Interface of a model under a recovery attack. No torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.attack_protocol import SecondRole
    from medunlearn.config import AttackSettings, EvaluateSettings, What
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.data.records import Question, Record, Side
    from medunlearn.data.responses import Response
    from medunlearn.generation.decodings import Decoding
    from medunlearn.models.load import LanguageModel
    from medunlearn.models.prompts import TemplateName
    from medunlearn.models.sequences import Rendering, TokenSequence
    from medunlearn.results.runs import Run


class AttackedModel(Protocol):
    """A run's model in memory, with the questions of the attack.

    Attributes:
        live: the model with its current weights.
        problems: label and strength -> why answers in that state are meaningless.
        silences: of each answer about the forget set, whether it is empty or a refusal.
    """

    run: Run
    benchmark: Benchmark
    settings: AttackSettings
    live: LanguageModel
    quiet: bool
    problems: dict[str, tuple[str, ...]]
    silences: list[bool]

    def second(self, role: SecondRole) -> LanguageModel:
        """The model of another role; its weights must stay as they are.

        Raises:
            InputError: there is none, or its tokenizer differs.
        """
        ...

    @property
    def questions(self) -> list[Question]:
        """Questions on both sides."""
        ...

    def keep(self, records: Collection[str]) -> None:
        """Ask only the questions on these records."""
        ...

    @property
    def attacked(self) -> list[Question]:
        """Questions about the forget set, and about unseen subjects if the attack includes them."""
        ...

    @property
    def evaluation(self) -> EvaluateSettings:
        """Settings of an equivalent `evaluate`."""
        ...

    @property
    def rendering(self) -> Rendering:
        """Rendering of the questions."""
        ...

    def of_side(self, side: Side) -> list[Question]:
        """The questions on one side."""
        ...

    def changed(self) -> AbstractContextManager[Mapping[str, Any]]:
        """Context with the weights by name, to be changed in place; restored bit by bit at its end."""
        ...

    def measure(
        self, questions: Sequence[Question], attack: str, strength: str, live: LanguageModel | None = None
    ) -> pd.DataFrame:
        """The score table of the questions with the current weights, with ``attack`` and ``strength``."""
        ...

    def ask(
        self,
        questions: Sequence[Question],
        wording: str,
        template: TemplateName | None = None,
        benchmark: Benchmark | None = None,
    ) -> dict[str, Response]:
        """Greedy responses to questions in other words; ``wording`` is the name that they are stored under.

        Args:
            benchmark: records with other images; None: the benchmark's own.
        """
        ...

    def score(
        self, questions: Sequence[Question], responses: Mapping[str, Response], measures: Sequence[str]
    ) -> pd.DataFrame:
        """The score table of responses to questions, which need not be the benchmark's own."""
        ...

    def sample(
        self, questions: Sequence[Question], decoding: Decoding, *, samples: int, seed: int, max_new_tokens: int
    ) -> dict[str, list[Response]]:
        """Sampled responses by question."""
        ...

    def training_data(self, what: What) -> tuple[list[Record], list[Question]]:
        """Records and questions of the train fold."""
        ...

    def sequences(
        self, records: list[Record], questions: list[Question], rendering: Rendering
    ) -> list[TokenSequence]:
        """Token sequences of items, in the form of the model's training."""
        ...

    @property
    def folder(self) -> Path:
        """Folder of the responses of changed models."""
        ...
