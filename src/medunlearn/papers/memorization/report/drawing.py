"""Lines with bands, bars, and panels side by side: parts of the memorization paper's figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medunlearn.reports.figures import Spec, layout, safe, short, whiskers
from medunlearn.reports.readings import number

_COLOURS = 8
_DASHES = ("solid", "dash", "dot", "dashdot")
Point = tuple[float, float | None, float | None, float | None]
"""Place on the axis, value, low, high."""


def colour(place: int) -> str:
    """The CSS variable of the n-th line."""
    return f"--m{place % _COLOURS + 1}"


def dash(place: int, turn: int = 1) -> str:
    """The dash of the n-th line, another one after each ``turn`` lines."""
    return _DASHES[place // turn % len(_DASHES)]


def line(
    name: str, points: Sequence[Point], shade: str, *, dash: str = "solid", hollow: bool = False
) -> list[Spec]:
    """A line with a band of its intervals; nothing where no point has a value."""
    if all(value is None for _, value, _, _ in points):
        return []
    kind: Spec = {"type": "scatter", "name": safe(name), "legendgroup": safe(name), "cliponaxis": False}
    drawn = kind | {
        "mode": "lines+markers",
        "x": [place for place, *_ in points],
        "y": [None if value is None else short(value) for _, value, _, _ in points],
        "line": {"color": shade, "width": 1.8, "dash": dash},
        "marker": {"color": shade, "size": 7, "symbol": "circle-open" if hollow else "circle"},
        "hovertemplate": f"<b>{safe(name)}</b><br>%{{x}}: %{{y:.4f}}<extra></extra>",
    }
    edges = [(place, low, high) for place, _, low, high in points if low is not None and high is not None]
    if len(edges) < 2:
        return [drawn]
    there = [(place, short(high)) for place, _, high in edges]
    back = [(place, short(low)) for place, low, _ in reversed(edges)]
    x, y = (list(side) for side in zip(*there, *back, strict=True))
    band: Spec = {"mode": "lines", "x": x, "y": y, "fill": "toself", "fillcolor": shade, "opacity": 0.16}
    return [kind | band | {"line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}, drawn]


def panels(
    groups: Sequence[tuple[str, list[Spec]]],
    x: str,
    y: str,
    *,
    ticks: Sequence[int] = (),
    named: bool = False,
    gap: float = 0.12,
) -> Spec:
    """Panels (title, lines) side by side in one figure, each with axes of its own."""
    frame = layout(None, x, y, small=True)
    width = (1 - gap * (len(groups) - 1)) / len(groups)
    styles = {axis: frame.pop(f"{axis}axis") for axis in "xy"}
    frame["annotations"] = []
    data: list[Spec] = []
    for place, (axis, (title, lines)) in enumerate(zip(_axes(len(groups)), groups, strict=True)):
        start = place * (width + gap)
        frame[f"xaxis{axis}"] = styles["x"] | {"domain": [short(start), short(start + width)], "anchor": f"y{axis}"}
        frame[f"yaxis{axis}"] = styles["y"] | {"anchor": f"x{axis}", "rangemode": "tozero"}
        if ticks:
            frame[f"xaxis{axis}"] |= {"tickvals": list(ticks)}
        data += [one | {"xaxis": f"x{axis}", "yaxis": f"y{axis}"} for one in lines]
        where = {"xref": f"x{axis} domain", "yref": f"y{axis} domain", "x": 0.5, "y": 1.0, "yanchor": "bottom"}
        words = {"text": safe(title), "showarrow": False, "font": {"size": 12, "color": "--muted"}}
        frame["annotations"].append(words | where)
    frame |= {"margin": {"l": 56, "r": 10, "t": 26, "b": 48}}
    if named:
        frame |= {"showlegend": True, "legend": {"orientation": "h", "x": 0, "y": -0.3, "font": {"size": 12}}}
        frame["margin"]["b"] = 84
    return {"data": data, "layout": frame, "labels": False}


def mark(spec: Spec, count: int, place: float, **style: Any) -> None:
    """Draw a vertical line through every one of ``count`` panels."""
    spec["layout"].setdefault("shapes", []).extend(
        {
            "type": "line",
            "xref": f"x{axis}",
            "yref": f"y{axis} domain",
            "x0": place,
            "x1": place,
            "y0": 0,
            "y1": 1,
            "line": {"width": 1, **style},
        }
        for axis in _axes(count)
    )


def _axes(count: int) -> Iterator[str]:
    yield from ("" if place == 0 else str(place + 1) for place in range(count))


def bar(name: str, rows: Sequence[Mapping[str, Any]], label: str, shade: str) -> Spec:
    """One series of bars with whiskers; rows have value, low, high, and their place under ``label``."""
    values = [number(row["value"]) for row in rows]
    edges = ((number(row["value"]), number(row["low"]), number(row["high"])) for row in rows)
    return {
        "type": "bar",
        "name": safe(name),
        "x": [safe(str(row[label])) for row in rows],
        "y": [None if value is None else short(value) for value in values],
        "marker": {"color": shade},
        "error_y": whiskers(edges, "--muted") | {"width": 2},
        "hovertemplate": f"<b>{safe(name)}</b> %{{x}}: %{{y:.4f}}<extra></extra>",
    }


def bars(data: list[Spec], x: str, y: str = "ratio") -> Spec:
    """Grouped bars over categories."""
    frame = layout(None, x, y, small=True)
    frame["xaxis"] |= {"type": "category"}
    frame["yaxis"] |= {"rangemode": "tozero"}
    frame |= {"barmode": "group", "margin": {"l": 56, "r": 10, "t": 10, "b": 60}}
    if len(data) > 1:
        frame |= {"showlegend": True, "legend": {"orientation": "h", "x": 0, "y": 1.04, "yanchor": "bottom"}}
        frame["margin"]["t"] = 34
    return {"data": data, "layout": frame, "labels": False}
