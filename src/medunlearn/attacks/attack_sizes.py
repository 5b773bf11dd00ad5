"""Interfaces of the plan of attacks: parts that an attack's price is made of. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from medunlearn.attacks.recovery.attacked_model import AttackedModel
    from medunlearn.config import EvaluateSettings, What
    from medunlearn.data.records import Question, Record

Cost = Any
"""Price of a part of an attack, which only the sizes make: FLOPs, memory, disk."""


class AttackSizes(Protocol):
    """Sizes of one model and benchmark, and the work of parts of an attack. Nothing is loaded or computed."""

    @property
    def trained_on(self) -> What:
        """Items that the model was trained on."""
        ...

    def reading(
        self, records: Sequence[Record], *, model: str | None = None, backward: bool = False, bytes_a_token: int = 0
    ) -> Cost:
        """A pass over documents.

        Args:
            model: another model than the attacked one: folder, run or hub id.
            backward: with the gradient of every weight.
            bytes_a_token: that are stored.
        """
        ...

    def answering(self, questions: Sequence[Question], settings: EvaluateSettings) -> Cost:
        """One greedy answer to each question."""
        ...

    @property
    def layers(self) -> int:
        """Number of decoder layers."""
        ...

    def scoring(self, questions: Sequence[Question], passes: float, *, models: int = 1) -> Cost:
        """Teacher-forced passes over questions with their reference answers.

        Args:
            models: number of models in memory.
        """
        ...

    def model(self, attack: Any) -> AttackedModel:
        """The attacked model, of which only the questions can be read; its weights are an empty mapping."""
        ...

    def measuring(
        self, model: AttackedModel, questions: Sequence[Question], times: int, *, answers: bool = True
    ) -> Cost:
        """Ranks of questions in some states of the weights, beside a copy of the weights, and answers."""
        ...

    def sampling(self, model: AttackedModel, questions: Sequence[Question], samples: int) -> Cost:
        """Sampled answers to questions."""
        ...

    def training(
        self,
        records: list[Record],
        questions: list[Question],
        *,
        trainable: str,
        batch_size: int,
        steps: int,
        seed: int,
    ) -> Cost:
        """Steps of fine-tuning on items, in memory, beside a copy of the weights."""
        ...
