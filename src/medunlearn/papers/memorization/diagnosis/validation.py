"""The validation loss: training's own loss, on what training does not see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import FOLDS, Question, Record
from medunlearn.data.storage import write_atomically
from medunlearn.errors import ConfigError, InputError
from medunlearn.models.load import LanguageModel
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import Rendering, TokenSequence, question_sequence, record_sequences
from medunlearn.papers.memorization.diagnosis.rows import row_of, table_of
from medunlearn.pipeline.epochs.selection import VALIDATION_LOSS
from medunlearn.results.runs import Run
from medunlearn.statistics import resample_means
from medunlearn.statistics.bootstrap import Array

LOSSES = "validation.parquet"
OF_RECORDS, OF_ANSWERS = "validation loss of records", "validation loss of answers"


def held_out(benchmark: Benchmark, where: str) -> tuple[list[Record], list[Question]]:
    """Records and questions that a ``validation`` setting names.

    Args:
        where: ``level=node,node``: these records and the questions about them; or a fold: its questions alone.

    Raises:
        ConfigError: training sees them, or there are none.
        UnknownNameError: no such level or node.
    """
    level, given, nodes = where.partition("=")
    if given:
        names = [node.strip() for node in nodes.split(",") if node.strip()]
        ids = benchmark.hierarchy.closure(level.strip(), names)
        records = [record for record in benchmark.records if record.record_id in ids]
        questions = [question for question in benchmark.questions if question.record_id in ids]
        seen = "train" in {*(record.fold for record in records), *(question.fold for question in questions)}
    elif where not in FOLDS:
        raise ConfigError([f"validation={where!r}: name records as level=node, or a fold: {', '.join(FOLDS)}."])
    else:
        records, questions = [], [question for question in benchmark.questions if question.fold == where]
        seen = where == "train"
    if seen:
        raise ConfigError([f"validation={where!r}: training sees some of this; name what it does not."])
    if not records and not questions:
        raise ConfigError([f"validation={where!r}: the benchmark has nothing of this."])
    return records, questions


@dataclass(frozen=True)
class ValidationLoss:
    """Mean negative log-likelihood of the held-out tokens that training would score, in nats a token.

    0 and up, lower = predicts the unseen better. Text and answers count a token each, as in training; the loss of
    each of the two is shown beside it where there are both.

    Attributes:
        sequences, subjects, of_records: what is scored, whose it is, and whether it is a record's text.
    """

    sequences: tuple[TokenSequence, ...]
    subjects: tuple[str, ...]
    of_records: tuple[bool, ...]
    batch_size: int
    replicates: int
    seed: int

    @staticmethod
    def of(
        benchmark: Benchmark,
        where: str,
        train_on: str,
        language_model: LanguageModel,
        rendering: Rendering,
        *,
        batch_size: int,
        replicates: int,
        seed: int,
    ) -> ValidationLoss:
        """Of what is held out, the kind of sequences that training is on.

        Raises:
            InputError: nothing is left of it, since training is on another kind.
        """
        records, questions = held_out(benchmark, where)
        tokenizer = language_model.tokenizer
        texts = [
            (piece, record.record_id)
            for record in (records if train_on != "questions" else [])
            for piece in record_sequences(record, tokenizer, rendering.max_length)
        ]
        answers = [
            (question_sequence(one, benchmark.record[one.record_id], tokenizer, rendering), one.record_id)
            for one in (questions if train_on != "records" else [])
        ]
        if not texts and not answers:
            raise InputError(f"validation={where!r} holds nothing of what train_on={train_on!r} trains on.")
        every = [*texts, *answers]
        return ValidationLoss(
            tuple(sequence for sequence, _ in every),
            tuple(benchmark.subject(record_id) for _, record_id in every),
            tuple(place < len(texts) for place in range(len(every))),
            batch_size,
            replicates,
            seed,
        )

    def __call__(self, run: Run, live: LanguageModel) -> pd.DataFrame:
        scores = score_answers(live, self.sequences, batch_size=self.batch_size)
        sums = np.array([-float(np.sum(score.log_probs, dtype=np.float64)) for score in scores])
        tokens = np.array([len(score.log_probs) for score in scores], dtype=np.float64)
        text = np.array(self.of_records)
        self._keep(run, sums, tokens)
        rows = [self._row(VALIDATION_LOSS, sums, tokens, np.ones(len(text), dtype=bool))]
        if text.any() and not text.all():
            rows += [self._row(OF_RECORDS, sums, tokens, text), self._row(OF_ANSWERS, sums, tokens, ~text)]
        return table_of(rows)

    def _keep(self, run: Run, sums: Array, tokens: Array) -> None:
        """One row a sequence, without text, so that epochs can be compared in pairs."""
        table = pd.DataFrame(
            {
                "key": [sequence.key for sequence in self.sequences],
                "subject": self.subjects,
                "of_record": self.of_records,
                "nll": sums,
                "tokens": tokens.astype("int64"),
            }
        )
        write_atomically(run.folder / LOSSES, table.to_parquet)

    def _row(self, measure: str, sums: Array, tokens: Array, which: np.ndarray) -> dict[str, object]:
        subjects: Sequence[str] = [subject for subject, is_it in zip(self.subjects, which, strict=True) if is_it]
        columns = np.column_stack([sums[which], tokens[which]])
        drawn = resample_means(columns, subjects, replicates=self.replicates, seed=self.seed)
        return row_of(measure, "nll", drawn.estimate([0, 1], lambda means: means[..., 0] / means[..., 1]))
