"""MedForget's question sets and its measures: by the paper's definitions, and by its code's."""

from __future__ import annotations

from dataclasses import dataclass, replace

from medunlearn.papers.medforget.partitions import LEVELS

IDENTIFIERS = ("none", "study", "patient", "institution")
"""Steps of the reconstruction attack: each puts one more level's name in front of the question."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """A set of questions.

    Attributes:
        side, fold: of its questions; general questions count to the retain side.
        lower: True if lower is better.
    """

    name: str
    title: str
    side: str
    fold: str
    lower: bool

    @property
    def head(self) -> str:
        """The title with the direction of improvement."""
        return f"{self.title} {'↓' if self.lower else '↑'}"


GROUPS = (
    QuestionSet("forget", "Forget set", "forget", "train", True),
    QuestionSet("retain", "Retain set", "retain", "train", False),
    QuestionSet("rephrase", "Forget rephrase set", "forget", "rephrase", True),
    QuestionSet("general", "General med set", "retain", "utility", False),
)
"""The paper's four sets."""
SHARED = "shared"
COMMON = {"forget": "common", "rephrase": "common rephrase"}
"""Set -> its part on the sections that every level's split forgets."""
REPHRASED = ("rephrase", "rephrase words", "rephrase view")
"""The rephrased set: both varied, words alone, the view alone."""
GAP = "gap"
"""In place of a set: the number on the retain set minus that on the forget set."""
_FURTHER = (
    QuestionSet(SHARED, "Forgotten by level and flat", "forget", SHARED, True),
    QuestionSet("rephrase words", "Other words, same view", "forget", "rephrase words", True),
    QuestionSet("rephrase view", "Same words, other view", "forget", "rephrase view", True),
    QuestionSet("paraphrase", "Forget set, trained paraphrases", "forget", "paraphrase", True),
    QuestionSet("text", "Forget set, by name without image", "forget", "text", True),
    QuestionSet("retain text", "Retain set, by name without image", "retain", "text", False),
    QuestionSet(COMMON["forget"], "Forget set, common sections", "forget", COMMON["forget"], True),
    QuestionSet(COMMON["rephrase"], "Forget rephrase set, common sections", "forget", COMMON["rephrase"], True),
    *(QuestionSet(f"given {name}", name, "forget", f"given {name}", True) for name in IDENTIFIERS),
)
SETS = {group.name: group for group in (*GROUPS, *_FURTHER)}
"""The four; the third's two parts, paraphrases that were trained on, and questions on a study's name in place of
its image, where the benchmark has them; what the partner split without hierarchy forgets of the forget set too;
what every level forgets; and the forget set with identifiers in front of its questions. No fold of a benchmark is
called so."""


@dataclass(frozen=True, slots=True)
class LevelMeasure:
    """One of the paper's measures on one kind of question.

    Attributes:
        kind: kind of question; identity questions by level are ``identity of patient`` and so on.
        scale: factor that converts a score to a share of 1.
    """

    name: str
    title: str
    measure: str
    kind: str
    scale: float = 1.0


GEN_SCORE = LevelMeasure("gen_score", "Gen Score", "gen_score", "generation", 0.01)
ROUGE = LevelMeasure("rouge_l", "ROUGE-L", "rouge_l_f", "generation")
FACTUALITY = LevelMeasure("factuality", "Factuality", "factuality", "generation")
CLASSIFICATION = LevelMeasure("classification", "Class. Acc", "option_accuracy", "classification")
CLOZE = LevelMeasure("cloze", "Cloze Acc", "exact_match", "cloze")
IDENTITIES = tuple(
    LevelMeasure(f"{level} name", f"{level.capitalize()} name", "exact_match", f"identity of {level}")
    for level in LEVELS[:3]
)
MEASURES = (GEN_SCORE, ROUGE, FACTUALITY, CLASSIFICATION, CLOZE, *IDENTITIES)
"""Ours, after the paper's words."""

WITH_NAMES = "generation, names in it"
_BY_ROUGE = "exact_match.rouge_l"
CODE_GEN_SCORE, CODE_ROUGE, CODE_FACTUALITY = (
    replace(measure, name=f"{measure.name}.names", title=f"{measure.title}, names in it", kind=WITH_NAMES)
    for measure in (GEN_SCORE, ROUGE, FACTUALITY)
)
FAILED_ZERO = replace(
    CODE_GEN_SCORE,
    name="gen_score.failed_zero",
    title=f"{CODE_GEN_SCORE.title}, failed judge 0",
    measure="gen_score.failed_zero",
)
CODE_CLASSIFICATION = replace(
    CLASSIFICATION, name="classification.generated", title="Class. Acc, generated, ROUGE-L = 1", measure=_BY_ROUGE
)
CODE_CLOZE, *CODE_NAMES = (
    replace(measure, name=f"{measure.name}.rouge_l", title=f"{measure.title}, ROUGE-L = 1", measure=_BY_ROUGE)
    for measure in (CLOZE, *IDENTITIES)
)
VARIANTS = (CODE_GEN_SCORE, FAILED_ZERO, CODE_ROUGE, CODE_FACTUALITY, CODE_CLASSIFICATION, CODE_CLOZE, *CODE_NAMES)
"""As the published code computes them; the paper's tables hold these."""
