"""Image controls of an evaluation: the same questions with another patient's image, and with a blank one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.image_controls import CONTROLS, ImageControl, with_blank_images, with_swapped_images
from medunlearn.data.records import Question
from medunlearn.data.responses import LogProbs, Response
from medunlearn.errors import ConfigError
from medunlearn.metrics import get_metric
from medunlearn.models.sequences import Rendering

if TYPE_CHECKING:
    from medunlearn.probes.questioning import Questioning

Answers = tuple[Mapping[str, Response], Mapping[str, LogProbs]]
_RANKING = frozenset(("fact_ranks", "note_ranks", "keywords"))
IMAGES = "images-control"
"""Folder in an evaluation's, of blank images and of the responses to other ones."""


def shows_images(benchmark: Benchmark, rendering: Rendering) -> bool:
    """True if a model is shown an image of a record."""
    return rendering.images != "ignore" and any(record.image for record in benchmark.records)


def refuse_without_images(benchmark: Benchmark, rendering: Rendering) -> None:
    """Refuse an image control if no image is shown.

    Raises:
        ConfigError: the benchmark has no image, or images are ignored.
    """
    if not shows_images(benchmark, rendering):
        raise ConfigError(
            ["image_control=true: no image is shown to the model (text only, or --images ignore). Leave it out."]
        )


def ask_with_other_images(
    questioning: Questioning, questions: Sequence[Question], metrics: Sequence[str], folder: Path
) -> dict[ImageControl, Answers]:
    """Answers with another patient's image and with a blank one, by control.

    Args:
        folder: folder of the evaluation, where blank images and these responses are stored.
    """
    benchmark, place = questioning.benchmark, folder / IMAGES
    image_questions = questions_on_images(benchmark, questions)
    answers: dict[ImageControl, Answers] = {}
    for control in CONTROLS:
        other = (
            with_swapped_images(benchmark, questioning.settings.seed)
            if control == "swapped"
            else with_blank_images(benchmark, place)
        )
        asking = replace(questioning, benchmark=other, live=questioning.language_model, folder=place)
        _, responses, _ = asking.ask(image_questions)
        answers[control] = responses, asking.rate(image_questions, image_measures(metrics))[0]
    return answers


def questions_on_images(benchmark: Benchmark, questions: Sequence[Question]) -> list[Question]:
    """Questions of the fold ``train`` on records with an image; of every fold if that one is not evaluated."""
    with_image = [question for question in questions if benchmark.record[question.record_id].image is not None]
    return [question for question in with_image if question.fold == "train"] or with_image


def image_measures(metrics: Sequence[str]) -> list[str]:
    """The measures that need only a response or its likelihood."""
    return [name for name in metrics if not _RANKING & {*get_metric(name).needs}]
