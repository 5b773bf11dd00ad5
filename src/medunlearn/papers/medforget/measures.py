"""MedForget's measures: by the paper's definitions, and by its code's."""

from __future__ import annotations

from dataclasses import dataclass, replace

from medunlearn.data.origins import DRAWN, drawn_name, marked
from medunlearn.papers.medforget.partitions import LEVELS


@dataclass(frozen=True, slots=True)
class LevelMeasure:
    """One of the paper's measures on one kind of question.

    Attributes:
        kind: kind of question.
        scale: factor that converts a score to a share of 1.
        level: level whose name an identity question asks for; empty for other kinds.
    """

    name: str
    title: str
    measure: str
    kind: str
    scale: float = 1.0
    level: str = ""

    @property
    def axis(self) -> str:
        """Title for a figure's axis."""
        return f"{self.title.replace(DRAWN, 'drawn')}, %"

    @property
    def labels(self) -> dict[str, str]:
        """Label columns of the score table -> their values for these questions."""
        return {"kind": self.kind, "level": self.level}


GEN_SCORE = LevelMeasure("gen_score", "Gen Score", "gen_score", "generation", 0.01)
ROUGE = LevelMeasure("rouge_l", "ROUGE-L", "rouge_l_f", "generation")
FACTUALITY = LevelMeasure("factuality", "Factuality", "factuality", "generation")
CLASSIFICATION = LevelMeasure("classification", "Class. Acc", "option_accuracy", "classification")
CLOZE = LevelMeasure("cloze", "Cloze Acc", "exact_match", "cloze")
IDENTITY = "identity"
"""Kind of question on the name of a level's node."""
IDENTITIES = tuple(
    LevelMeasure(f"{level} name", f"{level.capitalize()} name", "exact_match", IDENTITY, level=level)
    for level in LEVELS[:3]
)
MEASURES = (GEN_SCORE, ROUGE, FACTUALITY, CLASSIFICATION, CLOZE, *IDENTITIES)
"""Ours, after the paper's words."""
DRAWN_GEN_SCORE, DRAWN_FACTUALITY = (
    replace(
        measure, name=drawn_name(measure.name), title=marked(measure.title), measure=drawn_name(measure.measure)
    )
    for measure in (GEN_SCORE, FACTUALITY)
)
SHOWN = (*MEASURES, DRAWN_GEN_SCORE, DRAWN_FACTUALITY)
"""Measures of tables and figures: drawn ratings too, by which no finding is decided."""

WITH_NAMES = "generation, names in it"
"""In place of a kind: generation and identity questions together, as the published code counts generation."""
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
