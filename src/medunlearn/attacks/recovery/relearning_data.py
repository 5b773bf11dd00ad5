"""Training material of relearning attacks, and the questions asked beside it. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from medunlearn.config import What
from medunlearn.data.alternatives import pool_of
from medunlearn.data.deletion_requests import neighbours_of
from medunlearn.data.records import Question, Record
from medunlearn.data.splits import shuffled
from medunlearn.data.strangers import invent_strangers, redraw_values
from medunlearn.seeds import generator
from medunlearn.synthetic.invented_texts import invent_corpus

if TYPE_CHECKING:
    from medunlearn.attacks.recovery.attacked_model import AttackedModel
    from medunlearn.models.sequences import TokenSequence

Part = Literal["retain", "forget_half", "same_disease", "unrelated", "syntax"]
ALONE = "the forget set has a single subject: no other half is left to ask about"
NOTHING = "there is no item of the train fold to learn from"
NO_NEIGHBOUR = "no retained subject shares a group (a disease) with a forgotten one"
UNRELATED = 20
"""Invented texts of each kind."""
DRAWS = 19
"""Values drawn in place of one."""


@dataclass(frozen=True)
class Lesson:
    """Items that are trained on, and the questions asked before and after.

    Attributes:
        records, items: documents, and questions with their answers.
        questions: that are asked.
        reason: why nothing can be trained on; "" if it can.
    """

    records: list[Record] = field(default_factory=list)
    items: list[Question] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    reason: str = ""

    def sequences(self, model: AttackedModel) -> Sequence[TokenSequence]:
        """The items in the form of the model's training."""
        rendering = model.run.rendering(max_length=model.run.info.rendering["max_length"])
        return model.sequences(self.records, self.items, rendering)


def relearning_data(model: AttackedModel, variant: str, what: What, seed: int) -> Lesson:
    """The lesson of one variant of the attack (``relearning.retain``).

    Args:
        what: kinds of items.
        seed: of the half, and of redrawn values.
    """
    part = variant.partition(".")[2]
    records, items = model.training_data(what)
    sides = model.benchmark.sides(model.benchmark.split(model.settings.split))
    subject = model.benchmark.subject

    def of(side: str, subjects: frozenset[str] | None = None) -> tuple[list[Record], list[Question]]:
        def is_of(item: Record | Question) -> bool:
            own = sides[item.record_id] == side
            return own and (subjects is None or subject(item.record_id) in subjects)

        return [*filter(is_of, records)], [*filter(is_of, items)]

    if part == "unrelated":
        return Lesson(_unrelated(seed), [], model.questions)
    if part == "syntax":
        return _lesson(_redrawn(model, *of("forget"), seed), model.questions)
    if part == "retain":
        return _lesson(of("retain"), model.questions)
    # Those with a document or a question, whatever kind is trained on.
    trained = {record.record_id for record in model.benchmark.records if record.fold == "train"}
    trained |= {question.record_id for question in model.benchmark.questions if question.fold == "train"}
    forgotten = {subject(name) for name in trained if sides[name] == "forget"}
    if part == "same_disease":
        return _lesson(of("retain", neighbours_of(model.benchmark, forgotten)), model.questions, NO_NEIGHBOUR)
    order = shuffled(forgotten, "relearning", seed)
    learned = frozenset(order[: len(order) // 2])
    rest = [question for question in model.of_side("forget") if subject(question.record_id) not in learned]
    return _lesson(of("forget", learned), rest, ALONE) if rest else Lesson(reason=ALONE)


def _lesson(data: tuple[list[Record], list[Question]], questions: list[Question], missing: str = NOTHING) -> Lesson:
    return Lesson(*data, questions) if any(data) else Lesson(reason=missing)


def _unrelated(seed: int) -> list[Record]:
    """Invented guidelines, abstracts and disclaimers, about nobody."""
    texts = invent_corpus(UNRELATED, (1,), seed=seed)
    return [Record(f"unrelated-{text.text_id}", text.text, {}) for text in texts]


def _redrawn(
    model: AttackedModel, records: list[Record], questions: list[Question], seed: int
) -> tuple[list[Record], list[Question]]:
    """The forgotten items as if about strangers: every identifier, number and date redrawn."""
    by_id, pool = model.benchmark.record, pool_of(model.benchmark, DRAWS)
    ids = dict.fromkeys([*(r.record_id for r in records), *(q.record_id for q in questions)])
    strangers = {name: invent_strangers(by_id[name], pool, 1, seed)[0] for name in ids}

    def changed(record_id: str, place: str, text: str) -> str:
        stranger, rng = strangers[record_id], generator("redrawn values", seed, record_id, place)
        return redraw_values(stranger.replaced(text), rng, list(stranger.values.values()))

    return (
        [
            replace(record, text=changed(record.record_id, "text", record.text), identifiers=())
            for record in records
        ],
        [
            replace(
                question,
                question=changed(question.record_id, f"{question.question_id} question", question.question),
                answer=changed(question.record_id, f"{question.question_id} answer", question.answer),
                options=(),
                answer_index=None,
            )
            for question in questions
        ],
    )
