"""Reference: the loss, read against the loss of a model that was not trained on these documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from medunlearn.attacks.protocol import Need, Passage
from medunlearn.metrics.base import Score


@dataclass(frozen=True)
class Reference:
    """Log-likelihood ratio of model and reference model for each token of the model; higher = more likely a member.

    ``(log p(text) - log p_reference(text)) / n``, with n the model's number of tokens. With one tokenizer it is the
    reference's loss minus the model's. What is easy for every model is so taken out. Not bounded.

    Source: Carlini et al. 2021, "Extracting training data from large language models", Section 5.2 (there a smaller
    model of the same family); Mireshghallah et al. 2022 as a likelihood ratio.
    """

    kind: ClassVar[str] = "membership"
    title: ClassVar[str] = "Reference"
    source: ClassVar[str] = "Carlini et al. 2021, Section 5.2; Mireshghallah et al. 2022"
    needs: ClassVar[tuple[Need, ...]] = ("reference",)

    def score(self, passage: Passage) -> Score:
        assert passage.reference is not None
        return Score(float(passage.log_probs.sum() - passage.reference) / len(passage.log_probs))
