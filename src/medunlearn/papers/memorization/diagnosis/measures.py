"""Measures after the epochs of a training run: validation loss, memorization, diagnostic accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from medunlearn.config import TrainSettings, WatchSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import FOLDS, Question, Record
from medunlearn.data.storage import write_frame
from medunlearn.errors import ConfigError, InputError
from medunlearn.models.load import LanguageModel
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import Rendering, TokenSequence, question_sequence, record_sequences
from medunlearn.papers.memorization.diagnosis.accuracy import accuracy_scores, ask, predictions, questions_of
from medunlearn.papers.memorization.diagnosis.memorization import Memorization, epoch_rows
from medunlearn.papers.memorization.diagnosis.top_k import names_with
from medunlearn.probes.material import training_data
from medunlearn.results.runs import Run
from medunlearn.results.summary import summarize
from medunlearn.statistics.bootstrap import ratio, resample_means
from medunlearn.study.epochs.epoch_evaluation import Measure
from medunlearn.study.epochs.epoch_selection import VALIDATION_LOSS

NO_PART = "none"
LOSSES = "validation.parquet"


def check_watch(benchmark: Benchmark, settings: TrainSettings) -> WatchSettings | None:
    """Validated settings of the measurements after epochs; None if there are none.

    Raises:
        ConfigError: lists every mistake in ``validation`` and ``watch``.
    """
    problems: list[str] = []
    watch: WatchSettings | None = None
    try:
        watch = check(WatchSettings, settings.watch) if settings.watch else None
        if watch and watch.part != NO_PART:
            questions_of(benchmark, watch.part)
            names_with(watch.synonyms)
        if watch and watch.part == NO_PART and not watch.prefix_tokens:
            problems.append("watch: nothing is watched: give --watch.part test, --watch.prefix-tokens 50, or both.")
    except ConfigError as error:
        problems += [f"watch: {problem}" for problem in error.problems]
    except InputError as error:
        problems.append(f"watch: {error}")
    try:
        if settings.validation is not None:
            held_out(benchmark, settings.validation)
    except ConfigError as error:
        problems += error.problems
    except InputError as error:
        problems.append(f"validation={settings.validation!r}: {error}")
    if problems:
        raise ConfigError(problems)
    return watch


def epoch_measures(
    benchmark: Benchmark,
    settings: TrainSettings,
    watch: WatchSettings | None,
    language_model: LanguageModel,
    rendering: Rendering,
    *,
    quiet: bool = False,
) -> Sequence[Measure]:
    """The measures in the settings, as functions to call after each epoch."""
    measures: list[Measure] = []
    if settings.validation is not None:
        usual = watch or check(WatchSettings, {})
        measures.append(ValidationLoss.of(benchmark, settings, usual, language_model, rendering))
    if watch and watch.prefix_tokens:
        records, _ = training_data(benchmark, settings.without)
        measures.append(Memorization.of(benchmark, records, watch, language_model, quiet=quiet))
    if watch and watch.part != NO_PART:
        measures.append(Accuracy(benchmark, watch, settings.weights, quiet))
    return measures


@dataclass(frozen=True)
class Accuracy:
    """Top-k diagnostic accuracy on one part: the share of responses with a right diagnosis among the first k.

    0-1, higher = diagnoses better. A response without a readable diagnosis counts as wrong.
    """

    benchmark: Benchmark
    settings: WatchSettings
    weights: Literal["fp32", "bf16"]
    quiet: bool = False

    def __call__(self, run: Run, live: LanguageModel) -> pd.DataFrame:
        settings, questions = self.settings, questions_of(self.benchmark, self.settings.part)
        # As `diagnose` asks, so that it finds what was asked here.
        rendering = run.rendering()
        responses = ask(run, self.benchmark, settings, rendering, weights=self.weights, live=live, quiet=self.quiet)
        scores = accuracy_scores(predictions(self.benchmark, responses, settings, questions), settings.k)
        table = summarize(scores, replicates=settings.replicates, seed=settings.seed)
        titles = {str(k): (f"top-{k} accuracy, {settings.part}", f"top_{k}") for k in settings.k}
        return epoch_rows(table, titles)


def held_out(benchmark: Benchmark, where: str) -> tuple[list[Record], list[Question]]:
    """Records and questions selected by a ``validation`` setting.

    Args:
        where: ``level=node,node``: these records and the questions about them; or a fold: only its questions.

    Raises:
        ConfigError: training uses them, or there are none.
        UnknownNameError: no such level or node.
    """
    level, has_nodes, nodes = where.partition("=")
    records: list[Record] = []
    if has_nodes:
        names = [node.strip() for node in nodes.split(",") if node.strip()]
        ids = benchmark.hierarchy.closure(level.strip(), names)
        records = [record for record in benchmark.records if record.record_id in ids]
        questions = [question for question in benchmark.questions if question.record_id in ids]
    elif where not in FOLDS:
        raise ConfigError([f"validation={where!r}: use level=node of records, or a fold: {', '.join(FOLDS)}."])
    else:
        questions = [question for question in benchmark.questions if question.fold == where]
    if "train" in {where, *(record.fold for record in records), *(question.fold for question in questions)}:
        raise ConfigError([f"validation={where!r}: training uses some of this; name held-out data."])
    if not records and not questions:
        raise ConfigError([f"validation={where!r}: the benchmark has no such data."])
    return records, questions


@dataclass(frozen=True)
class ValidationLoss:
    """Mean negative log-likelihood of held-out tokens, in nats per token, scored as in training.

    0 and up, lower = predicts the unseen better. Tokens of texts and answers count equally, as in training; if
    there are both, their separate losses are shown too.

    Attributes:
        sequences, subjects, of_records: the scored sequences, their subjects, and whether they are record text.
    """

    sequences: tuple[TokenSequence, ...]
    subjects: tuple[str, ...]
    of_records: tuple[bool, ...]
    settings: WatchSettings

    @staticmethod
    def of(
        benchmark: Benchmark,
        settings: TrainSettings,
        watch: WatchSettings,
        language_model: LanguageModel,
        rendering: Rendering,
    ) -> ValidationLoss:
        """Validation loss of held-out sequences of the kind used in training.

        Raises:
            InputError: nothing remains, since training uses another kind.
        """
        where, train_on = str(settings.validation), settings.train_on
        records, questions = held_out(benchmark, where)
        tokenizer = language_model.tokenizer
        texts = [
            (piece, record.record_id)
            for record in (records if train_on != "questions" else [])
            for piece in record_sequences(record, tokenizer, rendering.max_length)
        ]
        answers = [
            (
                question_sequence(question, benchmark.record[question.record_id], tokenizer, rendering),
                question.record_id,
            )
            for question in (questions if train_on != "records" else [])
        ]
        if not texts and not answers:
            raise InputError(f"validation={where!r} has none of the data that train_on={train_on!r} trains on.")
        sequences, ids = zip(*texts, *answers, strict=True)
        subjects = tuple(map(benchmark.subject, ids))
        return ValidationLoss(sequences, subjects, (True,) * len(texts) + (False,) * len(answers), watch)

    def __call__(self, run: Run, live: LanguageModel) -> pd.DataFrame:
        scores = score_answers(live, self.sequences, batch_size=self.settings.probe_batch_size)
        table = pd.DataFrame(
            {
                "key": [sequence.key for sequence in self.sequences],
                "subject": self.subjects,
                "of_record": self.of_records,
                "nll": [-float(np.sum(score.log_probs, dtype=np.float64)) for score in scores],
                "tokens": [len(score.log_probs) for score in scores],
            }
        )
        # Without text, so that epochs can be compared in pairs.
        write_frame(run.folder / LOSSES, table)
        parts = {VALIDATION_LOSS: table}
        if len(set(self.of_records)) > 1:
            parts |= {f"{VALIDATION_LOSS} of records": table[table["of_record"]]}
            parts |= {f"{VALIDATION_LOSS} of answers": table[~table["of_record"]]}
        rows = [{"measure": name, **self._loss(part)} for name, part in parts.items()]
        return epoch_rows(pd.DataFrame(rows), {name: (name, "nll") for name in parts})

    def _loss(self, table: pd.DataFrame) -> Mapping[str, Any]:
        how = {"replicates": self.settings.replicates, "seed": self.settings.seed}
        means = resample_means(table[["nll", "tokens"]].to_numpy(float), table["subject"].tolist(), **how)
        loss = means.estimate([0, 1], ratio)
        names = ("value", "low", "high", "replicates_dropped")
        counts = {"n_scored": loss.n, "n_unscored": 0, "n_subjects": loss.n_clusters}
        return {**{name: getattr(loss, name) for name in names}, **counts}


@dataclass(frozen=True)
class DiagnosisWatch:
    """Measurements after the epochs of `train`: what a paper offers as its ``watch``."""

    check = staticmethod(check_watch)
    measures = staticmethod(epoch_measures)
    held_out = staticmethod(held_out)


WATCH = DiagnosisWatch()
