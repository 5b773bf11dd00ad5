"""Figures as plotly specifications: plain data and layout, drawn by the page itself.

A colour is the name of one of the page's CSS variables (``--ink``); the page puts in the value of the light
or the dark scheme. Nothing here needs plotly: the library is only written into the page.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from medunlearn.reports.content import ModelResult
from medunlearn.reports.headline import Plane
from medunlearn.reports.readings import Reading, Results, is_composite
from medunlearn.reports.words import decimal, interval, place_text

Spec = dict[str, Any]
Range = list[float]

_COLOURS = 8
_REFERENCES = {"target": ("star", "★"), "retrained": ("diamond", "◆")}
# Where there are more methods than colours, the second turn is drawn hollow.
_TURNS = (("circle", "●"), ("circle-open", "○"), ("square", "■"), ("square-open", "□"))
# A star of one size looks smaller than a circle of it.
_SIZES = {"target": 17, "retrained": 14, "unlearned": 12}


def colours(models: Sequence[ModelResult]) -> dict[str, str]:
    """A model's label -> its CSS variable; target and retrained have the ink's, methods one each in turn."""
    unlearned = [model.label for model in models if model.role == "unlearned"]
    found = {label: f"--m{place % _COLOURS + 1}" for place, label in enumerate(unlearned)}
    return {model.label: found.get(model.label, "--ink") for model in models}


def symbols(models: Sequence[ModelResult]) -> dict[str, tuple[str, str]]:
    """A model's label -> its marker's name in plotly, and the character that looks like it."""
    unlearned = [model.label for model in models if model.role == "unlearned"]
    found = {label: _TURNS[place // _COLOURS % len(_TURNS)] for place, label in enumerate(unlearned)}
    return {model.label: found.get(model.label) or _REFERENCES[model.role] for model in models}


def tradeoff(results: Results, where: Plane) -> Spec:
    """Utility on retain against forgetting on forget, one labelled point a model."""
    data = _points(results, where, bars=True)
    ranges = plot_ranges(results, [where])
    frame = layout(ranges, axis_title(results, where, "retain"), axis_title(results, where, "forget"))
    frame |= {"shapes": _crosshair(results, where), "margin": {"l": 78, "r": 16, "t": 12, "b": 72}}
    return {"data": data, "layout": frame, "labels": True}


def panels(results: Results, planes: Sequence[Plane]) -> list[tuple[str, Spec]]:
    """The trade-off of each fold and kind, all on the same axes."""
    ranges = plot_ranges(results, planes)
    found = []
    for where in planes:
        frame = layout(ranges, f"Utility →<br>{where.utility}", f"Forgetting →<br>{where.forgetting}", small=True)
        frame |= {"shapes": _crosshair(results, where), "margin": {"l": 66, "r": 10, "t": 8, "b": 58}}
        spec = {"data": _points(results, where, bars=False), "layout": frame, "labels": False}
        found.append((place_text(where.fold, where.kind), spec))
    return found


def axis_title(results: Results, where: Plane, side: str) -> str:
    """The metric exactly as it is named in the tables, and which way is which."""
    metric = where.utility if side == "retain" else where.forgetting
    if metric is None:
        return ""
    if not is_composite(metric):
        title, meaning = results.describe(metric, side)
        return f"{title} on {side}<br>{meaning}"
    # In two lines, so that the names of all parts fit on a telephone too.
    more = "Utility (further right: knows more)" if side == "retain" else "Forgetting (further up: forgot more)"
    return f"{more}<br>{metric} on {side}"


def plot_ranges(results: Results, planes: Sequence[Plane]) -> tuple[Range, Range]:
    """Ranges of both axes around every point and interval that is drawn, for panels that are to compare."""
    values: tuple[list[float], list[float]] = ([], [])
    for where in planes:
        for model in results.models:
            found = _pair(results, model, where)
            for axis, reading in zip(values, found or (), strict=False):
                axis += [edge for edge in (reading.value, reading.low, reading.high) if edge is not None]
    return _range(values[0]), _range(values[1])


def _range(values: Sequence[float], narrowest: float = 0.2) -> Range:
    """A little more than the values span; never so narrow that noise looks like a difference."""
    if not values:
        return [0.0, 1.0]
    low, high = min(values), max(values)
    middle, span = (low + high) / 2, max(high - low, narrowest)
    return [short(middle - 0.58 * span), short(middle + 0.58 * span)]


def _pair(results: Results, model: ModelResult, where: Plane) -> tuple[Reading, Reading] | None:
    utility = results.reading(model, where.retain, where.utility)
    forgetting = results.reading(model, where.forget, where.forgetting)
    if utility is None or forgetting is None or utility.value is None or forgetting.value is None:
        return None
    return utility, forgetting


def _points(results: Results, where: Plane, *, bars: bool) -> list[Spec]:
    colour, symbol = colours(results.models), symbols(results.models)
    # The references are drawn last, so that no method hides them.
    ordered = sorted(results.models, key=lambda model: model.role != "unlearned")
    found = []
    for model in ordered:
        pair = _pair(results, model, where)
        if pair is not None:
            found.append(_point(model, pair, colour[model.label], symbol[model.label][0], bars=bars))
    return found


def _point(model: ModelResult, pair: tuple[Reading, Reading], colour: str, symbol: str, *, bars: bool) -> Spec:
    hover = "<br>".join(
        f"{name}: {decimal(reading.value or 0.0)} {interval(reading.low, reading.high)}"
        for name, reading in zip(("utility", "forgetting"), pair, strict=True)
    )
    scale = 1.0 if bars else 0.75
    marker = {"symbol": symbol, "size": _SIZES[model.role] * scale, "color": colour}
    spec: Spec = {
        "type": "scatter",
        "mode": "markers",
        "name": safe(model.label),
        "x": [pair[0].value],
        "y": [pair[1].value],
        "marker": marker | {"line": {"color": "--paper", "width": 1.5}},
        "hovertemplate": f"<b>{safe(model.label)}</b><br>{hover}<extra></extra>",
        "cliponaxis": False,
    }
    if bars:
        spec |= {f"error_{axis}": _bar(reading, colour) for axis, reading in zip("xy", pair, strict=True)}
    return spec


def _bar(reading: Reading, colour: str) -> Spec:
    """An interval as plotly takes it: lengths up and down from the value."""
    if reading.value is None or reading.low is None or reading.high is None:
        return {"visible": False}
    up, down = max(0.0, reading.high - reading.value), max(0.0, reading.value - reading.low)
    line = {"color": colour, "thickness": 1.1, "width": 3}
    return {"type": "data", "symmetric": False, "array": [up], "arrayminus": [down], **line}


def _crosshair(results: Results, where: Plane) -> list[Spec]:
    """Faint lines through the retrained model, the point that all others are read against."""
    pair = None if results.retrained is None else _pair(results, results.retrained, where)
    if pair is None:
        return []
    line = {"type": "line", "layer": "between", "line": {"color": "--muted", "width": 1, "dash": "dot"}}
    x, y = pair[0].value, pair[1].value
    return [
        line | {"xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1},
        line | {"xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": y, "y1": y},
    ]


TEMPLATE: Spec = {
    "layout": {
        **{
            name: {
                "gridcolor": "--line",
                "zeroline": False,
                "linecolor": "--line",
                "showline": True,
                "tickfont": {"color": "--muted", "size": 12},
                "nticks": 7,
                "title": {"standoff": 8, "font": {"size": 13}},
            }
            for name in ("xaxis", "yaxis")
        },
        "font": {"color": "--ink", "family": "--sans", "size": 13},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 12}},
        "hoverlabel": {
            "bgcolor": "--paper",
            "bordercolor": "--line",
            "font": {"color": "--ink", "family": "--sans"},
        },
        "margin": {"l": 52, "r": 10, "t": 26, "b": 44},
        "dragmode": False,
    }
}
"""The plotly template of every figure; a colour is the name of one of the page's CSS variables."""


def layout(ranges: tuple[Range, Range] | None, x: str, y: str, *, small: bool = False) -> Spec:
    """Axes with their titles, on top of the template; ranges None leaves them to plotly."""
    axes: list[Spec] = [
        {"title": {"text": _lines(title), **({"font": {"size": 11}} if small else {})}} for title in (x, y)
    ]
    if ranges is not None:
        axes = [one | {"range": span} for one, span in zip(axes, ranges, strict=True)]
    return {"xaxis": axes[0], "yaxis": axes[1]}


def _lines(text: str) -> str:
    """A title whose line breaks are the only tags in it."""
    return "<br>".join(safe(line) for line in text.split("<br>"))


def short(value: float) -> float:
    """Six significant digits are more than a screen can show."""
    return float(f"{value:.6g}")


def safe(text: str) -> str:
    """Plotly reads tags in its texts; a name is not to be one. Escaping twice does no harm to what we write."""
    return html.escape(html.unescape(text), quote=False)
