"""Collateral: what unlearning cost the patients who were to be kept. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from medunlearn.attacks.recovery.recovery_attacks import RecoveryAttack
from medunlearn.attacks.recovery.recovery_interface import VariantScores
from medunlearn.data.deletion_requests import neighbours_of, relatives_of
from medunlearn.data.records import Side
from medunlearn.data.refusals import is_refusal
from medunlearn.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.attack_sizes import AttackSizes, Cost
    from medunlearn.attacks.recovery.attacked_model import AttackedModel

NO_PROBABILITY = "the model gives no probability of the true answer"
GROUPS, GENERAL = ("relatives", "same_disease", "others"), "general_tasks"


@dataclass(frozen=True)
class Collateral(RecoveryAttack):
    """Not an attack, but its other side: the retained patients are asked as in `evaluate`.

    Whoever shares an identifier with a forgotten patient (relatives, twins, people of one name) and whoever has the
    same disease is hit first, and a mean over everybody hides it. So each group has its own row, beside the
    retrained model. Refusals and empty answers are counted, since both look like forgetting. Calibration: the mean
    over an answer's tokens of (1 - p)², p the probability of the true token behind the true ones before it, which
    is the true token's part of the Brier score (Brier 1950): a model that became unsure of others, or sure of
    something else, has a higher one at the same ROUGE-L.

    Source: Thaker et al. 2024 (arXiv 2410.02879) for tests near the forget set; the groups are ours.

    Attributes:
        subjects: retained subjects that are asked about, near ones among them as chance has it.
        tasks: tasks of lm-evaluation-harness, a part of its own; () for none. `--plan` does not price them.
        include: folder with task files of your own; "" for none.
        items: first items of each task that are asked; null: all.
    """

    name: ClassVar[str] = "collateral"
    title: ClassVar[str] = "Collateral damage"
    source: ClassVar[str] = "Thaker et al. 2024 (arXiv 2410.02879); the groups are ours"
    question: ClassVar[str] = "whether patients who were to be kept lost their answers"
    side: ClassVar[Side] = "retain"
    measures_before: ClassVar[bool] = False
    sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"battery": {}, "quick": {"subjects": 20, "facts": 2}}
    variant_words: ClassVar[str] = "on"
    scored_by: ClassVar[tuple[str, ...]] = ("rouge_l", "em", "ranked_first", "answer_probability")
    headline: ClassVar[tuple[str, ...]] = ("rouge_l", "task_score")
    measures: ClassVar[Mapping[str, tuple[str, str]]] = {
        "refused": ("Refused", "0 or 1: the answer opens with a refusal; higher = refuses more"),
        "brier": (
            "Brier score of answers",
            "0-1, mean over the true tokens of (1 - probability)²; 0 = sure of the true answer, higher = worse",
        ),
        "task_score": (
            "Score on general tasks",
            "0-1, the first metric of each task of lm-evaluation-harness; higher = more useful",
        ),
        "empty": ("Empty answers", "0 or 1: the answer is empty; higher = says less"),
    }
    alone: ClassVar[str] = "the answers about retained patients, of which the target's tell what was lost"
    about: ClassVar[tuple[str, ...]] = (
        "Questions about retained patients: those who share an identifier with a forgotten one, those of the same "
        "disease, and all others; general tasks, if named. Below the retrained model is the price of unlearning.",
    )

    subjects: Annotated[int | None, Field(ge=1)] = 50
    tasks: tuple[str, ...] = ()
    include: str = ""
    items: Annotated[int | None, Field(ge=1)] = 200

    def results(self, model: AttackedModel) -> Iterator[VariantScores]:
        import pandas as pd

        questions = model.of_side("retain")
        scores = model.measure(questions, self.name, self.before)
        responses = model.ask(questions, "")
        own = scores.drop_duplicates("item").drop(columns=["measure", "value", "reason"])
        texts = own["item"].map({name: response.response for name, response in responses.items()})
        briers = own["item"].map({name: _brier(response.answer_log_probs) for name, response in responses.items()})
        measures = {"refused": texts.map(is_refusal), "empty": texts.str.strip() == "", "brier": briers}
        for measure, values in measures.items():
            rows = own.assign(measure=measure, value=values.astype("float").astype("Float64"))
            reasons = pd.Series([None] * len(rows), index=rows.index, dtype="string")
            rows["reason"] = reasons.mask(rows["value"].isna(), NO_PROBABILITY)
            scores = pd.concat([scores, rows[scores.columns]], ignore_index=True)
        groups = self._groups(model, scores)
        for group in GROUPS:
            part, label = scores[groups == group], f"{self.name}.{group}"
            note = "" if len(part) else "no retained patient is in this group"
            yield VariantScores(label, part.assign(attack=label) if len(part) else None, note)
        if self.tasks:
            yield self._on_tasks(model)

    def _on_tasks(self, model: AttackedModel) -> VariantScores:
        """One row per item of each task, by the task's first metric; each item is its own subject."""
        from medunlearn.config import UtilitySettings, check
        from medunlearn.probes.utility.harness_run import utility_one
        from medunlearn.results.scores import score_table

        label, shared = f"{self.name}.{GENERAL}", ("batch_size", "weights", "allow_broken", "seed")
        values: dict[str, Any] = {name: getattr(model.settings, name) for name in shared}
        values |= {"tasks": self.tasks, "include": self.include or None, "limit": self.items}
        try:
            measured = utility_one(model.run, check(UtilitySettings, values), quiet=model.quiet, live=model.live)
        except InputError as error:
            return VariantScores(label, None, str(error))
        rows = measured.items.drop_duplicates("item")
        own = {"measure": "task_score", "attack": label, "strength": self.before, "side": self.side}
        return VariantScores(label, score_table(rows.assign(**own, fold=self.fold, kind=GENERAL)))

    @staticmethod
    def _groups(model: AttackedModel, scores: pd.DataFrame) -> pd.Series[Any]:
        """The group of each row's subject; relatives before those of the same disease."""
        benchmark = model.benchmark
        sides = benchmark.sides(benchmark.split(model.settings.split))
        forgotten = {benchmark.subject(name) for name, side in sides.items() if side == "forget"}
        near = dict.fromkeys(neighbours_of(benchmark, forgotten), GROUPS[1])
        near |= dict.fromkeys(relatives_of(benchmark, forgotten), GROUPS[0])
        return scores["subject"].map(lambda subject: near.get(subject, GROUPS[2]))

    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        model = sizes.model(self)
        yield sizes.measuring(model, model.of_side("retain"), 1)


def _brier(log_probs: Sequence[float] | None) -> float | None:
    """Mean of (1 - p)² over tokens with these log-probabilities; None without a number."""
    if not log_probs or any(value != value for value in log_probs):
        return None
    return sum((1 - exp(value)) ** 2 for value in log_probs) / len(log_probs)
