"""The family of a recovery attack: each is run, stored and shown by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from medunlearn.attacks.attack_protocol import AskingWay, AttackFamily, AttackJob
from medunlearn.attacks.recovery.recovery_interface import GROUP, RecoveryInterface

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.attacked import Attacks
    from medunlearn.attacks.terminal_tables import TerminalTables
    from medunlearn.config import AttackSettings
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.reports.content import AttackPart, ReportContent


class RecoveryFamily(AttackFamily):
    """One attack that measures the model in several conditions.

    Attributes:
        attack: class of the attack.
    """

    group = GROUP
    brings_back = True
    alike = True
    verifies = True

    def __init__(self, attack: type[RecoveryInterface]) -> None:
        self.attack, self.has_baseline = attack, attack.measures_before
        self.name = getattr(attack, "name", "")
        self.summary_file, self.subjects_file = f"{self.name}_summary.parquet", f"{self.name}_subjects.parquet"

    def job(self, attacks: Sequence[Any], benchmark: Benchmark, settings: AttackSettings) -> AttackJob:
        from medunlearn.attacks.recovery.recovery_run import RecoveryJob

        (attack,) = attacks
        return RecoveryJob(attack, benchmark, settings, self.summary_file, self.subjects_file)

    def own_scores(self, scores: pd.DataFrame) -> pd.DataFrame:
        labels = scores["attack"].astype("string")
        return scores[(labels == self.name) | labels.str.startswith(f"{self.name}.")].reset_index(drop=True)

    def before(self, scores: pd.DataFrame) -> pd.DataFrame:
        """Scores of the unattacked model, without duplicates."""
        own = scores[scores["strength"] == self.attack.before]
        return own[own["attack"] == own["attack"].iloc[0]] if len(own) else own

    def strengths(self, scores: pd.DataFrame) -> list[str]:
        return [str(label) for label in scores["strength"].unique() if label != self.attack.before]

    def compare(self, ours: pd.DataFrame, theirs: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
        from medunlearn.attacks.recovery.recovery_results import compare_strengths

        return compare_strengths(ours, theirs, replicates=replicates, seed=seed)

    def is_anchored(self, role: str, reference: str) -> bool:
        if reference == "retrained":
            return role != "retrained"
        return role == "unlearned" and reference != "unlearned"

    def read(self, attacks: Attacks, row: Mapping[Any, Any]) -> str | None:
        from medunlearn.attacks.recovery.recovery_results import read_strength

        return read_strength(attacks, row, self.attack.before)

    def report_part(self, content: ReportContent, attacks: Attacks | None, notes: Sequence[str]) -> AttackPart:
        from medunlearn.attacks.recovery.recovery_report import recovery_part

        return recovery_part(content, self.attack, attacks, notes)

    def payload(self, attacks: Attacks) -> dict[str, Any]:
        from medunlearn.attacks.terminal_tables import rows_of_json

        if not attacks.models:
            return {self.group: {}}
        about = {model.run.label: dict(model.facts) for model in attacks.models}
        tables = {"table": rows_of_json(attacks.table()), "comparisons": rows_of_json(attacks.comparisons)}
        return {self.group: {self.name: {**tables, "about": about}}}

    def ways(self, scores: pd.DataFrame, strengths: Sequence[str]) -> Iterator[tuple[AskingWay, pd.DataFrame]]:
        return self.attack.ways(scores, strengths)

    def terminal_tables(self, attacks: Attacks) -> TerminalTables:
        from medunlearn.attacks.recovery.recovery_report import recovery_on_terminal

        return recovery_on_terminal(self.attack, attacks)
