"""Reconstruction attacks: questions at levels of context. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from medunlearn.attacks.attack_protocol import Attack, AttackFamily, AttackJob
from medunlearn.config import Context

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.attacked import Attacks
    from medunlearn.config import AttackSettings, JudgeSettings
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.judging.rated_responses import JudgedResponses
    from medunlearn.reports.content import AttackPart, ReportContent
    from medunlearn.results.runs import Run


class ReconstructionFamily(AttackFamily):
    """Attacks that ask the questions again with more context in front."""

    name = group = "reconstruction"
    sharded = True
    has_readings = False
    summary_file = "reconstruction_summary.parquet"

    def job(self, attacks: Sequence[Any], benchmark: Benchmark, settings: AttackSettings) -> AttackJob:
        from medunlearn.attacks.reconstruction.reconstruction_run import ReconstructionJob

        (attack,) = attacks
        return ReconstructionJob(
            benchmark,
            settings,
            attack.asked_sides,
            attack.context,
            attack.max_new_tokens or None,
            (*attack.scored_by, *settings.more_measures),
        )

    def own_scores(self, scores: pd.DataFrame) -> pd.DataFrame:
        from medunlearn.attacks.reconstruction.reconstruction_results import ATTACK

        return scores[scores["attack"] == ATTACK].reset_index(drop=True)

    def compare(self, ours: pd.DataFrame, theirs: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
        from medunlearn.attacks.reconstruction.reconstruction_results import compare_models

        return compare_models(ours, theirs, replicates=replicates, seed=seed)

    def is_anchored(self, role: str, reference: str) -> bool:
        return role == "unlearned" and reference != "unlearned"

    def read(self, attacks: Attacks, row: Mapping[Any, Any]) -> str | None:
        return None

    def report_part(self, content: ReportContent, attacks: Attacks | None, notes: Sequence[str]) -> AttackPart:
        from medunlearn.attacks.reconstruction.reconstruction_report import reconstruction_part

        return reconstruction_part(content, attacks, notes)

    def payload(self, attacks: Attacks) -> dict[str, Any]:
        return {self.group: attacks.table(), f"{self.group}_comparisons": attacks.comparisons}

    def has_answers(self, record: Run) -> bool:
        return self.name in record.info.results

    def answers(self, record: Run, benchmark: Benchmark, settings: JudgeSettings) -> JudgedResponses:
        from medunlearn.attacks.reconstruction.judged_answers import attacked_responses

        return attacked_responses(record, self, benchmark, settings)


RECONSTRUCTION = ReconstructionFamily()


@dataclass(frozen=True)
class Cumulative(Attack):
    """Ask the forget set's questions again with ever more names in front: study, then patient, then institution.

    What a model leaks at each context level is what an evaluation measures there, by kind of question: ROUGE-L
    (generation), exact match (cloze), accuracy of the most probable option (classification); higher = leaks more.

    Source: MedForget, Section 5.4 and Table 6.

    Attributes:
        sides: ``forget``, ``retain`` or ``both``.
        context: ``closed_book``; ``note`` puts the record itself into the prompt: nothing is left to bring back.
        max_new_tokens: longest response; 0: as `evaluate` has it.
    """

    name: ClassVar[str] = "cumulative"
    title: ClassVar[str] = "Cumulative identifiers"
    question: ClassVar[str] = "whether naming whose a text is brings back what was forgotten"
    source: ClassVar[str] = "MedForget, Section 5.4"
    family: ClassVar[AttackFamily] = RECONSTRUCTION
    scored_by: ClassVar[tuple[str, ...]] = ("rouge_l_f", "rouge_l", "exact_match", "option_accuracy")
    probe_settings: ClassVar[tuple[str, ...]] = ("context", "max_new_tokens")

    sides: Literal["forget", "retain", "both"] = "forget"
    context: Context = "closed_book"
    max_new_tokens: Annotated[int, Field(ge=0)] = 0

    @property
    def asked_sides(self) -> tuple[str, ...]:
        """Sides whose questions are asked."""
        return ("forget", "retain") if self.sides == "both" else (self.sides,)
