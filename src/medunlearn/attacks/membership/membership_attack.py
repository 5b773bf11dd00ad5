"""Membership attacks: their interface and their family. No torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from medunlearn.attacks.attack_protocol import Attack, AttackFamily, AttackJob, Touch
from medunlearn.attacks.membership.passage import Need, Passage
from medunlearn.metrics.measure import Score

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.attacked import Attacked, Attacks
    from medunlearn.config import AttackSettings
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.reports.content import AttackPart, ReportContent


class MembershipFamily(AttackFamily):
    """Attacks that share one pass over the forget set's documents and documents that no model saw."""

    name = group = "membership"
    several = True
    sharded = True
    summary_file = "membership_summary.parquet"

    def job(self, attacks: Sequence[Any], benchmark: Benchmark, settings: AttackSettings) -> AttackJob:
        from medunlearn.attacks.membership.membership_run import MembershipJob

        return MembershipJob({attack.name: attack for attack in attacks}, self.summary_file, benchmark, settings)

    def own_scores(self, scores: pd.DataFrame) -> pd.DataFrame:
        from medunlearn.attacks.membership.membership_results import MEASURE

        return scores[scores["measure"] == MEASURE].astype({"member": "bool"}).reset_index(drop=True)

    def compare(self, ours: pd.DataFrame, theirs: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
        from medunlearn.attacks.membership.membership_results import compare

        return compare(ours, theirs, replicates=replicates, seed=seed)

    def is_anchored(self, role: str, reference: str) -> bool:
        return reference == "retrained" and role != "retrained"

    def read(self, attacks: Attacks, row: Mapping[Any, Any]) -> str | None:
        from medunlearn.attacks.membership.membership_results import read_area

        return read_area(attacks, row)

    def report_part(self, content: ReportContent, attacks: Attacks | None, notes: Sequence[str]) -> AttackPart:
        from medunlearn.attacks.membership.membership_report import membership_part

        return membership_part(content, attacks, notes)

    def payload(self, attacks: Attacks) -> dict[str, Any]:
        return {
            "table": attacks.table().to_dict("records"),
            "comparisons": attacks.comparisons.to_dict("records"),
            "privacy_leak": attacks.privacy_leaks.to_dict("records"),
        }

    def privacy_leaks(
        self, ours: pd.DataFrame, theirs: pd.DataFrame, *, replicates: int, seed: int
    ) -> pd.DataFrame:
        from medunlearn.attacks.membership.membership_results import privacy_leaks

        return privacy_leaks(ours, theirs, replicates=replicates, seed=seed)

    def recovered(self, attacks: Attacks) -> pd.DataFrame:
        from medunlearn.attacks import known_attacks
        from medunlearn.attacks.membership.membership_results import recovered_rows

        return recovered_rows(attacks, {name: cls.title for name, cls in known_attacks().items()})

    def epoch_rows(self, attacked: Attacked, level: str) -> list[dict[str, Any]]:
        from medunlearn.attacks.membership.membership_results import epoch_rows

        return epoch_rows(attacked.summary, level)


MEMBERSHIP = MembershipFamily()


class MembershipAttack(Attack):
    """A score that is higher for documents that the model was trained on.

    Attributes:
        needs: inputs besides the log-probabilities. A passage that lacks one is unscored before the attack sees it.
    """

    family: ClassVar[AttackFamily] = MEMBERSHIP
    question: ClassVar[str] = "whether a document was in the training set"
    needs: ClassVar[tuple[Need, ...]] = ()
    touches: ClassVar[tuple[Touch, ...]] = ("likelihoods",)
    measures: ClassVar[Mapping[str, tuple[str, str]]] = {
        "auc": (
            "Area under the ROC curve",
            "0-1, 0.5 = guessing; on either side of the retrained model's it tells who was in the training data",
        )
    }
    alone: ClassVar[str] = "0.5 is guessing; a model that never saw the documents may differ from it by their kind"
    untested: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            MEMBERSHIP.name,
            "Telling that the patient was in the training data",
            "no attack of this kind is in this battery",
        ),
    )

    @abstractmethod
    def score(self, passage: Passage) -> Score:
        """Score of the document: higher = more likely a member."""
