"""Interfaces of attacks and of their families: declaration, execution, reading, presentation. No torch."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from medunlearn.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.attack_sizes import AttackSizes, Cost
    from medunlearn.attacks.attacked import Attacked, Attacks
    from medunlearn.attacks.model_holder import ModelHolder
    from medunlearn.config import AttackSettings, JudgeSettings
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.judging.rated_responses import JudgedResponses
    from medunlearn.reports.content import AttackPart, ReportContent
    from medunlearn.results.runs import Recording, Run


SecondRole = Literal["target", "retrained"]
"""Role of another model that an attack uses: trained on everything, or never on the forget set."""
Touch = Literal["answers", "likelihoods", "hidden states", "gradients", "weights"]
"""Part of a model that an attack reads or changes."""


class Attack:
    """A frozen dataclass whose fields are the attack's settings.

    Attributes:
        name: its name in tables, files and ``--attacks``.
        title: name in reports.
        question: the question that it answers, from "whether".
        source: paper and section.
        family: how attacks of its sort are run, stored, read, shown and priced.
        variant: published implementation that it reproduces where that differs from ours; "" for our own. The name
            of a family does not include variants.
        scored_by: names of the measures of its answers, for an attack that asks questions; ``more_measures`` of the
            settings are added.
        shared: its documents or questions can be divided among processes.
        in_battery: it verifies a deletion unless `forget` is told otherwise.
        probe_settings: names of its settings for which ``--probes`` stands; () if it takes no probe set.
        sets: names of the sets of attacks to which it belongs (``battery``, ``quick``) -> its settings there.
        touches: parts of a model that its adversary has to hold.
        second_models: roles of the other models that it uses (:meth:`~.model_holder.ModelHolder.second`).
        alone: meaning of its number without a retrained model.
        untested: parts of this sort that no battery of a deletion covers: name, title, reason.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str]
    source: ClassVar[str]
    family: ClassVar[AttackFamily]
    variant: ClassVar[str] = ""
    scored_by: ClassVar[tuple[str, ...]] = ()
    shared: ClassVar[bool] = True
    in_battery: ClassVar[bool] = False
    probe_settings: ClassVar[tuple[str, ...]] = ()
    sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    touches: ClassVar[tuple[Touch, ...]] = ("answers",)
    second_models: ClassVar[tuple[SecondRole, ...]] = ()
    alone: ClassVar[str] = (
        "all that is given away, with what a model that never saw the patients would guess; how much of it came "
        "back is not known"
    )
    untested: ClassVar[tuple[tuple[str, str, str], ...]] = ()


WORDS: Mapping[str, str] = {
    "name": 'text of letters, digits, -, _ and dots: name = "noise"',
    "title": 'text, its name in reports: title = "Noise"',
    "question": 'text, what it answers: question = "whether noise brings back what was forgotten"',
    "source": 'text, a paper and section: source = "Doe 2025, Section 3"',
}
"""Text that every attack declares -> its expected shape."""


AskedSubject = Literal["identifiers", "values", "answers"]


@dataclass(frozen=True)
class AskingWay:
    """One way of asking a model about patients, and its measure.

    Attributes:
        name: name of the check.
        title, prompt: in plain words; ``prompt`` is the model's input.
        measure: name of the measure.
        subject: kind of facts that it ranks; ``answers`` for what the model says, also under attacks. A residual of
            one subject is never set off against another's.
    """

    name: str
    title: str
    prompt: str
    measure: str
    subject: AskedSubject = "answers"


class AttackFamily(ABC):
    """Operations that all attacks of one sort share: running, storing, comparing, reading, showing.

    Attributes:
        name: stands for all its attacks but published variants in ``--attacks``, and names its results.
        title: name in reports.
        group: key of its numbers in JSON.
        summary_file: file of the summary in the attack's folder.
        subjects_file: file of the means per subject; "" if it has none.
        several: several of its attacks may be given together.
        sharded: its attacks can be run on a model that is divided among processes.
        brings_back: its attacks try to bring back what the questions of an evaluation do not show.
        alike: numbers under different settings do not compare.
        verifies: its attacks can verify a deletion.
        has_readings: rows of its summary are read (:meth:`read`).
        has_baseline: its results contain the unattacked model's answers, measured as in `evaluate`.
    """

    name: str
    group: str
    summary_file: str
    subjects_file: str = ""
    several: ClassVar[bool] = False
    sharded: ClassVar[bool] = False
    brings_back: ClassVar[bool] = False
    alike: ClassVar[bool] = False
    verifies: bool = False
    has_readings: ClassVar[bool] = True
    has_baseline: bool = False

    @property
    def title(self) -> str:
        return self.name.replace("_", " ").capitalize()

    @abstractmethod
    def job(self, attacks: Sequence[Any], benchmark: Benchmark, settings: AttackSettings) -> AttackJob:
        """Attacks of this family with their settings, ready for any model of the benchmark."""

    @abstractmethod
    def own_scores(self, scores: pd.DataFrame) -> pd.DataFrame:
        """Its rows of a folder's score table."""

    @abstractmethod
    def compare(self, ours: pd.DataFrame, theirs: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
        """Paired differences of two models' scores, with intervals."""

    @abstractmethod
    def is_anchored(self, role: str, reference: str) -> bool:
        """True if models of a role are compared with models of another role."""

    @abstractmethod
    def read(self, attacks: Attacks, row: Mapping[Any, Any]) -> str | None:
        """Reading of a summary row; None if nothing may be read from it."""

    @abstractmethod
    def report_part(self, content: ReportContent, attacks: Attacks | None, notes: Sequence[str]) -> AttackPart:
        """Section and numbers of these attacks in a report.

        Args:
            attacks: the attacks on the report's models; None without any.
            notes: sentences on models that are left out.
        """

    @abstractmethod
    def payload(self, attacks: Attacks) -> dict[str, Any]:
        """Numbers for the command's JSON, as tables or rows; empty ones without attacks."""

    def ways(self, scores: pd.DataFrame, strengths: Sequence[str]) -> Iterator[tuple[AskingWay, pd.DataFrame]]:
        """Ways of asking about patients of a request, each with its rows of the scores; only if it verifies."""
        return iter(())

    def epoch_rows(self, attacked: Attacked, level: str) -> list[dict[str, Any]]:
        """Rows for a run's table of epochs.

        Args:
            level: by which the benchmark's numbers are divided; "" if they are not.
        """
        return []

    def before(self, scores: pd.DataFrame) -> pd.DataFrame:
        """Scores of the unattacked model, without duplicates; none unless it has a baseline."""
        return scores.iloc[:0]

    def strengths(self, scores: pd.DataFrame) -> Sequence[str]:
        """Labels of the states in which a model was measured, without the unattacked one."""
        return ()

    def privacy_leaks(
        self, ours: pd.DataFrame, theirs: pd.DataFrame, *, replicates: int, seed: int
    ) -> pd.DataFrame:
        """Leakage relative to the retrained model's, with intervals; empty where it is not defined."""
        return ours.iloc[:0]

    def recovered(self, attacks: Attacks) -> pd.DataFrame:
        """Rows of the page "what brings it back": one per part of an attack and model, the retrained one included.

        Returns:
            The columns of :data:`medunlearn.reports.battery.COLUMNS`; empty if its attacks bring nothing back.
        """
        return attacks.table().iloc[:0]

    def has_answers(self, record: Run) -> bool:
        """True if a record of attacks has answers that judges can rate."""
        return False

    def answers(self, record: Run, benchmark: Benchmark, settings: JudgeSettings) -> JudgedResponses:
        """Stored answers that judges can rate. Raises InputError: the record has none."""
        raise InputError(f"{record.folder} has no answers to the attack {self.name}, so nothing to judge.")


class AttackJob(ABC):
    """Attacks of one family on a benchmark; results that all attacked models share are computed once."""

    def check(self) -> None:  # noqa: B027  # most need nothing
        """Refuse a benchmark that cannot be attacked.

        Raises:
            InputError: names what is missing.
        """

    def check_run(self, run: Run) -> None:  # noqa: B027  # most need nothing
        """Refuse a model that cannot be attacked.

        Raises:
            InputError: names what is missing.
        """

    @abstractmethod
    def run(self, holder: ModelHolder, recording: Recording) -> None:
        """Attack a model, and write the tables and facts; called by every process that shares the work."""

    @abstractmethod
    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        """Work, and bytes on disk, of each part of an attack on one model."""


def check_attack(given: str, cls: Any) -> None:
    """Refuse an object that is no attack.

    Raises:
        InputError: names every missing part, with its expected shape.
    """
    family = getattr(cls, "family", None)
    if not isinstance(cls, type) or not isinstance(family, AttackFamily):
        raise InputError(
            f"attack {given!r} has no family, so nothing says how it is run and read. Derive its class from "
            "medunlearn.attacks.recovery.recovery_attacks:WeightAttack (does something to the weights), from "
            "RecoveryAttack there, or from medunlearn.attacks.membership.membership_attack:MembershipAttack."
        )
    missing = [f"{part} ({shape})" for part, shape in WORDS.items() if not _is_word(part, getattr(cls, part, None))]
    for part in sorted(set(dir(cls))):
        method = getattr(cls, part)
        if getattr(method, "__isabstractmethod__", False):
            words = (method.__doc__ or "").strip().splitlines()[0].rstrip(".")
            missing.append(f"{part}{signature(method)} ({words})".replace("'", ""))
    if missing:
        raise InputError(f"attack {given!r} lacks {' and '.join(missing)}.")


def _is_word(part: str, value: Any) -> bool:
    """True for the text of a part; a name is also that of files."""
    return isinstance(value, str) and bool(re.fullmatch(r"\w[\w.-]*" if part == "name" else r".+", value))
