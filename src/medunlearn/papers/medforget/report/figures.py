"""Figure 5, the four sets over the levels of forgetting, and Figure 6, reconstruction from identifiers.

Source: MedForget, Figures 5 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from medunlearn.papers.amnesia.report.content import UNLEARNED, Measured
from medunlearn.papers.amnesia.report.marks import colour, error, hover, symbol
from medunlearn.papers.medforget.report.content import (
    GROUPS,
    IDENTIFIERS,
    LEVELS,
    RETRAINED_MODEL,
    TARGET_MODEL,
    LevelContent,
    Measure,
    Who,
    unlearned,
)
from medunlearn.papers.medforget.report.published import TABLE_3, methods, published
from medunlearn.papers.medforget.report.tables import GIVEN
from medunlearn.reports.figures import layout, safe, short

Spec = dict[str, Any]
Panels = list[tuple[str, Spec]]
At = Callable[[str, Who], Measured | None]

SHORT = {"institution": "Inst.", "patient": "Pat.", "study": "Stu.", "section": "Sec."}


def figure_5(content: LevelContent) -> list[tuple[str, Panels]]:
    """A row a set, a panel a measure; institution to section from left to right."""
    splits = {scope.level: scope.split for scope in content.levels}

    def panel(group: str, measure: Measure) -> Spec | None:
        def at(level: str, who: Who) -> Measured | None:
            return content.number(splits[level], who, group, measure.name)

        return _panel(content.methods, list(splits), at, measure.title)

    return _rows(panel, content.tasks)


def published_figure_5() -> list[tuple[str, Panels]]:
    """The same of the paper's Table 3."""

    def panel(group: str, measure: Measure) -> Spec | None:
        def at(level: str, who: Who) -> Measured | None:
            return published(3, level, who, group, measure.name)

        return _panel(methods(), list(LEVELS), at, measure.title)

    return _rows(panel, TABLE_3)


def _rows(panel: Callable[[str, Measure], Spec | None], measures: Sequence[Measure]) -> list[tuple[str, Panels]]:
    rows = []
    for group in GROUPS:
        specs = [(measure.title, panel(group.name, measure)) for measure in measures]
        found = [(title, spec) for title, spec in specs if spec is not None]
        if found:
            rows.append((f"{group.title} {'↓' if group.lower else '↑'}", found))
    return rows


def figure_6(content: LevelContent) -> list[tuple[str, Panels]]:
    """A row a measure, a panel for what is given; section to institution from left to right."""
    splits = {scope.level: scope.split for scope in reversed(content.levels)}

    def panel(step: str, measure: Measure) -> Spec | None:
        def at(level: str, who: Who) -> Measured | None:
            return content.attack(splits[level], who, step, measure.name)

        return _panel(content.methods, list(splits), at, measure.title)

    rows = []
    for measure in content.tasks:
        specs = [(f"given {GIVEN[step]}", panel(step, measure)) for step in IDENTIFIERS]
        found = [(title, spec) for title, spec in specs if spec is not None]
        if found:
            rows.append((measure.title, found))
    return rows


def _panel(names: Sequence[str], levels: Sequence[str], at: At, title: str) -> Spec | None:
    """One trace a model over the levels; None where no model has a number."""
    # Methods first, so that the references are drawn on top.
    everyone = [*(unlearned(name) for name in names), TARGET_MODEL, RETRAINED_MODEL]
    data = [trace for who in everyone if (trace := _trace(names, levels, at, who))]
    if not data:
        return None
    frame = layout(None, "", f"{title}, %", small=True)
    frame |= {"margin": {"l": 52, "r": 8, "t": 8, "b": 34}}
    frame["yaxis"] |= {"range": [-3, 103], "nticks": 6}
    places = list(range(len(levels)))
    ticks = [SHORT.get(level, level) for level in levels]
    frame["xaxis"] |= {"tickvals": places, "ticktext": ticks, "range": [-0.4, len(levels) - 0.6]}
    return {"data": data, "layout": frame, "labels": False}


def _trace(names: Sequence[str], levels: Sequence[str], at: At, who: Who) -> Spec | None:
    found = [
        (place, _percent(one))
        for place, level in enumerate(levels)
        if (one := at(level, who)) and one.value is not None
    ]
    if not found:
        return None
    tint, name = colour(names, who), safe(who[1] or who[0])
    reference = who[0] != UNLEARNED
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [place for place, _ in found],
        "y": [short(one.value or 0.0) for _, one in found],
        "line": {"color": tint, "width": 1.6, "dash": "dot" if reference else "solid"},
        "marker": {"symbol": symbol(names, who)[0], "size": 9 if reference else 7, "color": tint},
        "error_y": error([one for _, one in found], tint),
        "hovertext": [
            f"<b>{name}</b>, {SHORT.get(levels[place], levels[place])}<br>{hover(one)}" for place, one in found
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "cliponaxis": False,
    }


def _percent(found: Measured) -> Measured:
    one = found.reading
    value, low, high = (None if edge is None else 100 * edge for edge in (one.value, one.low, one.high))
    scaled = type(one)(value, low, high, one.n_scored, one.n_unscored, one.n_subjects)
    return Measured(scaled, tuple(100 * seed for seed in found.by_seed))
