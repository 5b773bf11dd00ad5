"""Figure 5, the four sets over the levels of forgetting, and Figure 6, reconstruction from identifiers.

Source: MedForget, Figures 5 and 6.
"""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.papers.medforget.measures import GROUPS, IDENTIFIERS, LevelMeasure
from medunlearn.papers.medforget.sweep import LevelResults, Scope
from medunlearn.papers.medforget.tables import GIVEN
from medunlearn.papers.sweeps.figures import colour, everyone, line, name_of, symbol
from medunlearn.papers.sweeps.models import UNLEARNED
from medunlearn.reports.blocks import Spec
from medunlearn.reports.figures import layout

Panels = list[tuple[str, Spec]]
SHORT = {"institution": "Inst.", "patient": "Pat.", "study": "Stu.", "section": "Sec."}


def figure_5(results: LevelResults, measures: Sequence[LevelMeasure]) -> list[tuple[str, Panels]]:
    """A row a set, a panel a measure; institution to section from left to right."""
    rows = (
        (group.head, [(measure.title, results.compared(group.name), measure) for measure in measures])
        for group in GROUPS
    )
    return [(head, panels) for head, row in rows if (panels := _panels(results, results.levels, row))]


def figure_6(results: LevelResults) -> list[tuple[str, Panels]]:
    """A row a measure, a panel for what is given; section to institution from left to right."""
    rows = (
        (measure.title, [(f"given {GIVEN[step]}", f"given {step}", measure) for step in IDENTIFIERS])
        for measure in results.tasks
    )
    return [(head, panels) for head, row in rows if (panels := _panels(results, results.levels[::-1], row))]


def _panels(results: LevelResults, levels: Sequence[Scope], row: Sequence[tuple[str, str, LevelMeasure]]) -> Panels:
    """Titles and panels of a row; without those that no model has a number for."""
    specs = [(title, _panel(results, levels, group, measure)) for title, group, measure in row]
    return [(title, spec) for title, spec in specs if spec is not None]


def _panel(results: LevelResults, levels: Sequence[Scope], group: str, measure: LevelMeasure) -> Spec | None:
    """One trace a model over the levels."""
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
    frame = layout(None, "", f"{measure.title}, %", small=True)
    frame |= {"margin": {"l": 52, "r": 8, "t": 8, "b": 34}}
    frame["yaxis"] |= {"range": [-3, 103], "nticks": 6}
    places = list(range(len(levels)))
    frame["xaxis"] |= {"tickvals": places, "ticktext": ticks, "range": [-0.4, len(levels) - 0.6]}
    return {"data": data, "layout": frame, "labels": False}
