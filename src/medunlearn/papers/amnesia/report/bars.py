"""Figure 2: utility and forgetting of every method, train beside holdout, by forget set size.

Source: AMNESIA, Figure 2.
"""

from __future__ import annotations

from typing import Any

from medunlearn.papers.amnesia.report.content import TARGET, UNLEARNED, Measured, Step, SweepContent
from medunlearn.papers.amnesia.report.marks import REFERENCE_COLOUR, REFERENCES, colour, error, hover
from medunlearn.reports.figures import safe, short
from medunlearn.reports.words import ABSENT

Spec = dict[str, Any]

_PATTERNS = ("", "/", "x", ".")
# Train and holdout line of a reference, and of further folds.
_DASHES = {"target": ("dash", "dot"), "retrained": ("dashdot", "longdashdot")}
_GAP = 0.03


def bar_rows(content: SweepContent, context: str, scope: str) -> list[tuple[str, Spec]]:
    """A title and a figure each for utility and forgetting of every kind; a panel a size."""
    rows = []
    for side in ("retain", "forget"):
        metric = content.composite(side)
        for kind in content.kinds():
            if metric is not None and _any(content, context, scope, (side, kind), metric):
                title = f"{metric} on {side}, {kind}"
                rows.append((title, _row(content, context, scope, (side, kind), metric)))
    return rows


def _row(content: SweepContent, context: str, scope: str, place: tuple[str, str], metric: str) -> Spec:
    steps = content.steps_of(scope)
    data: list[Spec] = []
    shapes: list[Spec] = []
    frame: Spec = {
        "barmode": "overlay",
        "showlegend": False,
        "font": {"color": "--ink", "family": "--sans", "size": 12},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {"bgcolor": "--paper", "bordercolor": "--line", "font": {"color": "--ink"}},
        "margin": {"l": 40, "r": 6, "t": 24, "b": 58},
        "dragmode": False,
        "annotations": [],
    }
    for place_of, step in enumerate(steps):
        axis = "" if place_of == 0 else str(place_of + 1)
        frame |= _axes(content, axis, place_of, len(steps))
        frame["annotations"].append(_heading(step, axis))
        data += _bars(content, context, step, place, metric, axis)
        shapes += _lines(content, context, step, place, metric, axis)
        frame["annotations"] += _absences(content, context, step, place, metric, axis)
    return {"data": data, "layout": frame | {"shapes": shapes}, "labels": False}


def _bars(
    content: SweepContent, context: str, step: Step, place: tuple[str, str], metric: str, axis: str
) -> list[Spec]:
    """One trace a fold, one bar a method, and a point a seed where there are several."""
    side, kind = place
    folds = content.folds()
    width = 0.84 / len(folds)
    traces: list[Spec] = []
    for number, fold in enumerate(folds):
        found = [
            (at, method, measured)
            for at, method in enumerate(content.methods)
            if (measured := _of(content, context, step, (UNLEARNED, method), (side, fold, kind), metric))
        ]
        if not found:
            continue
        offset = (number - (len(folds) - 1) / 2) * width
        colours = [colour(content.methods, (UNLEARNED, method)) for _, method, _ in found]
        traces.append(
            {
                "type": "bar",
                "name": fold,
                "x": [short(at + offset) for at, _, _ in found],
                "y": [short(measured.value or 0.0) for _, _, measured in found],
                "width": width * 0.94,
                "xaxis": f"x{axis}",
                "yaxis": f"y{axis}",
                "marker": {
                    "color": colours,
                    "pattern": {"shape": _PATTERNS[number % 4], "size": 5, "solidity": 0.35},
                },
                "error_y": error([measured for _, _, measured in found], "--muted"),
                "hovertext": [f"<b>{safe(m)}</b>, {safe(fold)}<br>{hover(one)}" for _, m, one in found],
                "hovertemplate": "%{hovertext}<extra></extra>",
            }
        )
        traces += _seeds([(at + offset, measured) for at, _, measured in found], axis)
    return traces


def _seeds(found: list[tuple[float, Measured]], axis: str) -> list[Spec]:
    points = [(short(at), short(value)) for at, one in found for value in one.by_seed if len(one.by_seed) > 1]
    if not points:
        return []
    marker = {"color": "--ink", "size": 4, "line": {"color": "--paper", "width": 1}}
    where = {"xaxis": f"x{axis}", "yaxis": f"y{axis}", "hoverinfo": "skip", "marker": marker}
    x, y = zip(*points, strict=True)
    return [{"type": "scatter", "mode": "markers", "name": "seeds", "x": list(x), "y": list(y), **where}]


def _lines(
    content: SweepContent, context: str, step: Step, place: tuple[str, str], metric: str, axis: str
) -> list[Spec]:
    """The target and the retrained model as lines across the panel, one a fold."""
    side, kind = place
    shapes = []
    for who in REFERENCES:
        for number, fold in enumerate(content.folds()):
            found = _of(content, context, step, who, (side, fold, kind), metric)
            if found is not None:
                value, dash = short(found.value or 0.0), _DASHES[who[0]][min(number, 1)]
                line = {"color": REFERENCE_COLOUR[who[0]], "width": 1.6 if who[0] == TARGET else 1.3, "dash": dash}
                shape = {"type": "line", "xref": f"x{axis} domain", "yref": f"y{axis}", "x0": 0, "x1": 1}
                name = f"{who[0]}, {fold}"
                shapes.append(shape | {"y0": value, "y1": value, "line": line, "name": name})
    return shapes


def _axes(content: SweepContent, axis: str, place: int, count: int) -> Spec:
    width = (1 - _GAP * (count - 1)) / count
    start = place * (width + _GAP)
    style = {"gridcolor": "--line", "zeroline": False, "linecolor": "--line", "showline": True, "fixedrange": True}
    tick = {"color": "--muted", "size": 11}
    x = style | {
        "domain": [short(start), short(start + width)],
        "anchor": f"y{axis}",
        "tickvals": list(range(len(content.methods))),
        "ticktext": [safe(method) for method in content.methods],
        "tickangle": -40,
        "range": [-0.6, len(content.methods) - 0.4],
        "showgrid": False,
        "tickfont": tick,
    }
    y = style | {"range": [0, 1.02], "anchor": f"x{axis}", "tickfont": tick, "nticks": 6}
    return {f"xaxis{axis}": x, f"yaxis{axis}": y | {"showticklabels": place == 0}}


def _heading(step: Step, axis: str) -> Spec:
    text = f"{step.percent}%" if step.percent is not None else safe(step.split)
    where = {"xref": f"x{axis} domain", "yref": f"y{axis} domain", "x": 0.5, "y": 1.0, "yanchor": "bottom"}
    return {"text": text, "showarrow": False, "font": {"size": 12, "color": "--muted"}} | where


def _absences(
    content: SweepContent, context: str, step: Step, place: tuple[str, str], metric: str, axis: str
) -> list[Spec]:
    """A dash where a method has no number: an empty place would look like a 0."""
    side, kind = place
    where = {"xref": f"x{axis}", "yref": f"y{axis}", "y": 0.0, "yanchor": "bottom", "showarrow": False}
    return [
        where | {"x": at, "text": ABSENT, "font": {"size": 12, "color": "--muted"}}
        for at, method in enumerate(content.methods)
        if not any(
            _of(content, context, step, (UNLEARNED, method), (side, fold, kind), metric) for fold in content.folds()
        )
    ]


def _of(
    content: SweepContent, context: str, step: Step, who: tuple[str, str], place: tuple[str, str, str], metric: str
) -> Measured | None:
    found = content.number(context, step.split, who, place, metric)
    return found if found is not None and found.value is not None else None


def _any(content: SweepContent, context: str, scope: str, place: tuple[str, str], metric: str) -> bool:
    who = [(UNLEARNED, method) for method in content.methods]
    return any(
        _of(content, context, step, one, (place[0], fold, place[1]), metric)
        for step in content.steps_of(scope)
        for one in [*who, *REFERENCES]
        for fold in content.folds()
    )
