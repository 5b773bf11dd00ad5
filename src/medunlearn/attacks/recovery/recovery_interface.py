"""Interface of a recovery attack, as its runner and its reports use it. No torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from medunlearn.attacks.attack_protocol import AskingWay, Attack
from medunlearn.data.records import Side

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.attack_sizes import AttackSizes, Cost
    from medunlearn.attacks.recovery.attacked_model import AttackedModel
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.reports.blocks import Table
    from medunlearn.results.runs import Run

GROUP = "recovery"
"""Key of the numbers of all recovery attacks in JSON."""
FIRST = "share of facts whose true value is likelier than all made-up ones"
"""Measure of ranks under attack."""


class VariantScores(NamedTuple):
    """Scores of one variant of an attack.

    Attributes:
        label: name of the attack, or ``name.variant``.
        scores: with ``attack`` and ``strength``, the unattacked model first; None if nothing was measured.
        note: what is missing, and why; "" if nothing is.
        strengths: labels from the weakest to the strongest; empty: in the order of the scores.
    """

    label: str
    scores: pd.DataFrame | None
    note: str = ""
    strengths: tuple[str, ...] = ()


class RecoveryInterface(Attack):
    """An attack that measures a model in several conditions.

    Attributes:
        before: the strength that stands for the unattacked model.
        has_readings: what it finds is read as knowledge that came back, against the retrained model. False where
            the retrained model gives it, too, or where it is no knowledge: its numbers stand there, unread.
        measures_before: the unattacked model is measured as in `evaluate`.
        about: what is done, and how to read it, for reports.
        variant_words: words in front of a variant's name in reports.
        measures: measures of its own: name -> title, meaning.
        side: whose questions tell what the attack found: ``retain`` for what it cost others.
        headline: measures for the page "what brings it back", the first of which every model has is taken.
    """

    before: ClassVar[str] = "none"
    has_readings: ClassVar[bool] = True
    measures_before: ClassVar[bool] = True
    about: ClassVar[tuple[str, ...]] = ()
    variant_words: ClassVar[str] = ""
    measures: ClassVar[Mapping[str, tuple[str, str]]] = {}
    side: ClassVar[Side] = "forget"
    headline: ClassVar[tuple[str, ...]] = ("ranked_first", "em", "rouge_l")

    def check(self, benchmark: Benchmark) -> None:
        """Refuse a benchmark that cannot be attacked.

        Raises:
            InputError: names what is missing; NotApplicableError if it cannot be mended.
        """

    def check_run(self, run: Run) -> None:
        """Refuse a model that cannot be attacked. Raises like :meth:`check`."""

    @abstractmethod
    def results(self, model: AttackedModel) -> Iterator[VariantScores]:
        """Attack the model and measure it; its weights are restored at the end."""

    @abstractmethod
    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        """Work, and bytes on disk, of each part."""

    def ask_share(self, model: AttackedModel) -> None:
        """Store this process's share of the responses, which :meth:`results` then reads in the main process."""
        if model.questions:
            for _ in self.results(model):
                pass

    def facts_of(self, model: AttackedModel) -> dict[str, Any]:
        """Facts for the run's record."""
        return {}

    @classmethod
    def more_tables(cls, facts: Mapping[str, Mapping[str, Any]]) -> Sequence[Table]:
        """Further tables of the attack's section of a report.

        Args:
            facts: label of a model -> its record of the attack, with those of :meth:`facts_of`.
        """
        return ()

    @classmethod
    def in_deletion(cls, shared: Mapping[str, Any]) -> dict[str, Any]:
        """Settings with which it verifies a deletion.

        Args:
            shared: settings of every recovery attack there.
        """
        return dict(shared)

    @classmethod
    def ways(cls, scores: pd.DataFrame, strengths: Sequence[str]) -> Iterator[tuple[AskingWay, pd.DataFrame]]:
        """Ways of asking about patients of a request, each with its rows of the scores: the strongest state, or for
        an attack that ranks no facts the worst state of each question.

        Args:
            strengths: labels of the states that were measured, from the weakest to the strongest.
        """
        measure = next((name for name in cls.headline if name in cls.measures), None)
        if strengths and measure is not None:
            from medunlearn.attacks.recovery.worst_states import WORST, worst_of

            title = cls.measures[measure][0]
            way = AskingWay(cls.name, f"{title} under the attack {cls.title}", cls.question, title.lower())
            yield way, rows_of(worst_of(scores, measure, strengths, cls.before), measure, WORST)
        elif strengths:
            most = strengths[-1]
            title = f"Facts under the attack {cls.title}, {most}"
            prompt = f"the same prompts, under the attack {cls.title}, {most}"
            yield AskingWay(cls.name, title, prompt, FIRST), rows_of(scores, "ranked_first", most)


def rows_of(scores: pd.DataFrame, measure: str, strength: str) -> pd.DataFrame:
    """Rows of one measure at one strength."""
    return scores.loc[(scores["measure"] == measure) & (scores["strength"] == strength)]
