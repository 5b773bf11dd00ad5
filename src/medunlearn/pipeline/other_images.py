"""Ask an evaluation's questions with another patient's image and with a blank one, and score the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.image_controls import CONTROLS, ImageControl, with_blank_images, with_swapped_images
from medunlearn.data.records import Question
from medunlearn.data.responses import LogProbs, Response
from medunlearn.errors import ConfigError
from medunlearn.metrics import get_metric
from medunlearn.metrics.measure import question_items
from medunlearn.models.sequences import Rendering
from medunlearn.pipeline.questioning import Questioning
from medunlearn.pipeline.score import score_items

Answers = tuple[Mapping[str, Response], Mapping[str, LogProbs]]
_RANKING = frozenset(("fact_ranks", "note_ranks", "keywords"))
IMAGES = "images-control"
"""Folder in an evaluation's, of blank images and of the responses to other ones."""


def refuse_without_images(benchmark: Benchmark, rendering: Rendering) -> None:
    """Refuse an image control where no image is shown.

    Raises:
        ConfigError: the benchmark has no image, or the model was told to ignore them.
    """
    if rendering.images == "ignore" or not any(record.image for record in benchmark.records):
        raise ConfigError(
            ["image_control=true: the model is shown no image (text alone, or --images ignore). Leave it out."]
        )


def ask_with_other_images(
    questioning: Questioning, questions: Sequence[Question], metrics: Sequence[str], folder: Path
) -> dict[ImageControl, Answers]:
    """Responses to the questions on records with an image, and likelihoods of their options, by control.

    Args:
        folder: of the evaluation; blank images and these responses are kept in it.
    """
    benchmark, place = questioning.benchmark, folder / IMAGES
    shown = on_images(benchmark, questions)
    answers: dict[ImageControl, Answers] = {}
    for control in CONTROLS:
        other = (
            with_swapped_images(benchmark, questioning.settings.seed)
            if control == "swapped"
            else with_blank_images(benchmark, place)
        )
        asking = replace(questioning, benchmark=other, live=questioning.language_model, folder=place)
        _, responses, _ = asking.ask(shown)
        answers[control] = responses, asking.rate(shown, measures_of(metrics))[0]
    return answers


def score_controls(
    answers: Mapping[ImageControl, Answers],
    benchmark: Benchmark,
    questions: Sequence[Question],
    settings: EvaluateSettings,
    labels: pd.DataFrame,
    metrics: Sequence[str],
    device: str,
) -> dict[str, pd.DataFrame]:
    """A score table a control, of the measures that need no ranks."""
    sides, names = benchmark.sides(benchmark.split(settings.split)), measures_of(metrics)
    shown = on_images(benchmark, questions)
    return {
        control: score_items(question_items(shown, sides, responses, options), names, settings, labels, device)
        for control, (responses, options) in answers.items()
    }


def on_images(benchmark: Benchmark, questions: Sequence[Question]) -> list[Question]:
    """Questions of the fold ``train`` on records that show an image; of every fold where that one is not asked."""
    shown = [question for question in questions if benchmark.record[question.record_id].image is not None]
    return [question for question in shown if question.fold == "train"] or shown


def measures_of(metrics: Sequence[str]) -> list[str]:
    """The measures that a response or its likelihood is enough for."""
    return [name for name in metrics if not _RANKING & {*get_metric(name).needs}]
