"""Lines with bands, bars, and panels side by side: parts of the memorization paper's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medunlearn.reports.figures import Spec, layout, safe, short, whiskers
from medunlearn.reports.readings import number

_COLOURS = 8
_DASHES = ("solid", "dash", "dot", "dashdot")
_GAP = 0.12
Point = tuple[float, float | None, float | None, float | None]
"""Place on the axis, value, low, high."""


def colour(place: int) -> str:
    """The CSS variable of the n-th line."""
    return f"--m{place % _COLOURS + 1}"


def point(row: Mapping[str, Any], at: str) -> Point:
    """A row's value and interval at the place that a column gives."""
    return (float(row[at]), number(row["value"]), number(row["low"]), number(row["high"]))


def line(name: str, points: Sequence[Point], shade: str, *, dash: int = 0, hollow: bool = False) -> list[Spec]:
    """A line with a band of its intervals; nothing where no point has a value.

    Args:
        dash: number of the dash; 0 is a solid line.
    """
    if all(value is None for _, value, _, _ in points):
        return []
    kind: Spec = {"type": "scatter", "name": safe(name), "legendgroup": safe(name), "cliponaxis": False}
    trace = kind | {
        "mode": "lines+markers",
        "x": [place for place, *_ in points],
        "y": [None if value is None else short(value) for _, value, _, _ in points],
        "line": {"color": shade, "width": 1.8, "dash": _DASHES[dash % len(_DASHES)]},
        "marker": {"color": shade, "size": 7, "symbol": "circle-open" if hollow else "circle"},
        "hovertemplate": f"<b>{safe(name)}</b><br>%{{x}}: %{{y:.4f}}<extra></extra>",
    }
    edges = [(place, low, high) for place, _, low, high in points if low is not None and high is not None]
    if len(edges) < 2:
        return [trace]
    there = [(place, short(high)) for place, _, high in edges]
    back = [(place, short(low)) for place, low, _ in reversed(edges)]
    x, y = (list(side) for side in zip(*there, *back, strict=True))
    band: Spec = {"mode": "lines", "x": x, "y": y, "fill": "toself", "fillcolor": shade, "opacity": 0.16}
    return [kind | band | {"line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}, trace]


def panels(
    groups: Sequence[tuple[str, list[Spec]]], x: str, y: str, ticks: Sequence[int], *, named: bool = True
) -> Spec:
    """Panels (title, lines) side by side in one figure, each with axes of its own; ``named`` adds a legend."""
    frame = layout(None, x, y, small=True)
    width = (1 - _GAP * (len(groups) - 1)) / len(groups)
    styles = {axis: frame.pop(f"{axis}axis") for axis in "xy"}
    frame["annotations"] = []
    data: list[Spec] = []
    for place, (axis, (title, lines)) in enumerate(zip(_axes(len(groups)), groups, strict=True)):
        start = place * (width + _GAP)
        domain = {"domain": [short(start), short(start + width)], "tickvals": list(ticks)}
        frame[f"xaxis{axis}"] = styles["x"] | domain | {"anchor": f"y{axis}"}
        frame[f"yaxis{axis}"] = styles["y"] | {"anchor": f"x{axis}", "rangemode": "tozero"}
        data += [trace | {"xaxis": f"x{axis}", "yaxis": f"y{axis}"} for trace in lines]
        where = {"xref": f"x{axis} domain", "yref": f"y{axis} domain", "x": 0.5, "y": 1.0, "yanchor": "bottom"}
        words = {"text": safe(title), "showarrow": False, "font": {"size": 12, "color": "--muted"}}
        frame["annotations"].append(words | where)
    frame |= {"margin": {"l": 56, "r": 10, "t": 26, "b": 48}}
    if named:
        frame |= {"showlegend": True, "legend": {"orientation": "h", "x": 0, "y": -0.3, "font": {"size": 12}}}
        frame["margin"]["b"] = 84
    return {"data": data, "layout": frame, "labels": False}


def epoch_panels(
    groups: Mapping[str, Sequence[str]],
    lines: Mapping[str, Sequence[Point]],
    marks: Sequence[tuple[int, dict[str, Any]]] = (),
) -> Spec | None:
    """Panels over epochs; a colour is taken once, since the legend is of all panels.

    Args:
        groups: title of a panel -> names of its lines.
        lines: name -> points by epoch.
        marks: epochs with the style of a vertical line.
    """
    order = [name for names in groups.values() for name in names]
    shown: list[tuple[str, list[Spec]]] = [(title, []) for title, names in groups.items() if names]
    for title, specs in shown:
        for name in groups[title]:
            place = order.index(name)
            specs += line(name.replace("_", " "), lines[name], colour(place), dash=place // _COLOURS)
    if not shown:
        return None
    epochs = sorted({int(place) for points in lines.values() for place, *_ in points})
    spec = panels(shown, "epoch", "", epochs)
    for epoch, style in marks:
        edges = {"type": "line", "x0": epoch, "x1": epoch, "y0": 0, "y1": 1, "line": {"width": 1, **style}}
        shapes = [{"xref": f"x{axis}", "yref": f"y{axis} domain"} | edges for axis in _axes(len(shown))]
        spec["layout"].setdefault("shapes", []).extend(shapes)
    return spec


def _axes(count: int) -> list[str]:
    return ["", *(str(place) for place in range(2, count + 1))]


def bars(series: Mapping[str, Sequence[Mapping[str, Any]]], label: str, x: str, y: str, first: int = 0) -> Spec:
    """Grouped bars with whiskers over categories.

    Args:
        series: name -> rows with value, low, high, and their place under ``label``.
        first: number of the first colour.
    """
    data = []
    for place, (name, rows) in enumerate(series.items(), start=first):
        points = [(number(row["value"]), number(row["low"]), number(row["high"])) for row in rows]
        data.append(
            {
                "type": "bar",
                "name": safe(name),
                "x": [safe(str(row[label])) for row in rows],
                "y": [None if value is None else short(value) for value, _, _ in points],
                "marker": {"color": colour(place)},
                "error_y": whiskers(points, "--muted") | {"width": 2},
                "hovertemplate": f"<b>{safe(name)}</b> %{{x}}: %{{y:.4f}}<extra></extra>",
            }
        )
    frame = layout(None, x, y, small=True)
    frame["xaxis"] |= {"type": "category"}
    frame["yaxis"] |= {"rangemode": "tozero"}
    frame |= {"barmode": "group", "margin": {"l": 56, "r": 10, "t": 10, "b": 60}}
    if len(data) > 1:
        frame |= {"showlegend": True, "legend": {"orientation": "h", "x": 0, "y": 1.04, "yanchor": "bottom"}}
        frame["margin"]["t"] = 34
    return {"data": data, "layout": frame, "labels": False}
