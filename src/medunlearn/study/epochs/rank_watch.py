"""Ranks of the forgotten patients' facts and utility on the retain set, measured after an epoch.

Only the half of each patient's values that settings are chosen by is read
(:class:`medunlearn.data.value_halves.ValueHalves`), so that the other half (``evaluate --values reporting``) still
tests the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from medunlearn.study.epochs.epoch_selection import watched_table
from medunlearn.study.forget_loss import ForgetSample

if TYPE_CHECKING:
    from medunlearn.models.load import LanguageModel

MEASURES = ("ranked_first",)
UNMEASURABLE = (
    "--stop ranks needs facts of the forgotten patients whose alternatives a stranger could have as well, and "
    "there is none. Leave --stop out."
)
STRANGER_P, STRANGERS, RETAINED = "stranger p", "strangers", "retained share"
"""Measures in ``epochs.parquet``: the least p-value of the patients together and of each, 0-1, low = the model
knows them; the share of patients who are strangers, 0-1; the geometric mean probability of a retained token as a
share of the target's, 0 and up."""


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
