"""Utility against forgetting: the scatter plot of the first screen, and one a fold and kind."""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.reports.blocks import Spec
from medunlearn.reports.content import ModelResult
from medunlearn.reports.figures import Range, colours, layout, safe, short, symbols, whiskers
from medunlearn.reports.headline import Plane
from medunlearn.reports.readings import Reading, Results, is_composite
from medunlearn.reports.words import decimal, interval, place_text

# A star of one size looks smaller than a circle of it.
_SIZES = {"target": 17, "retrained": 14, "unlearned": 12}


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
        for axis, one in zip("xy", pair, strict=True):
            shown = None not in (one.low, one.high)
            bars_of = whiskers([(one.value, one.low, one.high)], colour) if shown else {"visible": False}
            spec[f"error_{axis}"] = bars_of
    return spec


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
