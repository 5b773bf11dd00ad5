"""MedForget's question sets, each told apart by its labels in the score table."""

from __future__ import annotations

from dataclasses import dataclass

from medunlearn.papers.medforget.partitions import PARAPHRASE, TEXT, VIEW, WORDS

WHOLE, SHARED, COMMON = "whole", "shared", "common"
"""Parts of a forget set: all of it, and what the flat split of as many sections, or every level, forgets too."""
IDENTIFIERS = ("none", "study", "patient", "institution")
"""Steps of the reconstruction attack: each puts one more level's name in front of the question."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """A set of questions.

    Attributes:
        name: in numbers and contrasts.
        side: forget or retain; general questions count to the retain side.
        fold: of the benchmark; None for any.
        lower: True if lower is better.
        variant: variation of a trained question (:data:`~.partitions.VARIANT`); empty for the questions themselves.
        part: of the forget set; None for the part on which levels are compared.
        given: names in front of the question, one of :data:`IDENTIFIERS`; empty without the attack.
    """

    name: str
    title: str
    side: str
    fold: str | None
    lower: bool
    variant: str = ""
    part: str | None = WHOLE
    given: str = ""

    @property
    def head(self) -> str:
        """The title with the direction of improvement."""
        return f"{self.title} {'↓' if self.lower else '↑'}"

    @property
    def labels(self) -> dict[str, str]:
        """Label columns of the score table -> their values for these questions."""
        columns = ("side", "fold", "variant", "part", "given")
        return {name: label for name in columns if (label := getattr(self, name)) is not None}


def given(identifiers: str) -> str:
    """Name of the forget set with these identifiers in front of its questions."""
    return f"given {identifiers}"


GROUPS = (
    QuestionSet("forget", "Forget set", "forget", "train", True),
    QuestionSet("retain", "Retain set", "retain", "train", False),
    QuestionSet("rephrase", "Forget rephrase set", "forget", "rephrase", True),
    QuestionSet("general", "General med set", "retain", "utility", False),
)
"""The paper's four sets."""
REPHRASED = ("rephrase", "rephrase words", "rephrase view")
"""The rephrased set: both varied, words alone, the view alone."""
ON_COMMON = {"forget": "common", "rephrase": "common rephrase"}
"""Set -> its part on the sections that every level's split forgets."""
GAP = "gap"
"""In place of a set: the number on the retain set minus that on the forget set."""
_FURTHER = (
    QuestionSet("shared", "Forgotten by level and flat", "forget", "train", True, part=SHARED),
    QuestionSet("rephrase words", "Other words, same view", "forget", "rephrase", True, variant=WORDS),
    QuestionSet("rephrase view", "Same words, other view", "forget", "rephrase", True, variant=VIEW),
    QuestionSet("paraphrase", "Forget set, trained paraphrases", "forget", "train", True, variant=PARAPHRASE),
    QuestionSet("text", "Forget set, by name without image", "forget", None, True, variant=TEXT),
    QuestionSet("retain text", "Retain set, by name without image", "retain", None, False, variant=TEXT),
    QuestionSet("common", "Forget set, common sections", "forget", "train", True, part=COMMON),
    QuestionSet("common rephrase", "Forget rephrase set, common sections", "forget", "rephrase", True, part=COMMON),
    *(QuestionSet(given(name), name, "forget", "train", True, part=None, given=name) for name in IDENTIFIERS),
)
SETS = {group.name: group for group in (*GROUPS, *_FURTHER)}
