"""Relearning: a few steps of training, and whether they bring back what was forgotten. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from medunlearn.attacks.attack_protocol import AskingWay, Touch
from medunlearn.attacks.recovery.recovery_attacks import Count, RecoveryAttack
from medunlearn.attacks.recovery.recovery_interface import FIRST, VariantScores, rows_of
from medunlearn.config import TrainSettings, What
from medunlearn.data.records import Question, Record
from medunlearn.data.splits import Split, shuffled

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.attack_sizes import AttackSizes, Cost
    from medunlearn.attacks.recovery.attacked_model import AttackedModel
    from medunlearn.models.sequences import TokenSequence
    from medunlearn.results.runs import Run

RETAIN, FORGET_HALF = "relearning.retain", "relearning.forget_half"
SHARE_OF_PEAK = 0.1
"""Of the learning rate of a model's training, for its relearning."""
NOT_FINITE = "its weights are not finite, so nothing can be learned"
ALONE = "the forget set has a single subject: no other half is left to ask about"
NOTHING = "there is no item of the train fold to learn from"


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

    name: ClassVar[str] = "relearning"
    title: ClassVar[str] = "Relearning"
    source: ClassVar[str] = "Deeb & Roger 2024 (arXiv 2410.08827); Hu et al. 2024 (arXiv 2406.13356)"
    question: ClassVar[str] = "whether a few steps of training on others bring back what was forgotten"
    before: ClassVar[str] = "0"
    shared: ClassVar[bool] = False
    touches: ClassVar[tuple[Touch, ...]] = ("weights", "gradients")
    in_battery: ClassVar[bool] = True
    sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "battery": {},
        "quick": {"data": "retain", "measured": "end", "subjects": 20, "facts": 2},
    }
    variant_words: ClassVar[str] = "trained on"
    about: ClassVar[tuple[str, ...]] = (
        "The model is fine-tuned for a few steps, in memory: on retained subjects' items, or on the items of half "
        "of the forgotten subjects and asked about the other half. Strength: steps done.",
        "The retrained model learns by the same steps what others' items teach. What a model says beyond it was "
        "not forgotten, but suppressed.",
    )
    untested: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("relearning own", "Training on notes of the patient", "whoever has them needs no model"),
    )

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

    def results(self, model: AttackedModel) -> Iterator[VariantScores]:
        for variant in self.variants:
            learned, questions = relearning_subjects(model, self, variant)
            if not learned:
                yield VariantScores(variant, None, ALONE if variant == FORGET_HALF else NOTHING)
            elif model.live.problems:
                yield VariantScores(variant, model.measure(questions, variant, self.before), NOT_FINITE)
            else:
                yield VariantScores(variant, self._relearn(model, variant, learned, questions))

    def _relearn(
        self, model: AttackedModel, variant: str, learned: frozenset[str], questions: list[Question]
    ) -> pd.DataFrame:
        from medunlearn.attacks.recovery.relearning_steps import PausingPlan, relearn

        items = relearned_items(model, self, variant, learned)
        plan = PausingPlan.of(items, self.batch_size, self.seed, self.points)
        rate = rate_of(model.run, self)
        return relearn(model, variant, questions, plan, trainable=self.trainable, lr=rate, before=self.before)

    def facts_of(self, model: AttackedModel) -> dict[str, Any]:
        taught = {"lr": rate_of(model.run, self), "items": items_of(model.run, self)}
        return {**taught, "steps": self.steps, "batch_size": self.batch_size}

    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        """The original model, some steps of each variant, and measurements in between."""
        model, what = sizes.model(self), sizes.trained_on if self.items == "trained" else self.items
        how: dict[str, Any] = {"trainable": self.trainable, "batch_size": self.batch_size, "steps": self.steps}
        for variant in self.variants:
            learned, questions = relearning_subjects(model, self, variant)
            if not learned:
                continue
            data = relearned_data(model, variant, learned, what)
            yield sizes.training(*data, **how, seed=self.seed)
            yield sizes.measuring(model, questions, 1, answers=not self.ranks_only)
            question_ids = {question.question_id for question in questions}
            after = [question for question in model.attacked if question.question_id in question_ids]
            yield sizes.measuring(model, after, len(self.points), answers=not self.ranks_only)

    @classmethod
    def in_deletion(cls, shared: Mapping[str, Any]) -> dict[str, Any]:
        return {**shared, "data": "retain", "measured": "end", "ranks_only": True}

    @classmethod
    def ways(cls, scores: pd.DataFrame, strengths: Sequence[str]) -> Iterator[tuple[AskingWay, pd.DataFrame]]:
        if strengths:
            most, table = strengths[-1], scores[scores["attack"] == RETAIN]
            title = f"Facts after {most} steps of training on other patients"
            prompt = "the same prompts, after a little training on other patients' notes"
            yield AskingWay(cls.name, title, prompt, FIRST), rows_of(table, "ranked_first", most)


def relearning_subjects(
    model: AttackedModel, attack: Relearning, variant: str
) -> tuple[frozenset[str], list[Question]]:
    """Subjects whose items are trained on, and the questions asked before and after."""
    benchmark, split = model.benchmark, _split_of(model)
    items = [
        *(record for record in benchmark.records if record.fold == "train"),
        *(benchmark.record[question.record_id] for question in benchmark.questions if question.fold == "train"),
    ]
    sides = benchmark.sides(split)
    subjects = {
        side: {benchmark.subject(item.record_id) for item in items if sides[item.record_id] == side}
        for side in ("retain", "forget")
    }
    if variant == RETAIN:
        return frozenset(subjects["retain"]), model.questions
    forgotten = shuffled(subjects["forget"], "relearning", attack.seed)
    learned = frozenset(forgotten[: len(forgotten) // 2])
    rest = [q for q in model.of_side("forget") if benchmark.subject(q.record_id) not in learned]
    return (learned if rest else frozenset()), rest


def relearned_items(
    model: AttackedModel, attack: Relearning, variant: str, learned: frozenset[str]
) -> Sequence[TokenSequence]:
    """Sequences of :func:`relearned_data`, in the form of the model's training."""
    data = relearned_data(model, variant, learned, items_of(model.run, attack))
    return model.sequences(*data, model.run.rendering(max_length=model.run.info.rendering["max_length"]))


def relearned_data(
    model: AttackedModel, variant: str, learned: frozenset[str], what: What
) -> tuple[list[Record], list[Question]]:
    """Records and questions of the train fold about these subjects; from the retain set, none that is forgotten."""
    benchmark = model.benchmark
    side, sides = ("retain" if variant == RETAIN else "forget"), benchmark.sides(_split_of(model))
    records, questions = model.training_data(what)

    def is_learned(item: Record | Question) -> bool:
        return sides[item.record_id] == side and benchmark.subject(item.record_id) in learned

    return [*filter(is_learned, records)], [*filter(is_learned, questions)]


def _split_of(model: AttackedModel) -> Split:
    return model.benchmark.split(model.settings.split)


def trained_settings(run: Run) -> Mapping[str, Any]:
    """Settings of the training run of a run's model; empty if not recorded."""
    return {} if run.training is None else run.training.info.config


def rate_of(run: Run, attack: Relearning) -> float:
    """The learning rate: the attack's own, else a fraction of the peak of the model's training.

    AdamW's first steps move every weight by the rate itself. At the peak rate, five steps destroy a small model's
    knowledge of everybody, even the target's, and reveal nothing about forgetting.
    """
    if attack.lr is not None:
        return attack.lr
    trained = trained_settings(run).get("lr")
    return float(TrainSettings.model_fields["lr"].default) if trained is None else SHARE_OF_PEAK * float(trained)


def items_of(run: Run, attack: Relearning) -> What:
    """Training data: the attack's setting, else that of the model's training, else records and questions."""
    if attack.items != "trained":
        return attack.items
    own: What = trained_settings(run).get("train_on", "both")
    return own
