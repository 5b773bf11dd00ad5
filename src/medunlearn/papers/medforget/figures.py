"""MedForget's Figures 5 to 7: four sets by level of forgetting, reconstruction from identifiers, and responses."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.images import png, read_image
from medunlearn.data.records import Question
from medunlearn.data.splits import shuffled
from medunlearn.papers.medforget.measures import LevelMeasure
from medunlearn.papers.medforget.models import FLAT_MODEL
from medunlearn.papers.medforget.partitions import LEVELS
from medunlearn.papers.medforget.question_sets import GROUPS, IDENTIFIERS, given
from medunlearn.papers.medforget.scopes import Scope, ladder
from medunlearn.papers.medforget.sweep import LevelResults, LevelSweep
from medunlearn.papers.medforget.tables import GIVEN
from medunlearn.papers.sweeps.figures import colour, everyone, line, name_of, symbol
from medunlearn.papers.sweeps.models import UNLEARNED
from medunlearn.reports.blocks import Spec
from medunlearn.reports.figures import layout

Panels = list[tuple[str, Spec]]
THUMBNAIL = 96
"""Pixels of a thumbnail's longer side."""
SHORT = {"institution": "Inst.", "patient": "Pat.", "study": "Stu.", "section": "Sec."}


def figure_5(results: LevelResults, measures: Sequence[LevelMeasure]) -> list[tuple[str, Panels]]:
    """A row per set, a panel per measure; institution to section from left to right."""
    rows = (
        (group.head, [(measure.title, results.compared(group.name), measure) for measure in measures])
        for group in GROUPS
    )
    return [(head, panels) for head, row in rows if (panels := _panels(results, results.levels, row))]


def figure_6(results: LevelResults) -> list[tuple[str, Panels]]:
    """A row per measure, a panel for what is given; section to institution from left to right."""
    rows = (
        (measure.title, [(f"given {GIVEN[step]}", given(step), measure) for step in IDENTIFIERS])
        for measure in results.shown_tasks
    )
    return [(head, panels) for head, row in rows if (panels := _panels(results, results.levels[::-1], row))]


def _panels(results: LevelResults, levels: Sequence[Scope], row: Sequence[tuple[str, str, LevelMeasure]]) -> Panels:
    """Titles and panels of a row, without those that have no numbers."""
    specs = [(title, _panel(results, levels, group, measure)) for title, group, measure in row]
    return [(title, spec) for title, spec in specs if spec is not None]


def _panel(results: LevelResults, levels: Sequence[Scope], group: str, measure: LevelMeasure) -> Spec | None:
    """One trace per model over the levels."""
    data = []
    ticks = [SHORT.get(scope.level, scope.level) for scope in levels]
    for who in everyone(results.methods):
        points = [
            (place, ticks[place], number.percent)
            for place, scope in enumerate(levels)
            if (number := results.number(scope.split, who, group, measure.name)) and number.value is not None
        ]
        if points:
            method = who[0] == UNLEARNED
            marker = {"symbol": symbol(results.methods, who)[0], "size": 7 if method else 9}
            style = {"dash": "solid" if method else "dot"}
            data.append(line(name_of(who), points, colour(results.methods, who), line=style, marker=marker))
    if not data:
        return None
    frame = layout(None, "", measure.axis, small=True)
    frame |= {"margin": {"l": 52, "r": 8, "t": 8, "b": 34}}
    frame["yaxis"] |= {"range": [-3, 103], "nticks": 6}
    places = list(range(len(levels)))
    frame["xaxis"] |= {"tickvals": places, "ticktext": ticks, "range": [-0.4, len(levels) - 0.6]}
    return {"data": data, "layout": frame, "labels": False}


def level_examples(sweep: LevelSweep, *, show_text: bool = False) -> tuple[dict[str, Any], ...]:
    """One question per level, drawn by seed from its split's forget set, with every model's response.

    An invented benchmark's text is always shown. Images are shown only for invented or open data.
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
        for question in _level_questions(benchmark, split, scope.level)
    )


def _level_questions(benchmark: Benchmark, split: str, level: str) -> list[Question]:
    """A question on the level's own identifier; for a section, on its content."""
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
        f"{who[1]}, flat" if who[0] == FLAT_MODEL else name_of(who): seeds[min(seeds)].responses.get(question_id)
        for who, seeds in sweep.models.of(sweep.context, split).items()
    }
    return {name: response.response for name, response in responses.items() if response is not None}


def _thumbnail(benchmark: Benchmark, question: Question) -> str:
    """The question's image as a data URI; empty if there is none."""
    image = benchmark.record[question.record_id].image
    if image is None:
        return ""
    path = Path(image) if Path(image).is_absolute() or benchmark.folder is None else benchmark.folder / image
    return f"data:image/png;base64,{base64.b64encode(png(read_image(path, THUMBNAIL))).decode()}"
