"""Number of sequences that stages train on or evaluate: their relative cost where no seconds are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from medunlearn.config import AttackSettings, EvaluateSettings, TrainSettings, UnlearnSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.probes.material import training_data
from medunlearn.probes.question_selection import questions_to_ask


@dataclass(frozen=True)
class SequenceCounts:
    """Counts of one benchmark, each made once.

    Attributes:
        _items: number of records and questions without one split's forget set.
        _questions: number of questions of an evaluation.
    """

    benchmark: Benchmark
    _items: Callable[[str | None], int]
    _questions: Callable[[EvaluateSettings], int]

    @staticmethod
    def of(benchmark: Benchmark) -> SequenceCounts:
        @cache
        def items(without: str | None) -> int:
            records, questions = training_data(benchmark, without)
            return len(records) + len(questions)

        @cache
        def questions(settings: EvaluateSettings) -> int:
            return len(questions_to_ask(benchmark, benchmark.split(settings.split), settings))

        return SequenceCounts(benchmark, items, questions)

    def trained(self, settings: TrainSettings) -> float:
        """Sequences of a training run."""
        return float(self._items(settings.without) * (settings.epochs + settings.pretrain_epochs))

    def unlearned(self, settings: UnlearnSettings) -> float:
        """Sequences of an unlearning run, on both sides."""
        return 2.0 * (self._items(None) - self._items(settings.split)) * settings.epochs

    def asked(self, settings: EvaluateSettings) -> float:
        """Questions of an evaluation."""
        return float(self._questions(settings))

    def attacked(self, settings: AttackSettings) -> float:
        """Questions on the forget set."""
        split = self.benchmark.split(str(settings.split))
        return float(len(self.benchmark.questions_of(split, "forget", ("train",))))
