"""Responses about what was to be forgotten: one question a level (MedForget, Figure 7)."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.images import png, read_image
from medunlearn.data.records import Question
from medunlearn.data.splits import shuffled
from medunlearn.papers.medforget.partitions import LEVELS
from medunlearn.papers.medforget.sweep import FLAT, LevelSweep, ladder
from medunlearn.papers.sweeps.figures import name_of

THUMBNAIL = 96
"""Pixels of the longer side."""


def level_examples(sweep: LevelSweep, *, show_text: bool = False) -> tuple[dict[str, Any], ...]:
    """One question a level, drawn from the forget set of its split by seed, and every model's response to it.

    An invented benchmark's text is always shown: nobody stands behind it. Images are shown of invented or open data
    alone, whatever else is wanted.
    """
    benchmark = sweep.models.benchmark
    facts = benchmark.facts()
    if not (show_text or facts["invented"]):
        return ()
    pictures = bool(facts["invented"]) or sweep.models.data_use == "open"
    return tuple(
        {
            "split": scope.split,
            "level": scope.level,
            "question": question.question,
            "answer": question.answer,
            "outputs": _outputs(sweep, split, question.question_id),
            "thumbnail": _thumbnail(benchmark, question) if pictures else "",
        }
        for split, scope in ladder(sweep.scopes).items()
        for question in _drawn(benchmark, split, scope.level)
    )


def _drawn(benchmark: Benchmark, split: str, level: str) -> list[Question]:
    """A question on the level's own identifier; on a section, its content."""
    kind = "generation" if level == LEVELS[-1] else "identity"
    questions = {
        question.question_id: question
        for question in benchmark.questions_of(benchmark.split(split), "forget", ("train",))
        if (question.kind, question.level) == (kind, level)
    }
    return [questions[name] for name in shuffled(list(questions), "figure 7", level)[:1]]


def _outputs(sweep: LevelSweep, split: str, question_id: str) -> dict[str, str]:
    """A model's name -> its response."""
    responses = {
        f"{who[1]}, flat" if who[0] == FLAT else name_of(who): seeds[min(seeds)].responses.get(question_id)
        for who, seeds in sweep.models.of(sweep.context, split).items()
    }
    return {name: response.response for name, response in responses.items() if response is not None}


def _thumbnail(benchmark: Benchmark, question: Question) -> str:
    """The question's image as a data URI; empty where there is none."""
    image = benchmark.record[question.record_id].image
    if image is None:
        return ""
    path = Path(image) if Path(image).is_absolute() or benchmark.folder is None else benchmark.folder / image
    return f"data:image/png;base64,{base64.b64encode(png(read_image(path, THUMBNAIL))).decode()}"
