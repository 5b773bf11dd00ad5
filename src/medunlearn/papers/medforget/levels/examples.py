"""What models say of what they were to forget: one question a level (MedForget, Figure 7)."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.images import png, read_image
from medunlearn.data.records import Question
from medunlearn.data.splits import shuffled
from medunlearn.papers.amnesia.swept.cells import Cell
from medunlearn.papers.medforget.levels.cells import LevelCells
from medunlearn.papers.medforget.levels.contrasts import ladder
from medunlearn.papers.medforget.report.content import FLAT, LEVELS, Said, Scope

THUMBNAIL = 96
"""Pixels of the longer side."""


def said(
    cells: LevelCells, context: str, scopes: Mapping[str, Scope], *, show_text: bool = False
) -> tuple[Said, ...]:
    """One question a level, drawn from the forget set of its split by seed, and every model's response to it.

    An invented benchmark's text is always shown: nobody stands behind it. Images are shown of invented or open data
    alone, whatever else is wanted.
    """
    facts = cells.benchmark.facts()
    if not (show_text or facts["invented"]):
        return ()
    pictures = bool(facts["invented"]) or facts["data_use"] == "open"
    found = []
    for split in ladder(dict(scopes)):
        for question in _drawn(cells.benchmark, split, scopes[split].level):
            outputs = dict(_outputs(cells, context, split, question.question_id))
            image = _thumbnail(cells.benchmark, question) if pictures else ""
            level = scopes[split].level
            found.append(Said(scopes[split].split, level, question.question, question.answer, outputs, image))
    return tuple(found)


def _drawn(benchmark: Benchmark, split: str, level: str) -> list[Question]:
    """A question on the level's own identifier; on a section, its content."""
    kind = "generation" if level == LEVELS[-1] else "identity"
    asked = [
        question
        for question in benchmark.questions_of(benchmark.split(split), "forget", ("train",))
        if (question.kind, question.level) == (kind, level)
    ]
    first = shuffled([question.question_id for question in asked], "figure 7", level)[:1]
    return [question for question in asked if question.question_id in first]


def _outputs(cells: LevelCells, context: str, split: str, question_id: str) -> Iterator[tuple[str, str]]:
    for who, seeds in cells.of(context, split).items():
        response = _response(seeds[min(seeds)], question_id)
        if response is not None:
            yield f"{who[1]}, flat" if who[0] == FLAT else who[1] or who[0], response


def _response(cell: Cell, question_id: str) -> str | None:
    found = cell.evaluated.responses.get(question_id)
    return None if found is None else found.response


def _thumbnail(benchmark: Benchmark, question: Question) -> str:
    image = benchmark.record[question.record_id].image
    if image is None:
        return ""
    path = Path(image) if Path(image).is_absolute() or benchmark.folder is None else benchmark.folder / image
    return f"data:image/png;base64,{base64.b64encode(png(read_image(path, THUMBNAIL))).decode()}"
