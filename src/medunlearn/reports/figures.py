"""Common parts of all figures, as plain specifications in plotly's words, drawn by :mod:`medunlearn.reports.svg`.

A colour is the name of a CSS variable of the page (``--ink``), which the page resolves for the light or dark
scheme.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from medunlearn.reports.blocks import Spec as Spec
from medunlearn.reports.content import ModelResult

Range = list[float]
Edge = tuple[Any, float | None, float | None]
"""Value or place of a point, and the ends of its interval."""

FIGURE_SIZES: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "small": {"": (370, 280)},
    "level": {"": (370, 220)},
    "wide": {"": (1080, 270)},
    "large": {"on-wide": (640, 500), "on-narrow": (370, 440)},
    "ranking": {"": (440, 500)},
}
"""Size of a figure -> class of a drawing -> its width and height in pixels."""
_GAP = 0.12
"""Share of the width between two panels."""
COLOURS = 12
"""Line colours, taken in turn."""
_REFERENCES = {"target": ("star", "★"), "retrained": ("diamond", "◆")}
MARKS = (
    *(("circle", "●"), ("square", "■"), ("triangle-up", "▲"), ("cross", "✚"), ("triangle-down", "▼"), ("x", "✖")),
    *(("pentagon", "⬟"), ("triangle-left", "◀"), ("hourglass", "⧗"), ("triangle-right", "▶"), ("hexagon", "⬢")),
    ("bowtie", "⧓"),
)
"""Markers of methods and similar characters; no method shares its colour or, up to twelve, its mark."""


def turn_colour(place: int) -> str:
    """The CSS variable of the n-th line."""
    return f"--m{place % COLOURS + 1}"


def turn_mark(place: int) -> tuple[str, str]:
    """Marker and character of the n-th method; after each turn of the colours the marks move on by one."""
    return MARKS[(place + place // COLOURS) % len(MARKS)]


def colours(models: Sequence[ModelResult]) -> dict[str, str]:
    """A model's label -> its CSS variable; target and retrained use the ink colour, methods one colour each in
    turn.
    """
    turns = {label: turn_colour(place) for place, label in enumerate(_methods(models))}
    return {model.label: turns.get(model.label, "--ink") for model in models}


def symbols(models: Sequence[ModelResult]) -> dict[str, tuple[str, str]]:
    """A model's label -> its marker, and a similar character."""
    turns = {label: turn_mark(place) for place, label in enumerate(_methods(models))}
    return {model.label: turns.get(model.label) or _REFERENCES[model.role] for model in models}


def _methods(models: Sequence[ModelResult]) -> list[str]:
    return [model.label for model in models if model.role == "unlearned"]


def legend(models: Sequence[ModelResult]) -> tuple[tuple[str, str, str], ...]:
    """Label, symbol and CSS variable of each model."""
    colour, symbol = colours(models), symbols(models)
    return tuple((model.label, symbol[model.label][1], colour[model.label]) for model in models)


def layout(ranges: tuple[Range, Range] | None, x: str, y: str, *, small: bool = False) -> Spec:
    """Axes with their titles; None as ranges covers the points with their intervals."""
    axes: list[Spec] = [
        {"title": {"text": _lines(title), **({"font": {"size": 11}} if small else {})}} for title in (x, y)
    ]
    if ranges is not None:
        axes = [axis | {"range": span} for axis, span in zip(axes, ranges, strict=True)]
    return {"xaxis": axes[0], "yaxis": axes[1]}


def plot(
    data: Iterable[Spec], frame: Spec, margin: Sequence[int] = (), *, labels: bool = False, **more: Any
) -> Spec:
    """A figure: its traces in a layout, with margins left, right, top and bottom; ``labels`` annotates its
    points.
    """
    space = {"margin": dict(zip("lrtb", margin, strict=True))} if margin else {}
    return {"data": list(data), "layout": {**frame, **space, **more}, "labels": labels}


def panels(
    groups: Sequence[tuple[str, list[Spec]]],
    x: str,
    y: str,
    ticks: Sequence[int],
    *,
    named: bool = True,
    span: Range | None = None,
) -> Spec:
    """Panels (title, lines) side by side in one figure, each with axes of its own.

    Args:
        named: add a legend.
        span: range of every panel's y axis; None: each has its own, from 0.
    """
    frame = layout(None, x, y, small=True)
    width = (1 - _GAP * (len(groups) - 1)) / len(groups)
    styles = {axis: frame.pop(f"{axis}axis") for axis in "xy"}
    frame["annotations"] = []
    data: list[Spec] = []
    for place, (axis, (title, lines)) in enumerate(zip(axes_names(len(groups)), groups, strict=True)):
        start = place * (width + _GAP)
        domain = {"domain": [short(start), short(start + width)], "tickvals": list(ticks)}
        frame[f"xaxis{axis}"] = styles["x"] | domain | {"anchor": f"y{axis}"}
        frame[f"yaxis{axis}"] = styles["y"] | {
            "anchor": f"x{axis}",
            **({"range": span} if span else {"rangemode": "tozero"}),
        }
        data += [trace | {"xaxis": f"x{axis}", "yaxis": f"y{axis}"} for trace in lines]
        where = {"xref": f"x{axis} domain", "yref": f"y{axis} domain", "x": 0.5, "y": 1.0, "yanchor": "bottom"}
        words = {"text": safe(title), "showarrow": False, "font": {"size": 12, "color": "--muted"}}
        frame["annotations"].append(words | where)
    if not named:
        return plot(data, frame, (56, 10, 26, 48))
    names = {"orientation": "h", "x": 0, "y": -0.3, "font": {"size": 12}}
    return plot(data, frame, (56, 10, 26, 84), showlegend=True, legend=names)


def axes_names(count: int) -> list[str]:
    """Suffixes of so many pairs of axes: none for the first."""
    return ["", *(str(place) for place in range(2, count + 1))]


def line(name: str, colour: str, hover: str, *, dash: str = "", width: float = 1.8, **more: Any) -> Spec:
    """A trace of points joined by lines; ``more`` has further properties."""
    style = {"color": colour, "width": width} | ({"dash": dash} if dash else {})
    trace = {"type": "scatter", "mode": "lines", "name": safe(name), "hovertemplate": hover, "line": style}
    return trace | more


def bars(
    name: str, categories: Iterable[str], edges: Sequence[Edge], colour: str, hover: str, *, width: int = 3
) -> Spec:
    """A trace of bars from (value, low, high), with whiskers of a width in pixels; no bar without a value."""
    return {
        "type": "bar",
        "name": safe(name),
        "x": list(map(safe, categories)),
        "y": [None if value is None else short(value) for value, _, _ in edges],
        "marker": {"color": colour},
        "error_y": whiskers(edges, "--muted") | {"width": width},
        "hovertemplate": hover,
    }


def band(edges: Sequence[Edge], trace: Mapping[str, Any], colour: str) -> list[Spec]:
    """Intervals as one area: forwards along the upper ends and back along the lower ones; empty for a single
    point.
    """
    complete = [edge for edge in edges if edge[1] is not None and edge[2] is not None]
    if len(complete) < 2:
        return []
    ends = [(place, high) for place, _, high in complete] + [(place, low) for place, low, _ in reversed(complete)]
    shape = {"x": [place for place, _ in ends], "y": [short(end or 0.0) for _, end in ends], "fill": "toself"}
    style = {"fillcolor": colour, "opacity": 0.16, "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
    return [{**trace, "mode": "lines", **shape, **style}]


def whiskers(edges: Iterable[Edge], colour: str = "") -> Spec:
    """Error bars of points from (value, low, high); of length 0 if a point has no interval."""
    points = [(value or 0.0, low, high) for value, low, high in edges]
    up = [0.0 if high is None else short(max(0.0, high - value)) for value, _, high in points]
    down = [0.0 if low is None else short(max(0.0, value - low)) for value, low, _ in points]
    errors: Spec = {
        "type": "data",
        "symmetric": False,
        "array": up,
        "arrayminus": down,
        "thickness": 1.1,
        "width": 3,
    }
    return errors | ({"color": colour} if colour else {})


def _lines(text: str) -> str:
    """A title in which line breaks are the only tags."""
    return "<br>".join(safe(part) for part in text.split("<br>"))


def short(value: float) -> float:
    """A number with six significant digits, more than a screen resolves."""
    return float(f"{value:.6g}")


def safe(text: str) -> str:
    """Escape text, since a title may hold line breaks as tags; escaping twice is harmless for our texts."""
    return html.escape(html.unescape(text), quote=False)
