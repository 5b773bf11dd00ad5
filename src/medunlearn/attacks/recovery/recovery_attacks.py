"""Recovery attacks and their family: the model is measured before and after something is done to it. No torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from medunlearn.attacks.attack_protocol import AskingWay, AttackFamily, AttackJob
from medunlearn.attacks.recovery.recovery_interface import GROUP, RecoveryInterface, VariantScores
from medunlearn.config import Context
from medunlearn.data.records import Kind
from medunlearn.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.attack_sizes import AttackSizes, Cost
    from medunlearn.attacks.attacked import Attacks
    from medunlearn.attacks.recovery.attacked_model import AttackedModel
    from medunlearn.config import AttackSettings
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.reports.content import AttackPart, ReportContent

Fold = Literal["train", "holdout", "rephrase"]
Count = Annotated[int, Field(ge=1)]


class RecoveryFamily(AttackFamily):
    """One attack that measures the model in several conditions.

    Attributes:
        attack: class of the attack.
    """

    group = GROUP
    brings_back = True
    alike = True

    def __init__(self, attack: type[RecoveryInterface]) -> None:
        self.attack, self.has_baseline = attack, attack.measures_before
        self.verifies = attack.side == "forget" and attack.has_readings
        self.name = getattr(attack, "name", "")
        self.summary_file, self.subjects_file = f"{self.name}_summary.parquet", f"{self.name}_subjects.parquet"

    @property
    def title(self) -> str:
        return self.attack.title

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

        if not self.attack.has_readings:
            return None
        return read_strength(attacks, row, self.attack.before)

    def recovered(self, attacks: Attacks) -> pd.DataFrame:
        from medunlearn.attacks.recovery.recovered_rows import recovered_rows

        return recovered_rows(self.attack, attacks)

    def report_part(self, content: ReportContent, attacks: Attacks | None, notes: Sequence[str]) -> AttackPart:
        from medunlearn.attacks.recovery.recovery_report import recovery_part

        return recovery_part(content, self.attack, attacks, notes)

    def payload(self, attacks: Attacks) -> dict[str, Any]:
        if not attacks.models:
            return {self.group: {}}
        about = {model.run.label: dict(model.facts) for model in attacks.models}
        tables = {"table": attacks.table(), "comparisons": attacks.comparisons}
        return {self.group: {self.name: {**tables, "about": about}}}

    def ways(self, scores: pd.DataFrame, strengths: Sequence[str]) -> Iterator[tuple[AskingWay, pd.DataFrame]]:
        return self.attack.ways(scores, strengths)


@dataclass(frozen=True)
class State:
    """The model in one condition.

    Attributes:
        label: text of the strength, shown and stored.
        strength: a number, or another ordered object; larger = stronger.
        reason: why the model cannot be brought into this condition; "" if it is in it now.
    """

    label: str
    strength: Any
    reason: str = ""


@dataclass(frozen=True)
class RecoveryAttack(RecoveryInterface):
    """Settings common to all recovery attacks.

    Attributes:
        subjects: questions about this many subjects per side are asked (seeded); null: about all. Fewer than 40
            retained ones settle no check of the retrained model where models do not differ.
        fold: of the questions.
        context: context mode; null: as the model was trained.
        max_new_tokens: longest response; 0: as `evaluate` has it.
        alternatives: of a fact at most, for its rank.
        facts: rank about this many facts per subject and fold; null: all.
        unseen: ask about subjects whom no model is trained on (fold ``utility``) in place of retained ones.
        kinds: of the questions; none: all.
        values: rank facts of all values, or of one seeded half of each subject's values, as in `evaluate`.
        ranks_only: rank facts in each condition and generate no answer.
    """

    scored_by: ClassVar[tuple[str, ...]] = ("rouge_l", "em", "ranked_first")
    """Measures of what is said, of what is likeliest token by token, and of what is likelier than its
    alternatives.
    """
    probe_settings: ClassVar[tuple[str, ...]] = (
        *("subjects", "fold", "context", "max_new_tokens", "alternatives", "facts", "unseen", "kinds", "values"),
    )

    subjects: Annotated[int | None, Field(ge=1)] = 50
    fold: Fold = "train"
    context: Context | None = None
    max_new_tokens: Annotated[int, Field(ge=0)] = 0
    alternatives: Annotated[int, Field(ge=9, le=999)] = 99
    facts: Annotated[int | None, Field(ge=1)] = None
    unseen: bool = False
    kinds: tuple[Kind, ...] = ()
    values: Literal["all", "choosing", "reporting"] = "all"
    ranks_only: bool = False

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.family = RecoveryFamily(cls)


@dataclass(frozen=True)
class WeightAttack(RecoveryAttack):
    """An attack that changes weights in memory, one :class:`State` after another.

    The same questions are asked with the model's own weights and in each state.
    """

    @abstractmethod
    def states(self, model: AttackedModel) -> Iterator[State]:
        """Bring the model into each condition and yield it, inside ``with model.changed() as weights``."""

    def results(self, model: AttackedModel) -> Iterator[VariantScores]:
        import pandas as pd

        tables, states = [model.measure(model.questions, self.name, self.before)], list[State]()
        # An error in a measurement must not leave the model in a state.
        with closing(self._validated_states(model)) as checked:
            for state in checked:
                states.append(state)
                if not state.reason:
                    tables.append(model.measure(model.questions, self.name, state.label))
        note = "; ".join(f"{state.label}: {state.reason}" for state in states if state.reason)
        if len(tables) == 1 and note:
            yield VariantScores(self.name, None, note)
            return
        reached = sorted((state for state in states if not state.reason), key=lambda state: state.strength)
        strengths = tuple(state.label for state in reached)
        yield VariantScores(self.name, pd.concat(tables, ignore_index=True), note, strengths)

    def _validated_states(self, model: AttackedModel) -> Generator[State, None, None]:
        """The states. Raises InputError: something else than states, or two of one label."""
        labels = {self.before}
        states = iter(self.states(model))
        with closing(states) if isinstance(states, Generator) else nullcontext():
            yield from self._validated(states, labels)

    def _validated(self, states: Iterator[State], labels: set[str]) -> Iterator[State]:
        for state in states:
            if not isinstance(state, State) or not isinstance(state.label, str) or state.label in labels:
                raise InputError(
                    f"{type(self).__name__}.states() must yield State(label, strength), each with another label "
                    f"than {', '.join(sorted(labels))}; it yielded {state!r}."
                )
            labels.add(state.label)
            yield state

    def number_of_states(self, model: AttackedModel) -> int:
        """Number of conditions, without the unattacked model; counted on a model without weights."""
        return sum(1 for state in self._validated_states(model) if not state.reason)

    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        model = sizes.model(self)
        yield sizes.measuring(model, model.questions, 1 + self.number_of_states(model), answers=not self.ranks_only)
