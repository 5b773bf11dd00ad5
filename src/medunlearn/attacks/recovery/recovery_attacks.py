"""Settings of the recovery attacks; no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from medunlearn.config import Context
from medunlearn.data.records import Kind
from medunlearn.statistics.best_of import sample_numbers

RECOVERY = ("relearning", "quantization", "sampling")
"""Kinds of attacks that measure a model before and after something is done to it."""
BEFORE = {"relearning": "0", "quantization": "none", "sampling": "1"}
"""Kind -> the strength at which the model is as it was: no step, its own weights, one sample."""
RETAIN, FORGET_HALF = "relearning.retain", "relearning.forget_half"

Fold = Literal["train", "holdout", "rephrase"]
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class RecoveryAttack:
    """Settings common to all recovery attacks.

    Attributes:
        subjects: questions about this many subjects per side are asked (seeded); null: about all. Fewer than 40
            retained ones settle no check of the retrained model where models do not differ.
        fold: of the questions.
        context: context mode; null: as the model was trained.
        max_new_tokens: longest response; 0: as `evaluate` has it.
        alternatives: of a fact at most, for its rank.
        facts: rank about this many facts per subject and fold; null: all.
        unseen: ask about subjects whom no model is trained on (fold ``utility``) in place of retained ones.
        kinds: of the questions; none: all.
        values: rank facts of all values, or of one seeded half of each subject's values, as in `evaluate`.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    variant: ClassVar[str] = ""

    subjects: Annotated[int | None, Field(ge=1)] = 50
    fold: Fold = "train"
    context: Context | None = None
    max_new_tokens: Annotated[int, Field(ge=0)] = 0
    alternatives: Annotated[int, Field(ge=9, le=999)] = 99
    facts: Annotated[int | None, Field(ge=1)] = None
    unseen: bool = False
    kinds: tuple[Kind, ...] = ()
    values: Literal["all", "choosing", "reporting"] = "all"

    @property
    def before(self) -> str:
        """The strength that stands for the unattacked model."""
        return BEFORE[self.kind]


@dataclass(frozen=True)
class Relearning(RecoveryAttack):
    """A few steps of ordinary fine-tuning of the unlearned model, in memory.

    On retained subjects' training items: knowledge that comes back was there, for nothing of the forgotten subjects
    was shown. On the items of half of the forgotten subjects, asked about the other half: a model that never saw
    them learns nothing of the others by it. The weights are measured after a quarter, half and all of the steps.

    Source: Deeb & Roger 2024 (arXiv 2410.08827) for training on some facts and testing on independent ones; Hu et
    al. 2024 (arXiv 2406.13356) for relearning attacks.

    Attributes:
        data: what is trained on: ``retain``, ``forget_half``, or ``both``, one after the other.
        steps: optimizer steps (AdamW, a constant rate).
        lr: learning rate; null: a tenth of the peak of the model's own training, else 2e-5.
        batch_size: sequences per step.
        items: ``records``, ``questions`` (of the train fold), ``both``, or ``trained``: what the model was trained
            on, where its run says so, else both.
        trainable: as in `train`: ``all``, ``lora``, ...
        measured: after a quarter, half and all of the steps, or at the ``end`` alone.
        seed: of the half and of the order.
    """

    kind: ClassVar[str] = "relearning"
    title: ClassVar[str] = "Relearning"
    source: ClassVar[str] = "Deeb & Roger 2024 (arXiv 2410.08827); Hu et al. 2024 (arXiv 2406.13356)"

    data: Literal["both", "retain", "forget_half"] = "both"
    steps: Annotated[int, Field(ge=1, le=10_000)] = 20
    lr: Annotated[float | None, Field(gt=0)] = None
    batch_size: Count = 16
    items: Literal["trained", "both", "records", "questions"] = "trained"
    trainable: str = "all"
    measured: Literal["quarters", "end"] = "quarters"
    seed: Annotated[int, Field(ge=0)] = 0

    @property
    def points(self) -> tuple[int, ...]:
        """Numbers of steps after which the model is measured: 5, 10 and 20 of 20."""
        if self.measured == "end":
            return (self.steps,)
        return tuple(sorted({self.steps // 4, self.steps // 2, self.steps} - {0}))

    @property
    def variants(self) -> tuple[str, ...]:
        """Labels of the training data."""
        return tuple(name for name in (RETAIN, FORGET_HALF) if self.data in ("both", name.partition(".")[2]))


@dataclass(frozen=True)
class Quantization(RecoveryAttack):
    """Decoder-layer weights rounded to 8 and to 4 bits, in memory.

    Unlearning changes weights only a little, and rounding may undo the change. Embeddings and the output head keep
    their precision. The formulas are those of :mod:`medunlearn.models.quantization`.

    Source: Zhang et al. 2024 (arXiv 2410.16454), "Catastrophic failure of LLM unlearning via quantization".

    Attributes:
        types: ``int8``, ``int4``, ``nf4``, ``all`` of them, or ``int`` for the first two.
    """

    kind: ClassVar[str] = "quantization"
    title: ClassVar[str] = "Quantization"
    source: ClassVar[str] = "Zhang et al. 2024 (arXiv 2410.16454)"

    types: Literal["all", "int8", "int4", "nf4", "int"] = "all"

    @property
    def strengths(self) -> tuple[Literal["int8", "int4", "nf4"], ...]:
        """Names of the quantized weight types."""
        if self.types == "int":
            return ("int8", "int4")
        return ("int8", "int4", "nf4") if self.types == "all" else (self.types,)


@dataclass(frozen=True)
class RepeatedSampling(RecoveryAttack):
    """Many samples per question: the best of k, and the probability that the answer is among them.

    One greedy answer hides what the model says one time in thirty. Of n samples, the mean best of k is worked out
    over all choices of k of them; the probability of the verbatim answer in k samples is ``1 - (1 - p) ** k`` with
    p its likelihood under the decoding, so that it needs no sample (:mod:`~medunlearn.statistics.best_of`).

    Source: Hayes et al. 2024 (arXiv 2410.19482), "Measuring memorization through probabilistic discoverable
    extraction".

    Attributes:
        samples: the most samples of a question, n; k is 1, a quarter of them, and all.
        temperature: logits are divided by it.
        top_p: tokens are drawn from the likeliest ones that together have this probability; 1: from all.
        seed: of the draws.
    """

    kind: ClassVar[str] = "sampling"
    title: ClassVar[str] = "Sampling"
    source: ClassVar[str] = "Hayes et al. 2024 (arXiv 2410.19482)"

    subjects: Annotated[int | None, Field(ge=1)] = 20
    samples: Annotated[int, Field(ge=1, le=10_000)] = 32
    temperature: Annotated[float, Field(gt=0, le=10)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Annotated[int, Field(ge=0)] = 0

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of samples, k: 1, 8 and 32 of 32."""
        return sample_numbers(self.samples)
