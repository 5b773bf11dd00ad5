"""The family of reconstruction attacks: questions at levels of context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from medunlearn.attacks.attack_protocol import AttackFamily, AttackJob

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.attacked import Attacks
    from medunlearn.attacks.terminal_tables import TerminalTables
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
        return ReconstructionJob(attack, benchmark, settings)

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
        from medunlearn.attacks.terminal_tables import rows_of_json

        return {
            self.group: rows_of_json(attacks.table()),
            f"{self.group}_comparisons": rows_of_json(attacks.comparisons),
        }

    def terminal_tables(self, attacks: Attacks) -> TerminalTables:
        from medunlearn.attacks.reconstruction.reconstruction_report import reconstruction_on_terminal

        return reconstruction_on_terminal(attacks)

    def has_answers(self, record: Run) -> bool:
        return self.name in record.info.results

    def answers(self, record: Run, benchmark: Benchmark, settings: JudgeSettings) -> JudgedResponses:
        from medunlearn.attacks.reconstruction.judged_answers import attacked_responses

        return attacked_responses(record, benchmark, settings)


RECONSTRUCTION = ReconstructionFamily()
