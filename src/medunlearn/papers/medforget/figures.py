"""Figure 5, the four sets over the levels of forgetting, and Figure 6, reconstruction from identifiers.

Source: MedForget, Figures 5 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from medunlearn.papers.medforget.partitions import LEVELS
from medunlearn.papers.medforget.sweep import GROUPS, IDENTIFIERS, LevelMeasure, LevelResults
from medunlearn.papers.medforget.tables import GIVEN, TABLE_3, published_methods, published_number
from medunlearn.papers.sweeps.figures import colour, everyone, line, name_of, symbol
from medunlearn.papers.sweeps.models import UNLEARNED, SweepNumber, Who
from medunlearn.reports.blocks import Spec
from medunlearn.reports.figures import layout

Panels = list[tuple[str, Spec]]
Lookup = Callable[[str, Who, str, LevelMeasure], SweepNumber | None]
"""Level, model, set (or step of the attack) and measure -> number."""

SHORT = {"institution": "Inst.", "patient": "Pat.", "study": "Stu.", "section": "Sec."}


def figure_5(results: LevelResults) -> list[tuple[str, Panels]]:
    """A row a set, a panel a measure; institution to section from left to right."""
    splits = {scope.level: scope.split for scope in results.levels}

    def number(level: str, who: Who, group: str, measure: LevelMeasure) -> SweepNumber | None:
        return results.number(splits[level], who, group, measure.name)

    return _sets(results.methods, list(splits), results.tasks, number)


def published_figure_5() -> list[tuple[str, Panels]]:
    """The same of the paper's Table 3."""

    def number(level: str, who: Who, group: str, measure: LevelMeasure) -> SweepNumber | None:
        return published_number(3, level, who, group, measure.name)

    return _sets(published_methods(), list(LEVELS), TABLE_3, number)


def _sets(
    methods: Sequence[str], levels: Sequence[str], measures: Sequence[LevelMeasure], number: Lookup
) -> list[tuple[str, Panels]]:
    return _rows(
        {
            group.head: [(one.title, _panel(methods, levels, number, group.name, one)) for one in measures]
            for group in GROUPS
        }
    )


def figure_6(results: LevelResults) -> list[tuple[str, Panels]]:
    """A row a measure, a panel for what is given; section to institution from left to right."""
    splits = {scope.level: scope.split for scope in reversed(results.levels)}

    def number(level: str, who: Who, step: str, measure: LevelMeasure) -> SweepNumber | None:
        return results.attack(splits[level], who, step, measure.name)

    return _rows(
        {
            measure.title: [
                (f"given {GIVEN[step]}", _panel(results.methods, list(splits), number, step, measure))
                for step in IDENTIFIERS
            ]
            for measure in results.tasks
        }
    )


def _rows(rows: Mapping[str, Sequence[tuple[str, Spec | None]]]) -> list[tuple[str, Panels]]:
    """Rows with their drawn panels; none without any."""
    drawn = [(head, [(title, spec) for title, spec in panels if spec is not None]) for head, panels in rows.items()]
    return [(head, panels) for head, panels in drawn if panels]


def _panel(
    methods: Sequence[str], levels: Sequence[str], number: Lookup, row: str, measure: LevelMeasure
) -> Spec | None:
    """One trace a model over the levels; None where no model has a number."""
    data = []
    for who in everyone(methods):
        points = [
            (place, SHORT.get(level, level), found.percent)
            for place, level in enumerate(levels)
            if (found := number(level, who, row, measure)) and found.value is not None
        ]
        if points:
            method = who[0] == UNLEARNED
            marker = {"symbol": symbol(methods, who)[0], "size": 7 if method else 9}
            style = {"dash": "solid" if method else "dot"}
            data.append(line(name_of(who), points, colour(methods, who), line=style, marker=marker))
    if not data:
        return None
    frame = layout(None, "", f"{measure.title}, %", small=True)
    frame |= {"margin": {"l": 52, "r": 8, "t": 8, "b": 34}}
    frame["yaxis"] |= {"range": [-3, 103], "nticks": 6}
    ticks = [SHORT.get(level, level) for level in levels]
    frame["xaxis"] |= {
        "tickvals": list(range(len(levels))),
        "ticktext": ticks,
        "range": [-0.4, len(levels) - 0.6],
    }
    return {"data": data, "layout": frame, "labels": False}
