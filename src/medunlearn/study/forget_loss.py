"""How much unlearning changed what a model says of the forget set: its loss on a sample before and after."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from medunlearn.models.sequences import TokenSequence
from medunlearn.seeds import generator

if TYPE_CHECKING:
    from medunlearn.models.load import LanguageModel

SAMPLE = 32
"""Sequences that are measured; each takes a forward pass before and after."""
UNCHANGED = 0.05
"""Least difference of a token's mean probability that is a change."""
KEY = "forget_loss"
"""Name of the loss in a run's results; older runs and sharded ones have none."""


@dataclass(frozen=True, slots=True)
class ForgetLoss:
    """Loss of a model on a sample of what it is to forget, before and after.

    Attributes:
        before, after: mean negative log-likelihood of the scored tokens, nats a token, at least 0; higher =
            predicts them worse. None if it is not finite.
        sequences, tokens: of the sample.
    """

    before: float | None
    after: float | None
    sequences: int
    tokens: int

    @staticmethod
    def of(results: Mapping[str, Any]) -> ForgetLoss | None:
        """The loss in a run's results; None without it."""
        recorded = results.get(KEY)
        return None if recorded is None else ForgetLoss(**recorded)

    @property
    def probabilities(self) -> tuple[float, float] | None:
        """Geometric mean probability of a token before and after, 0-1; None if a loss is not finite."""
        if self.before is None or self.after is None:
            return None
        return math.exp(-self.before), math.exp(-self.after)

    @property
    def is_unchanged(self) -> bool:
        """True if a token's mean probability moved by less than :data:`UNCHANGED`.

        False where it was below that before: a model cannot unlearn what it never knew.
        """
        both = self.probabilities
        return both is not None and both[0] >= UNCHANGED and abs(both[1] - both[0]) < UNCHANGED

    @property
    def words(self) -> str:
        """Both probabilities in a sentence; empty if a loss is not finite."""
        if (both := self.probabilities) is None:
            return ""
        before, after = (f"{probability:.3f}" for probability in both)
        return f"a token of what is to be forgotten has a mean probability of {before} before and {after} after"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ForgetSample:
    """Some of the forget set's sequences, drawn once, and the model's loss on them before unlearning."""

    sequences: tuple[TokenSequence, ...]
    batch_size: int
    before: float | None

    @staticmethod
    def measure(
        language_model: LanguageModel, sequences: Sequence[TokenSequence], *, batch_size: int, seed: int
    ) -> ForgetSample:
        """Draw a sample and measure the model's loss on it.

        Raises:
            MedunlearnError: memory runs out with a single sequence.
        """
        drawn = list(sequences)
        if len(drawn) > SAMPLE:
            places = generator("forget loss", seed).choice(len(drawn), size=SAMPLE, replace=False)
            drawn = [drawn[place] for place in sorted(places.tolist())]
        return ForgetSample(tuple(drawn), batch_size, _mean_loss(language_model, drawn, batch_size))

    def again(self, language_model: LanguageModel) -> ForgetLoss:
        """The loss before, and that of the model now."""
        tokens = sum(sequence.scored for sequence in self.sequences)
        after = _mean_loss(language_model, self.sequences, self.batch_size)
        return ForgetLoss(self.before, after, len(self.sequences), tokens)


def _mean_loss(language_model: LanguageModel, sequences: Sequence[TokenSequence], batch_size: int) -> float | None:
    from medunlearn.models.scoring import score_answers

    answers = score_answers(language_model, sequences, batch_size=batch_size)
    values = [value for answer in answers for value in answer.log_probs]
    mean = -math.fsum(values) / len(values) if values else math.nan
    return mean if math.isfinite(mean) else None
