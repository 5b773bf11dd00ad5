"""Checkpoint difference: what the model before and the model after a deletion give away together. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from medunlearn.attacks.attack_protocol import SecondRole, Touch
from medunlearn.attacks.recovery.recovery_interface import VariantScores
from medunlearn.attacks.whitebox.whitebox_attack import WhiteBoxAttack, row, score_rows, sequences_of
from medunlearn.metrics.likelihood import answer_probability, exact_memorization
from medunlearn.metrics.overlap import extraction_strength

if TYPE_CHECKING:
    from medunlearn.attacks.attack_sizes import AttackSizes, Cost
    from medunlearn.attacks.recovery.attacked_model import AttackedModel

NO_TOKEN = "the reference answer has no token"


@dataclass(frozen=True)
class CheckpointDifference(WhiteBoxAttack):
    """Contrastive decoding between the target and a later model (:mod:`medunlearn.attacks.whitebox.guided`).

    The older model alone gives away what was deleted; the later one shows what that was, so that both together give
    away more, even if the later one was retrained from scratch. Strength: the weight w of the difference of their
    log-probabilities; 1 is the older model alone, which stands for no attack. Teacher-forced: exact memorization
    and extraction strength are of the tokens that the guided distribution puts first behind the true ones before
    them.

    Source: Wu et al. 2025 (arXiv 2505.24379), model guidance with the checkpoint before unlearning.

    Attributes:
        weights: w beyond 1.
    """

    name: ClassVar[str] = "checkpoint_difference"
    title: ClassVar[str] = "Checkpoint difference"
    source: ClassVar[str] = "Wu et al. 2025 (arXiv 2505.24379)"
    question: ClassVar[str] = "whether the older and the newer model together give away more than the older one"
    before: ClassVar[str] = "old model alone"
    has_readings: ClassVar[bool] = False
    headline: ClassVar[tuple[str, ...]] = ("em",)
    touches: ClassVar[tuple[Touch, ...]] = ("likelihoods",)
    second_models: ClassVar[tuple[SecondRole, ...]] = ("target",)
    alone: ClassVar[str] = "what both checkpoints give away together; the change is from the older one alone"
    untested: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "checkpoint_difference",
            "The model before the deletion, beside the one after it",
            "both together give away what was deleted, whatever the method: destroy or lock the model before",
        ),
    )
    about: ClassVar[tuple[str, ...]] = (
        "The model before the deletion is guided by its difference from the one after it. Strength: the weight of "
        "the difference.",
        "Both checkpoints are needed, and no method of unlearning, nor retraining, prevents it: destroy the older "
        "checkpoint, or lock it away with the data that were deleted.",
    )

    weights: tuple[Annotated[float, Field(gt=1, le=100)], ...] = (1.5, 2.0, 4.0)

    def results(self, model: AttackedModel) -> Iterator[VariantScores]:
        from medunlearn.attacks.whitebox.guided import guided_scores
        from medunlearn.models.scoring import in_batches

        questions = model.attacked
        score = partial(guided_scores, model.second("target"), (1.0, *self.weights))
        scores = in_batches(score, model.live, sequences_of(model, questions), model.settings.batch_size)
        labels = (self.before, *(f"w = {weight:g}" for weight in self.weights))
        rows = [
            row(question.question_id, self.name, label, measure, value, NO_TOKEN)
            for question, by_weight in zip(questions, scores, strict=True)
            for label, guided in zip(labels, by_weight, strict=True)
            for measure, value in _measures(*guided)
        ]
        yield VariantScores(self.name, score_rows(model, questions, rows), strengths=labels[1:])

    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        yield sizes.scoring(sizes.model(self).attacked, 2, models=2)


def _measures(log_probs: Sequence[float], hits: Sequence[bool]) -> Iterator[tuple[str, Any]]:
    yield "em", exact_memorization(hits)
    yield "extraction_strength", extraction_strength(hits[:-1])
    yield "answer_probability", answer_probability(log_probs) if log_probs else None
