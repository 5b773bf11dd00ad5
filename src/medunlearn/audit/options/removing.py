"""Which option of a question is removed: drawn among all of them, the right one included."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from medunlearn.audit.options.matching import normalised
from medunlearn.seeds import generator
from medunlearn.sources.options import MultipleChoice, letter

STANDS_THERE = "the removed option also stands among those that are shown"
NOTHING_LEFT = "the removed option is nothing but punctuation"


@dataclass(frozen=True, slots=True)
class Removal:
    """A question and the option that was taken from it.

    Attributes:
        place: of the removed option among the question's.
    """

    question: MultipleChoice
    place: int

    @property
    def letter(self) -> str:
        return letter(self.place)

    @property
    def text(self) -> str:
        return self.question.options[self.place]

    @property
    def was_gold(self) -> bool | None:
        """Whether the right option was removed; None where the file names none."""
        return None if self.question.answer_index is None else self.place == self.question.answer_index

    @property
    def why_not(self) -> str | None:
        """Why no response can be scored against it; None where it can."""
        if not normalised(self.text):
            return NOTHING_LEFT
        others = (text for place, text in enumerate(self.question.options) if place != self.place)
        return STANDS_THERE if normalised(self.text) in map(normalised, others) else None


def remove_one(questions: Iterable[MultipleChoice], seed: int = 0) -> list[Removal]:
    """One option of each question, drawn evenly among all of them by the question's id.

    The draw does not depend on the other questions of the file, nor on their order, so that a sample of a file
    and the whole file remove the same.
    """
    return [
        Removal(one, int(generator("removed answer option", seed, one.question_id).integers(len(one.options))))
        for one in questions
    ]
