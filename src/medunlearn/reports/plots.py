"""Utility against forgetting, and training curves, as specifications of figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from medunlearn.reports.blocks import Spec
from medunlearn.reports.content import ModelResult
from medunlearn.reports.figures import Range, colours, layout, line, plot, safe, short, symbols, whiskers
from medunlearn.reports.formatting import decimal, interval, place_text
from medunlearn.reports.readings import Plane, Reading, Results, is_composite, rows_of
from medunlearn.reports.wording import SIDES, metric_words

# A star of one size looks smaller than a circle of it.
SIZES = {"target": 17, "retrained": 14, "unlearned": 12}
_DASHES = ("solid", "dash", "dot", "dashdot")
_MOST_POINTS = 400
Pair = tuple[Reading, Reading]


def tradeoff(results: Results, where: Plane) -> Spec:
    """Utility on retain against forgetting on forget, one labelled point per model."""
    titles = (_axis_title(results, where, side) for side in ("retain", "forget"))
    frame = layout(_ranges(results, [where]), *titles)
    shapes = _crosshair(results, where)
    return plot(_points(results, where, bars=True), frame, (78, 16, 12, 72), labels=True, shapes=shapes)


def panels(results: Results, planes: Sequence[Plane]) -> list[tuple[str, Spec]]:
    """The trade-off for each fold and kind, all with the same axes."""
    ranges = _ranges(results, planes)
    specs = []
    for where in planes:
        frame = layout(ranges, f"Utility, {SIDES['retain']} →", f"Forgetting, {SIDES['forget']} →", small=True)
        points, shapes = _points(results, where, bars=False), _crosshair(results, where)
        specs.append((place_text(where.fold, where.kind), plot(points, frame, (66, 10, 8, 58), shapes=shapes)))
    return specs


def _axis_title(results: Results, where: Plane, side: str) -> str:
    """Title of an axis: its quantity with the direction, and the measure in words."""
    metric = where.utility if side == "retain" else where.forgetting
    if metric is None:
        return ""
    if is_composite(metric):
        directed = (
            "Utility (further right: knows more)" if side == "retain" else "Forgetting (further up: forgot more)"
        )
        return f"{directed}<br>{metric_words(results, metric, side)}, {SIDES[side]}"
    title, meaning = results.describe(metric, side)
    return f"{title}, {SIDES[side]}<br>{meaning}"


def _ranges(results: Results, planes: Sequence[Plane]) -> tuple[Range, Range]:
    """Common ranges of both axes that cover every point and interval, for comparable panels."""
    pairs = [pair for where in planes for _, pair in _pairs(results, where)]
    x, y = (
        [edge for pair in pairs for edge in (pair[n].value, pair[n].low, pair[n].high) if edge is not None]
        for n in (0, 1)
    )
    return _range(x), _range(y)


def _range(values: Sequence[float], narrowest: float = 0.2) -> Range:
    """A range slightly larger than the values span; never so narrow that noise looks like a difference."""
    if not values:
        return [0.0, 1.0]
    low, high = min(values), max(values)
    middle, span = (low + high) / 2, max(high - low, narrowest)
    return [short(middle - 0.58 * span), short(middle + 0.58 * span)]


def _pairs(results: Results, where: Plane) -> Iterator[tuple[ModelResult, Pair]]:
    """Models with both numbers, references last, so that no method hides them."""
    for model in sorted(results.models, key=lambda model: model.role != "unlearned"):
        utility = results.reading(model, where.retain, where.utility)
        forgetting = results.reading(model, where.forget, where.forgetting)
        if utility and forgetting and utility.value is not None and forgetting.value is not None:
            yield model, (utility, forgetting)


def _points(results: Results, where: Plane, *, bars: bool) -> list[Spec]:
    colour, symbol = colours(results.models), symbols(results.models)
    return [
        _point(model, pair, colour[model.label], symbol[model.label][0], bars=bars)
        for model, pair in _pairs(results, where)
    ]


def _point(model: ModelResult, pair: Pair, colour: str, symbol: str, *, bars: bool) -> Spec:
    hover = "<br>".join(
        f"{name}: {decimal(reading.value or 0.0)} {interval(reading.low, reading.high)}"
        for name, reading in zip(("utility", "forgetting"), pair, strict=True)
    )
    marker = {"symbol": symbol, "size": SIZES[model.role] * (1.0 if bars else 0.75), "color": colour}
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
    for axis, reading in zip("xy", pair if bars else (), strict=False):
        has_interval = None not in (reading.low, reading.high)
        spec[f"error_{axis}"] = (
            whiskers([(reading.value, reading.low, reading.high)], colour) if has_interval else {"visible": False}
        )
    return spec


class Dot(NamedTuple):
    """One line of a dot plot: a name with a number and its interval."""

    name: str
    reading: Any
    size: float = 12


def dot_plot(
    dots: Sequence[Dot], looks: Mapping[str, tuple[str, str]], title: str, span: Range, shapes: Sequence[Spec] = ()
) -> Spec:
    """Numbers with intervals below each other, the first dot at the top.

    Args:
        looks: name -> CSS variable of its colour, and its marker.
    """
    data: list[Spec] = []
    for name, reading, size in dots:
        colour, mark = looks[name]
        value, has_interval = reading.value or 0.0, None not in (reading.low, reading.high)
        errors = whiskers([(value, reading.low, reading.high)], colour) if has_interval else {}
        marker = {"symbol": mark, "size": 0.75 * size, "color": colour}
        place = {"x": [short(value)], "y": [safe(name)], "error_x": errors}
        data.append({"type": "scatter", "mode": "markers", "name": safe(name), "marker": marker, **place})
    frame = layout(None, title, "")
    frame["xaxis"] |= {"range": [short(edge) for edge in span]}
    frame["yaxis"] |= {"type": "category", "categoryarray": [safe(dot.name) for dot in reversed(dots)]}
    return plot(data, frame, shapes=list(shapes))


def _crosshair(results: Results, where: Plane) -> list[Spec]:
    """Faint lines through the retrained model, the reference point."""
    style = {"type": "line", "layer": "between", "line": {"color": "--muted", "width": 1, "dash": "dot"}}
    for model, (utility, forgetting) in _pairs(results, where):
        if model is results.retrained:
            x, y = utility.value, forgetting.value
            return [
                style | {"xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1},
                style | {"xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": y, "y1": y},
            ]
    return []


def training_curves(models: Sequence[ModelResult]) -> list[tuple[str, Spec]]:
    """Loss by step: target and retrained together, then each unlearning method with its terms."""
    colour, frame = colours(models), layout(None, "step", "loss")
    trained = [model for model in models if len(model.history)]
    references = [model for model in trained if model.role != "unlearned"]
    curves = []
    if references:
        lines = [
            _loss(model.label, model, "loss", colour[model.label], dash)
            for model, dash in zip(references, _DASHES, strict=False)
        ]
        curves.append((" and ".join(model.label for model in references), lines))
    curves += [(m.label, _terms(m, colour[m.label])) for m in trained if m.role == "unlearned"]
    return [(title, plot(lines, frame, showlegend=True)) for title, lines in curves]


def _terms(model: ModelResult, colour: str) -> list[Spec]:
    terms = [str(name) for name in model.history.columns if str(name).startswith("loss/")]
    if len(terms) < 2:
        return [_loss("loss", model, "loss", colour, "solid")]
    lines = [
        _loss(term.removeprefix("loss/"), model, term, colour, _DASHES[(place + 1) % len(_DASHES)])
        for place, term in enumerate(terms)
    ]
    return [*lines, _loss("total", model, "loss", "--ink", "solid")]


def _loss(name: str, model: ModelResult, column: str, colour: str, dash: str) -> Spec:
    steps, values = thinned([(float(row["step"]), row[column]) for row in rows_of(model.history)])
    hover = "step %{x:.0f}: %{y:.4g}<extra>%{fullData.name}</extra>"
    return line(name, colour, hover, dash=dash, x=steps, y=values)


def thinned(points: Sequence[tuple[float, Any]]) -> tuple[list[float], list[float | None]]:
    """At most 400 points: means over equal numbers of steps, so that no spike is picked or lost by chance.

    Non-finite values break the line.
    """
    stride = math.ceil(len(points) / _MOST_POINTS) or 1
    runs = [points[start : start + stride] for start in range(0, len(points), stride)]
    means = [sum(float(value) for _, value in run) / len(run) for run in runs]
    return [run[-1][0] for run in runs], [short(mean) if math.isfinite(mean) else None for mean in means]
