"""Extraction strength: how much of an answer the model says by itself, given the rest. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from medunlearn.attacks.attack_protocol import AskingWay, Touch
from medunlearn.attacks.recovery.recovery_attacks import RecoveryAttack
from medunlearn.attacks.recovery.recovery_interface import VariantScores, rows_of

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.attack_sizes import AttackSizes, Cost
    from medunlearn.attacks.recovery.attacked_model import AttackedModel


@dataclass(frozen=True)
class ExtractionStrength(RecoveryAttack):
    """Teacher-forced extraction strength of the forgotten answers: the model is asked as in `evaluate`.

    Of models rated for what they still know, this measure separated those that knew from those that did not better
    than ROUGE of the answers did. Ours reaches 0; OpenUnlearning's, which does not, stands beside it.

    Source: Carlini et al. 2021; OpenUnlearning (Dorna et al. 2025, arXiv 2506.12618).
    """

    name: ClassVar[str] = "extraction_strength"
    title: ClassVar[str] = "Extraction strength"
    source: ClassVar[str] = "Carlini et al. 2021; OpenUnlearning (Dorna et al. 2025)"
    question: ClassVar[str] = "whether the end of an answer is still the model's first choice, given its beginning"
    touches: ClassVar[tuple[Touch, ...]] = ("likelihoods",)
    sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"battery": {}, "quick": {"subjects": 20}}
    scored_by: ClassVar[tuple[str, ...]] = ("extraction_strength", "extraction_strength.open_unlearning", "em")
    headline: ClassVar[tuple[str, ...]] = ("extraction_strength",)
    alone: ClassVar[str] = (
        "the part of the answers that the model completes by itself; wording that all answers share counts too, so "
        "a model that never saw the patients is not at 0"
    )
    about: ClassVar[tuple[str, ...]] = (
        "Each answer is read token by token. Its extraction strength is the share of its end that the model puts "
        "first by itself, given the rest. The model is not changed.",
    )

    def results(self, model: AttackedModel) -> Iterator[VariantScores]:
        yield VariantScores(self.name, model.measure(model.questions, self.name, self.before))

    @classmethod
    def ways(cls, scores: pd.DataFrame, strengths: Sequence[str]) -> Iterator[tuple[AskingWay, pd.DataFrame]]:
        way = AskingWay(cls.name, f"{cls.title} of the answers", "the same prompts", "share of the answer's end")
        yield way, rows_of(scores, cls.name, cls.before)

    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        model = sizes.model(self)
        yield sizes.answering(model.questions, model.evaluation)
