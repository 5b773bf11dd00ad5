"""What ``train`` finds out after its epochs: validation loss, memorization, diagnostic accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from medunlearn.config import TrainSettings, WatchSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError
from medunlearn.models.load import LanguageModel
from medunlearn.models.sequences import Rendering
from medunlearn.papers.memorization.diagnosis.asking import ask, predictions, questions_of
from medunlearn.papers.memorization.diagnosis.memorization import Memorization
from medunlearn.papers.memorization.diagnosis.names import names_with
from medunlearn.papers.memorization.diagnosis.rows import row_of, table_of
from medunlearn.papers.memorization.diagnosis.validation import ValidationLoss, held_out
from medunlearn.pipeline.epochs.epoch_evaluation import Measure
from medunlearn.pipeline.material import rendering_of, training_data
from medunlearn.results.runs import Run
from medunlearn.statistics import bootstrap_mean

NO_PART = "none"


def accuracy_name(k: int, part: str) -> str:
    """What the table of epochs calls top-k accuracy."""
    return f"top-{k} accuracy, {part}"


def check_watch(benchmark: Benchmark, settings: TrainSettings) -> WatchSettings | None:
    """What is watched, checked before anything runs; None where nothing is.

    Raises:
        ConfigError: every mistake of ``validation`` and ``watch``.
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
    if settings.validation is not None:
        try:
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
    """The measures that the settings ask for, ready to be called after each epoch."""
    found: list[Measure] = []
    usual = watch or check(WatchSettings, {})
    if settings.validation is not None:
        found.append(
            ValidationLoss.of(
                benchmark,
                settings.validation,
                settings.train_on,
                language_model,
                rendering,
                batch_size=usual.probe_batch_size,
                replicates=usual.replicates,
                seed=usual.seed,
            )
        )
    if watch and watch.prefix_tokens:
        records, _ = training_data(benchmark, settings.without)
        found.append(Memorization.of(benchmark, records, watch, language_model, quiet=quiet))
    if watch and watch.part != NO_PART:
        found.append(Accuracy(benchmark, watch, settings.weights, quiet))
    return found


@dataclass(frozen=True)
class Accuracy:
    """Top-k diagnostic accuracy on one part: the share of responses that name a right diagnosis among the first k.

    0-1, higher = diagnoses better. A response in which no diagnosis can be read names none that is right.
    """

    benchmark: Benchmark
    settings: WatchSettings
    weights: Literal["fp32", "bf16"]
    quiet: bool = False

    def __call__(self, run: Run, live: LanguageModel) -> pd.DataFrame:
        settings = self.settings
        # As `diagnose` asks, so that it finds what was asked here.
        rendering = rendering_of(run, None, None)
        responses = ask(run, self.benchmark, settings, rendering, weights=self.weights, live=live, quiet=self.quiet)
        table = predictions(self.benchmark, responses, settings, questions_of(self.benchmark, settings.part))
        return table_of(
            [
                row_of(
                    accuracy_name(k, settings.part),
                    f"top_{k}",
                    bootstrap_mean(
                        (table["rank"] <= k).fillna(False).astype(float).to_numpy(),
                        table["subject"].tolist(),
                        replicates=settings.replicates,
                        seed=settings.seed,
                    ),
                )
                for k in settings.k
            ]
        )
