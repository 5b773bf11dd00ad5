"""``--stop ranks``: end unlearning once the forgotten patients' facts rank like a stranger's, without a retrained
model.

After every evaluated epoch, facts of the forgotten patients and of unseen patients are ranked among alternatives.
Only the half of each patient's values that settings are chosen by is read
(:class:`medunlearn.data.value_halves.ValueHalves`), so that the other half (``evaluate --values reporting``) still
tests the result. The run ends

- where the patients are strangers: their ranks together, and each patient's after Holm's correction, are no more
  surprising than those of unseen patients (:func:`medunlearn.statistics.others.chance_of_surprise`, as in the
  verdicts of `forget`); in a benchmark without unseen patients, than chance for facts whose alternatives are
  exchangeable (Fisher's combination, which dependent facts make stricter: the run goes on); or
- where the mean probability of a token of retained questions falls below a share of the target's.

The run's model is the best epoch by :data:`RANK_RULE`: the floor was kept, and its patients are nearest to
strangers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from medunlearn.config import EvaluateSettings, UnlearnSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Side
from medunlearn.errors import InputError
from medunlearn.models.sequences import Rendering, TokenSequence
from medunlearn.probes.rank_plan import RankPlan, rank_plan
from medunlearn.results.evaluated import joined
from medunlearn.results.fact_table import ALPHA, exact_facts, fact_table
from medunlearn.results.runs import Run
from medunlearn.results.scores import question_labels, record_labels
from medunlearn.statistics.intervals import holm
from medunlearn.statistics.others import LEAST_OTHERS, Surprise, chance_by_fisher, chance_of_surprise
from medunlearn.study.epochs.epoch_selection import EpochStanding, Rule, watched_table
from medunlearn.study.forget_loss import ForgetSample

if TYPE_CHECKING:
    from medunlearn.models.load import LanguageModel

KEY = "stop"
"""Name of the outcome in a run's results; runs without ``--stop`` have none."""
MEASURES = ("ranked_first",)
UNMEASURABLE = (
    "--stop ranks needs facts of the forgotten patients whose alternatives a stranger could have as well, and "
    "there is none. Leave --stop out."
)
STRANGER_P, STRANGERS, RETAINED = "stranger p", "strangers", "retained share"
"""Measures in ``epochs.parquet``: the least p-value of the patients together and of each, 0-1, low = the model
knows them; the share of patients who are strangers, 0-1; the geometric mean probability of a retained token as a
share of the target's, 0 and up."""
Reason = Literal["ranks", "utility", "none"]


@dataclass(frozen=True)
class RankWatch:
    """Measures after an epoch how far the forgotten patients are from strangers.

    Attributes:
        evaluation: settings of the ranks.
        retained: the sample of retained questions.
    """

    benchmark: Benchmark
    evaluation: EvaluateSettings
    rendering: Rendering
    retained: ForgetSample
    quiet: bool

    @staticmethod
    def of(
        benchmark: Benchmark,
        settings: UnlearnSettings,
        rendering: Rendering,
        language_model: LanguageModel,
        retained: Sequence[TokenSequence],
        *,
        quiet: bool,
    ) -> RankWatch:
        """The measurement for a run whose retain set is ``retained``; of questions alone if it has some."""
        questions = [sequence for sequence in retained if sequence.key in benchmark.question]
        sample = ForgetSample.measure(
            language_model, questions or retained, batch_size=settings.micro_batch_size, seed=settings.seed
        )
        return RankWatch(benchmark, rank_settings(settings, rendering), rendering, sample, quiet)

    def __call__(self, run: Run, language_model: LanguageModel) -> pd.DataFrame:
        """Rows of ``epochs.parquet`` without the epoch.

        Raises:
            InputError: no fact of the forgotten patients has a rank.
        """
        facts = self._facts(run, language_model)
        others, forgotten = _surprises(facts[facts["unseen"]]), facts[facts["side"] == "forget"]
        beside = len(others) >= LEAST_OTHERS
        few = _surprises(forgotten if beside else exact_facts(forgotten))
        if not few:
            raise InputError(UNMEASURABLE)

        def chance(subjects: Sequence[Surprise]) -> float:
            p = chance_of_surprise(subjects, others) if beside else None
            return chance_by_fisher(subjects) if p is None else p

        together, corrected = chance(few), holm([chance([own]) for own in few])
        both = self.retained.again(language_model).probabilities
        values = {
            STRANGER_P: min(together, *corrected),
            STRANGERS: float(np.mean([p > ALPHA for p in corrected])),
            RETAINED: None if both is None else both[1] / both[0],
        }
        counts = {"n_scored": len(facts), "n_unscored": 0, "n_subjects": len(few), "low": None, "high": None}
        return watched_table(
            [{"measure": name, "metric": name, "value": value, **counts} for name, value in values.items()]
        )

    def _facts(self, run: Run, language_model: LanguageModel) -> pd.DataFrame:
        """The facts with a p-value."""
        from medunlearn.probes.questioning import Questioning

        benchmark, settings = self.benchmark, self.evaluation
        device = str(language_model.device)
        questioning = Questioning(run, benchmark, settings, self.rendering, device, self.quiet, language_model)
        answers, records, _ = questioning.rank(_plan(benchmark, settings))
        split, unseen = benchmark.split(settings.split), benchmark.unseen_subjects
        questions = [question for question in benchmark.questions if question.question_id in answers]
        tables = [
            fact_table(ranks, labels, context, unseen)
            for ranks, labels, context in (
                (answers, question_labels(benchmark, split, questions), self.rendering.context),
                (records, record_labels(benchmark, split, [*records]), "record"),
            )
            if ranks
        ]
        if not tables:
            raise InputError(UNMEASURABLE)
        return joined(tables).dropna(subset=["p"])


def rank_settings(settings: UnlearnSettings, rendering: Rendering) -> EvaluateSettings:
    """Settings of the ranks: trained questions and records, unseen patients, the half of values to choose by.

    A question with its note in the prompt tells nothing of what a model knows: then records alone are read.
    """
    values = {
        "split": settings.split,
        "folds": ("train", "utility"),
        "values": "choosing",
        "metrics": MEASURES,
        "ranked": None,
        "facts": 6,
        "rank_retained": False,
        "rank_in": "records" if rendering.context == "note" else "both",
        "alternatives": 29,
        "weights": settings.weights,
        "seed": settings.seed,
        "other_texts": settings.other_texts,
    }
    return check(EvaluateSettings, values)


def check_stop(benchmark: Benchmark, settings: UnlearnSettings, rendering: Rendering) -> None:
    """Refuse a run whose patients cannot be told from strangers by ranks.

    Raises:
        InputError: no fact of theirs has alternatives, or layers are divided.
    """
    if settings.sharding != "none":
        raise InputError("--stop ranks reads whole layers, which --sharding divides: leave one of them out.")
    plan = _plan(benchmark, rank_settings(settings, rendering))
    texts = {**plan.questions, **plan.records}
    record_of = {question.question_id: question.record_id for question in benchmark.questions}
    sides: Mapping[str, Side] = benchmark.sides(benchmark.split(settings.split))
    able = {record_of.get(key, key) for key, facts in texts.items() if any(own.texts for _, own in facts)}
    if not any(sides.get(record) == "forget" for record in able):
        raise InputError(UNMEASURABLE)


def _plan(benchmark: Benchmark, settings: EvaluateSettings) -> RankPlan:
    return rank_plan(benchmark, settings.split, settings, MEASURES)


def _surprises(facts: pd.DataFrame) -> list[Surprise]:
    """The result of each subject's facts."""
    nats = facts.assign(nats=-np.log(facts["p"].astype("float64")))
    groups = nats.groupby("subject", sort=True)["nats"].agg(["mean", "count"])
    return [Surprise(float(row["mean"]), int(row["count"])) for _, row in groups.iterrows()]


def by_ranks(epochs: pd.DataFrame, floor: float) -> list[EpochStanding]:
    """Standings of every epoch after the target; an epoch below the floor of utility is broken.

    The number of an epoch is its p-value, up to the level of the test: beyond it patients are strangers, and a
    larger p-value is chance. Without a number where the target's own patients are no different from strangers.
    """
    known = _is_known(epochs)
    standings = []
    for number in sorted({*epochs["epoch"].tolist()} - {0}):
        values = _numbers(epochs[epochs["epoch"] == number])
        p, share = values.get(STRANGER_P), values.get(RETAINED)
        parts = {name: value for name, value in ((STRANGER_P, p), (RETAINED, share)) if value is not None}
        low = share is None or share < floor
        problem = "utility on retained questions is below the floor" if low else ""
        standings.append(
            EpochStanding(number, parts, None if p is None or not known else min(p, ALPHA), problem=problem)
        )
    return standings


def rank_rule(floor: float) -> Rule:
    """The rule of the best epoch with ``--stop ranks``."""
    words = (
        f"p-value of being strangers on one half of the values, up to {ALPHA:g}, of epochs with {floor:g} or more "
        "of the target's probability of retained answers; of equal epochs the earlier"
    )
    return Rule(lambda epochs: by_ranks(epochs, floor), lambda _: words)


def _is_known(epochs: pd.DataFrame) -> bool:
    """True if the ranks tell the patients from strangers before the first step."""
    p = _numbers(epochs[epochs["epoch"] == 0]).get(STRANGER_P)
    return p is not None and p <= ALPHA


def _numbers(epoch: pd.DataFrame) -> dict[str, float]:
    rows = epoch[epoch["measure"].isin((STRANGER_P, STRANGERS, RETAINED)) & epoch["value"].notna()]
    return {str(name): float(value) for name, value in zip(rows["measure"], rows["value"], strict=True)}


@dataclass(frozen=True, slots=True)
class RankStop:
    """Outcome of the rule after an epoch.

    Attributes:
        reason: ``ranks``: the patients are strangers; ``utility``: the floor was touched; ``none``: neither.
        epoch: the last measured epoch.
        p: least p-value of the patients together and of each, 0-1.
        strangers: share of patients who are strangers, 0-1.
        patients: number of patients with a ranked fact.
        retained: probability of a token of retained questions as a share of the target's, 0 and up; None if it is
            not finite.
        floor: its least allowed value.
        keeps_floor: whether any epoch kept it.
        is_known: whether the ranks told the patients from strangers before the first step; else they end nothing.
    """

    reason: Reason
    epoch: int
    p: float
    strangers: float
    patients: int
    retained: float | None
    floor: float
    keeps_floor: bool
    is_known: bool

    @staticmethod
    def after(epochs: pd.DataFrame, floor: float) -> RankStop:
        """The outcome after the last epoch of a table; utility goes first."""
        last = int(epochs["epoch"].max())
        rows = epochs[epochs["epoch"] == last]
        values = _numbers(rows)
        retained = values.get(RETAINED)
        patients = int(rows[rows["measure"] == STRANGER_P]["n_subjects"].iloc[0])
        known = _is_known(epochs)
        reason: Reason = "none"
        if retained is None or retained < floor:
            reason = "utility"
        elif values[STRANGER_P] > ALPHA and known:
            reason = "ranks"
        keeps = any(not standing.problem for standing in by_ranks(epochs, floor))
        return RankStop(
            reason, last, values[STRANGER_P], values[STRANGERS], patients, retained, floor, keeps, known
        )

    @staticmethod
    def of(results: Mapping[str, Any]) -> RankStop | None:
        """The outcome in a run's results; None without one."""
        recorded = results.get(KEY)
        return None if recorded is None else RankStop(**recorded)

    @property
    def words(self) -> str:
        """Measurement and consequence, in one sentence without a full stop."""
        count = round(self.strangers * self.patients)
        share = "a probability that is not finite" if self.retained is None else f"{self.retained:.1%} of it"
        measured = (
            f"facts of {count} of {self.patients} forgotten patients rank like a stranger's (p = {self.p:.2g}; one "
            f"half of the values), and retained answers keep {share} (floor {self.floor:.0%})"
        )
        ends = {
            "ranks": f"unlearning ended after epoch {self.epoch} by ranks",
            "utility": f"unlearning ended after epoch {self.epoch} since utility fell below its floor"
            + ("" if self.keeps_floor else ", which no epoch kept"),
            "none": f"neither rule of --stop ended unlearning until epoch {self.epoch}",
        }
        unknown = "" if self.is_known else "; they ranked so before the first step too, which tells nothing"
        return f"{ends[self.reason]}: {measured}{unknown}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
